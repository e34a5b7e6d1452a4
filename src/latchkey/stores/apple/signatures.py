"""Checks what Apple has signed, under the roots that the operator trusts.

Apple's library checks the certificate chain (`certificate_chains.py`). Checked anew for every signature that would take
many times as long as the signature itself, so a chain that was found good is kept, with the time in which all of its
certificates are valid. The signature of a payload is checked every time. docs/architecture/apple.md says
why that is safe.
"""

import base64
import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from jwt.algorithms import ECAlgorithm
from msgspec import Meta

from latchkey.domain.instants import LATEST, Ms
from latchkey.stores.apple.credentials import to_der
from latchkey.stores.errors import Malformed, NotAuthentic

# A signed notification holds two more signed objects and has about 15 KB.
LARGEST_JWS = 512 * 1024
_ALPHABET = (string.ascii_letters + string.digits + "_-").encode()
_ES256 = ECAlgorithm(ECAlgorithm.SHA256)
_Instant = Annotated[int, Meta(ge=0, le=LATEST)]


class _Header(msgspec.Struct, frozen=True):
    alg: str
    x5c: list[str] = []
    # Names extensions that must be understood. Apple uses none.
    crit: Any = None


class NotSigned(Malformed):
    """No signed object at all, so certainly nothing that Apple has signed."""


class _Dated(msgspec.Struct, frozen=True, rename="camel"):
    """When it was signed. An app transaction has another name for it."""

    signed_date: _Instant | None = None
    receipt_creation_date: _Instant | None = None


class Signatures:
    """Opens signed objects under one set of roots."""

    def __init__(self, roots: Sequence[bytes]) -> None:
        from latchkey.stores.apple.certificate_chains import CertificateChains

        self._chains = CertificateChains(roots)

    def open(self, signed: str) -> bytes:
        """The payload. NotAuthentic if the signature or its chain is not right, NotSigned if it is no signed object.
        Malformed if Apple has signed it without a date."""
        if len(signed) > LARGEST_JWS:
            raise NotSigned(f"A signed object of more than {LARGEST_JWS} characters is not from Apple.")
        parts = jws_parts(signed)
        try:
            header = msgspec.json.decode(_bytes(parts[0]), type=_Header)
            payload, signature = _bytes(parts[1]), _bytes(parts[2])
        except (ValueError, RecursionError):
            raise NotSigned("This is not a signed object in the form that Apple sends.") from None
        if header.alg != "ES256" or header.crit is not None:
            raise NotAuthentic("The signature is not of the kind that Apple makes (ES256).")
        signed_at = _signed_at(payload)
        key = self._chains.key_for(header.x5c, None if signed_at is None else signed_at // 1000)
        if not _ES256.verify(signed[: signed.rindex(".")].encode(), key, signature):
            raise NotAuthentic("The signature does not fit the payload.")
        if signed_at is None:
            raise Malformed("The signed object does not say when it was signed.")
        return payload


@lru_cache(maxsize=64)
def signatures_under(root_certificates: tuple[str, ...]) -> Signatures:
    """Apps that trust the same roots share the chains that were found good."""
    return Signatures(to_der(root_certificates))


def is_jws(text: str) -> bool:
    """Three parts in the alphabet of base64url. A regular expression would take as long as the signature's check."""
    if not text.isascii() or text.encode().translate(None, _ALPHABET) != b"..":
        return False
    head, payload, _ = text.split(".")
    return len(head) >= 2 and len(payload) >= 2


def jws_parts(signed: str) -> list[str]:
    if not is_jws(signed):
        raise NotSigned("This is not a signed object in the form that Apple sends.")
    return signed.split(".")


def payload_of(signed: str) -> bytes:
    """Without any check: for what was checked before."""
    try:
        return _bytes(signed.split(".")[1])
    except (ValueError, IndexError):
        raise Malformed("This is not a signed object in the form that Apple sends.") from None


def _signed_at(payload: bytes) -> Ms | None:
    try:
        dated = msgspec.json.decode(payload, type=_Dated)
    except (ValueError, RecursionError):
        return None
    return dated.signed_date if dated.signed_date is not None else dated.receipt_creation_date


def _bytes(part: str) -> bytes:
    # Only characters of the alphabet are left: `is_jws` has looked.
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
