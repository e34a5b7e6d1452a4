"""Checks what Apple has signed, under the roots that the operator trusts.

Apple's library checks the certificate chain. Checked anew for every signature that would take many times as long as the
signature itself, so a chain that was found good is kept, with the time in which all of its certificates are valid. The
signature of a payload is checked every time. Decision 0066 has the measurements and says why that is safe.
"""

from __future__ import annotations

import base64
import string
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from appstoreserverlibrary.signed_data_verifier import VerificationException, VerificationStatus, _ChainVerifier
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from jwt.algorithms import ECAlgorithm
from msgspec import Meta

from latchkey.domain.instants import LATEST
from latchkey.stores.apple.credentials import to_der
from latchkey.stores.errors import Malformed, NotAuthentic

# A signed notification holds two more signed objects and has about 15 KB.
LARGEST_JWS = 512 * 1024
_ALPHABET = (string.ascii_letters + string.digits + "_-").encode()
_CHAINS_KEPT = 64
_ES256 = ECAlgorithm(ECAlgorithm.SHA256)
_Instant = Annotated[int, Meta(ge=0, le=LATEST)]


class _Header(msgspec.Struct, frozen=True):
    alg: str
    x5c: list[str] = []
    # Names extensions that must be understood. Apple uses none.
    crit: Any = None


class _Dated(msgspec.Struct, frozen=True, rename="camel"):
    """When it was signed. An app transaction has another name for it."""

    signed_date: _Instant | None = None
    receipt_creation_date: _Instant | None = None


class Signatures:
    """Opens signed objects under one set of roots."""

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._chains = Chains(roots)

    def open(self, signed: str) -> bytes:
        """The payload. NotAuthentic if the signature or its chain is not right, Malformed if it is no signed object."""
        if len(signed) > LARGEST_JWS:
            raise Malformed(f"A signed object of more than {LARGEST_JWS} characters is not from Apple.")
        parts = jws_parts(signed)
        try:
            header = msgspec.json.decode(_bytes(parts[0]), type=_Header)
            payload, signature = _bytes(parts[1]), _bytes(parts[2])
            dated = msgspec.json.decode(payload, type=_Dated)
        except (ValueError, RecursionError):
            raise Malformed("This is not a signed object in the form that Apple sends.") from None
        if header.alg != "ES256" or header.crit is not None:
            raise NotAuthentic("The signature is not of the kind that Apple makes (ES256).")
        signed_at = dated.signed_date if dated.signed_date is not None else dated.receipt_creation_date
        if signed_at is None:
            raise NotAuthentic("The signed object does not say when it was signed.")
        key = self._chains.key_for(header.x5c, signed_at // 1000)
        if not _ES256.verify(signed[: signed.rindex(".")].encode(), key, signature):
            raise NotAuthentic("The signature does not fit the payload.")
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
        raise Malformed("This is not a signed object in the form that Apple sends.")
    return signed.split(".")


def payload_of(signed: str) -> bytes:
    """Without any check: for what was checked before."""
    try:
        return _bytes(jws_parts(signed)[1])
    except ValueError:
        raise Malformed("This is not a signed object in the form that Apple sends.") from None


def _bytes(part: str) -> bytes:
    # Only characters of the alphabet are left: `is_jws` has looked.
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclass(frozen=True, slots=True)
class _Good:
    key: PublicKeyTypes
    # Epoch seconds, both included.
    since: float
    until: float


class Chains:
    """The library's check of a chain, made once for each pair of leaf and intermediate.

    Whether a chain is good depends on its certificates, the roots and the moment for which it is checked. The first two
    are fixed here, and within the validity of leaf, intermediate and root the moment changes nothing.
    """

    def __init__(self, roots: Sequence[bytes], *, strict: bool = True) -> None:
        # Without online checks: certificates that Apple has revoked are not noticed. See the decision.
        self._verifier = _ChainVerifier(list(roots), enable_strict_checks=strict)
        self._roots = [x509.load_der_x509_certificate(root) for root in roots]
        # Anybody can send the chains that Apple's signatures carry, so the number kept is bounded. The third
        # certificate is not part of the key: the library does not look at it, and its bytes could be anything.
        self._good: OrderedDict[tuple[str, str], _Good] = OrderedDict()

    def key_for(self, x5c: Sequence[str], at: int) -> EllipticCurvePublicKey:
        """The key of a leaf that signs for the App Store, if the chain was good at this moment in epoch seconds."""
        try:
            key = self.check(x5c, at)
        except VerificationException as error:
            raise NotAuthentic(_reason(error)) from None
        if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
            raise NotAuthentic("The signature is not of the kind that Apple makes (ES256).")
        return key

    def check(self, x5c: Sequence[str], at: int) -> PublicKeyTypes:
        """VerificationException says why the chain is not good."""
        if len(x5c) != 3:
            raise VerificationException(VerificationStatus.INVALID_CHAIN_LENGTH)
        pair = (x5c[0], x5c[1])
        known = self._good.get(pair)
        if known is not None and known.since <= at <= known.until:
            return known.key
        try:
            pem = self._verifier.verify_chain(list(x5c), False, at)
            key = serialization.load_pem_public_key(pem.encode())
            leaf, intermediate = (x509.load_der_x509_certificate(base64.b64decode(one)) for one in pair)
        except VerificationException:
            raise
        # A certificate that one parser takes and another does not.
        except Exception as error:
            raise VerificationException(VerificationStatus.INVALID_CERTIFICATE) from error
        roots = [root for root in self._roots if root.subject == intermediate.issuer]
        if roots:
            # Of several roots with one name it does not matter which signed it: the time is valid for all of them.
            chain = (leaf, intermediate, *roots)
            since = max(one.not_valid_before_utc.timestamp() for one in chain)
            self._good[pair] = _Good(key, since, min(one.not_valid_after_utc.timestamp() for one in chain))
            if len(self._good) > _CHAINS_KEPT:
                self._good.popitem(last=False)
        return key


def _reason(error: VerificationException) -> str:
    """For the operator who has to find out: a wrong root looks different from a forgery."""
    if error.status in (VerificationStatus.INVALID_CERTIFICATE, VerificationStatus.INVALID_CHAIN_LENGTH):
        return "The signature carries no chain of three certificates."
    if type(error.__cause__).__name__ == "X509StoreContextError":
        return "The certificate chain does not lead to a root certificate of these credentials, or was not valid then."
    return "The certificate chain is not one that signs for the App Store."
