"""Checks what Apple has signed, with Apple's own library and the roots that the operator trusts.

The library checks each certificate chain anew, which takes many times as long as the signature itself. A chain that was
found good is kept here, with the time in which all of its certificates are valid. The signature of a payload is checked
every time. Decision 0066 says why that is safe.
"""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from appstoreserverlibrary.models.Environment import Environment as AppleEnvironment
from appstoreserverlibrary.signed_data_verifier import (
    SignedDataVerifier,
    VerificationException,
    VerificationStatus,
    _ChainVerifier,
)
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from jwt import InvalidSignatureError

from latchkey.stores.apple.credentials import to_der
from latchkey.stores.errors import Malformed, NotAuthentic

# A signed notification holds two more signed objects and has about 15 KB.
LARGEST_JWS = 512 * 1024
_JWS = re.compile(r"[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*", re.ASCII)
_CHAINS_KEPT = 64


class Signatures:
    """Opens signed objects under one set of roots."""

    def __init__(self, roots: Sequence[bytes]) -> None:
        # The library skips every check for XCODE and LOCAL_TESTING. Here it never hears of them: it opens signatures
        # only, always as PRODUCTION, and the environment that a payload names is compared after that.
        self._verifier = SignedDataVerifier(list(roots), False, AppleEnvironment.PRODUCTION, "", 0)
        self._verifier._chain_verifier = Chains(roots)

    def open(self, signed: str) -> dict[str, Any]:
        """The payload. NotAuthentic if the signature or its chain is not right, Malformed if it is no signed object."""
        if len(signed) > LARGEST_JWS:
            raise Malformed(f"A signed object of more than {LARGEST_JWS} characters is not from Apple.")
        if not is_jws(signed):
            raise Malformed("This is not a signed object in the form that Apple sends.")
        try:
            payload = self._verifier._decode_signed_object(signed)
        except VerificationException as error:
            raise NotAuthentic(_reason(error)) from None
        if not isinstance(payload, dict):
            raise NotAuthentic("The signed object holds no JSON object.")
        return payload


@lru_cache(maxsize=64)
def signatures_under(root_certificates: tuple[str, ...]) -> Signatures:
    """Apps that trust the same roots share the chains that were found good."""
    return Signatures(to_der(root_certificates))


def is_jws(text: str) -> bool:
    return _JWS.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Good:
    key: PublicKeyTypes
    # Epoch seconds, both included.
    since: float
    until: float


class Chains(_ChainVerifier):
    """The library's check of a chain, made once for each pair of leaf and intermediate.

    Whether a chain is good depends on its certificates, the roots and the moment for which it is checked. The first two
    are fixed here, and within the validity of leaf, intermediate and root the moment changes nothing.
    """

    def __init__(self, roots: Sequence[bytes], *, strict: bool = True) -> None:
        super().__init__(list(roots), enable_strict_checks=strict)
        self._roots = [x509.load_der_x509_certificate(root) for root in roots]
        # Anybody can send the chains that Apple's signatures carry, so what is kept is bounded. The third certificate
        # is not part of the key: the library does not look at it, and its bytes could be anything.
        self._good: OrderedDict[tuple[str, str], _Good] = OrderedDict()

    # A key instead of its PEM text: the library passes it on to PyJWT, which takes both and then need not parse it.
    def verify_chain(  # type: ignore[override]
        self, certificates: list[str], perform_online_checks: bool, effective_date: int
    ) -> PublicKeyTypes | str:
        if len(certificates) != 3:
            raise VerificationException(VerificationStatus.INVALID_CHAIN_LENGTH)
        pair = (certificates[0], certificates[1])
        known = self._good.get(pair)
        if known is not None and known.since <= effective_date <= known.until:
            return known.key
        key: str = self._verify_chain_without_caching(certificates, perform_online_checks, effective_date)
        if (good := self._judged(pair, key)) is not None:
            self._good[pair] = good
            if len(self._good) > _CHAINS_KEPT:
                self._good.popitem(last=False)
        return key

    def _judged(self, pair: tuple[str, str], key: str) -> _Good | None:
        leaf, intermediate = (x509.load_der_x509_certificate(base64.b64decode(one)) for one in pair)
        roots = [root for root in self._roots if root.subject == intermediate.issuer]
        if not roots:
            return None
        # Of several roots with one name it does not matter which signed it: the time is valid for all of them.
        chain = (leaf, intermediate, *roots)
        return _Good(
            serialization.load_pem_public_key(key.encode()),
            max(one.not_valid_before_utc.timestamp() for one in chain),
            min(one.not_valid_after_utc.timestamp() for one in chain),
        )


def _reason(error: VerificationException) -> str:
    """For the operator who has to find out: a wrong root looks different from a forgery."""
    if error.status.name in ("INVALID_CERTIFICATE", "INVALID_CHAIN_LENGTH"):
        return "The signature carries no chain of three certificates."
    cause = error.__cause__
    if isinstance(cause, InvalidSignatureError):
        return "The signature does not fit the payload."
    if type(cause).__name__ == "X509StoreContextError":
        return "The certificate chain does not lead to a root certificate of these credentials, or was not valid then."
    return "The signature is not one of Apple's."
