"""Checks certificate chains with Apple's library.

A module of its own, imported when the first chain is checked: the library and what it imports take 0.15 s of CPU, a
fifth of the start of a process, and most processes check none for a long time.
"""

import base64
from collections import OrderedDict
from collections.abc import Sequence

from appstoreserverlibrary.signed_data_verifier import VerificationException, VerificationStatus, _ChainVerifier
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from msgspec import Struct

from latchkey.stores.errors import NotAuthentic

_CHAINS_KEPT = 64


class _Good(Struct, frozen=True):
    key: PublicKeyTypes
    # Epoch seconds, both included.
    since: float
    until: float


class CertificateChains:
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

    def key_for(self, x5c: Sequence[str], at: int | None) -> EllipticCurvePublicKey:
        """The key of a leaf that signs for the App Store, if the chain was good at this moment in epoch seconds. None:
        when the leaf became valid."""
        try:
            key = self.check(x5c, _valid_from(x5c) if at is None else at)
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
            since = max(certificate.not_valid_before_utc.timestamp() for certificate in chain)
            until = min(certificate.not_valid_after_utc.timestamp() for certificate in chain)
            self._good[pair] = _Good(key, since, until)
            if len(self._good) > _CHAINS_KEPT:
                self._good.popitem(last=False)
        return key


def _valid_from(x5c: Sequence[str]) -> int:
    try:
        return int(x509.load_der_x509_certificate(base64.b64decode(x5c[0])).not_valid_before_utc.timestamp())
    # Anybody can send a certificate, and what the library raises for a broken one is of many kinds.
    except Exception as error:
        raise VerificationException(VerificationStatus.INVALID_CERTIFICATE) from error


def _reason(error: VerificationException) -> str:
    """For the operator who has to find out: a wrong root looks different from a forgery."""
    if error.status in (VerificationStatus.INVALID_CERTIFICATE, VerificationStatus.INVALID_CHAIN_LENGTH):
        return "The signature carries no chain of three certificates."
    if type(error.__cause__).__name__ == "X509StoreContextError":
        return "The certificate chain does not lead to a root certificate of these credentials, or was not valid then."
    return "The certificate chain is not one that signs for the App Store."
