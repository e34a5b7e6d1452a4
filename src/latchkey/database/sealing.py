"""Encrypts secrets before they are stored: AES-GCM with LATCHKEY_SECRET_KEY, bound to the row and column of each."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12


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
