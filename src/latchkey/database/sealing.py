"""Encrypts secrets before they are stored: AES-GCM with LATCHKEY_SECRET_KEY, bound to the row and column of each."""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import DecodeError, json

_NONCE = 12
T = TypeVar("T")


class UnsealableError(Exception):
    """A secret in the database was written with another LATCHKEY_SECRET_KEY, or was tampered with."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be decrypted. Is LATCHKEY_SECRET_KEY the one the database was created with?")


class Sealer:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, text: str, what: str) -> bytes:
        """`what` names the row and column, such as `wh_1/secret`. Copied to another row, the value cannot be
        decrypted."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, text.encode(), what.encode())

    def unseal(self, sealed: bytes, what: str) -> str:
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], what.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise UnsealableError(what) from error

    def token(self, value: object, what: str) -> str:
        """The value as JSON, sealed, for an address or a cookie."""
        return _as_text(self.seal(json.encode(value).decode(), what))

    def opened(self, token: str, shape: type[T], what: str) -> T:
        """The value of a token. Raises UnsealableError for every other text, also for one that differs in bits that
        stand for nothing."""
        try:
            sealed = urlsafe_b64decode(token + "==")
            if _as_text(sealed) != token:
                raise UnsealableError(what)
            return json.decode(self.unseal(sealed, what), type=shape)
        except (ValueError, DecodeError) as error:
            raise UnsealableError(what) from error


def _as_text(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).decode().rstrip("=")
