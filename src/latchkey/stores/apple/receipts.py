"""StoreKit 1 receipts: a PKCS #7 message that Apple has signed, in base64. It lists what a customer has bought.

The signature is checked, because anybody can write a receipt that names a transaction of somebody else. Apple's library
does not check it: it only takes a transaction id out of a receipt. What was bought is then asked of Apple.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct

from latchkey.stores.apple.credentials import to_der
from latchkey.stores.errors import InvalidReceipt, StoreDown

if TYPE_CHECKING:
    from latchkey.stores.apple.certificate_chains import CertificateChains

# A receipt lists every purchase that the customer ever made in the app. Most have 10 KB, some several hundred.
LARGEST_RECEIPT = 4 * 1024 * 1024
_MOST_CERTIFICATES = 10
# The root of the certificates that sign receipts. Transactions are signed under another one.
_RECEIPT_ROOT = "Apple Root CA"

# ASN.1 tags.
_INTEGER, _OCTETS, _OID, _UTF8, _IA5, _SEQUENCE, _SET, _FIRST = 0x02, 0x04, 0x06, 0x0C, 0x16, 0x30, 0x31, 0xA0
# Object identifiers, as they are encoded.
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_MESSAGE_DIGEST = bytes.fromhex("2a864886f70d010904")
_DIGESTS: dict[bytes, hashes.HashAlgorithm] = {
    # The phones of before 2023 have receipts with SHA-1.
    bytes.fromhex("2b0e03021a"): hashes.SHA1(),  # noqa: S303
    bytes.fromhex("608648016503040201"): hashes.SHA256(),
}
# Apple's numbers for the fields of a receipt.
_BUNDLE_ID, _CREATED, _IN_APP, _TRANSACTION_ID, _ORIGINAL_TRANSACTION_ID = 2, 12, 17, 1703, 1705


class StoreKit1Receipt(Struct, frozen=True):
    bundle_id: str
    created_at: datetime
    # Of any purchase in it; None if there is none.
    transaction_id: str | None


def is_receipt(text: str) -> bool:
    """Whether this has the form of a StoreKit 1 receipt with a purchase in it, whoever signed it."""
    try:
        return _content(_Message.parse(_decoded(text)).content).transaction_id is not None
    except InvalidReceipt:
        return False


def open_receipt(text: str, root_certificates: tuple[str, ...]) -> StoreKit1Receipt:
    """InvalidReceipt if it is none, or not signed by Apple. StoreDown if the root for receipts is missing: anybody can
    name that root in a receipt, so this says nothing of the credentials."""
    message = _Message.parse(_decoded(text))
    content = _content(message.content)
    message.check(content.created_at, root_certificates)
    return content


def _decoded(text: str) -> bytes:
    if len(text) > LARGEST_RECEIPT:
        raise InvalidReceipt("This is too long for a receipt.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidReceipt("This is neither a signed transaction nor a receipt in base64.") from None


class _Message(Struct, frozen=True):
    """PKCS #7 SignedData with one signer, RFC 2315."""

    content: bytes
    certificates: tuple[bytes, ...]
    issuer: bytes
    serial: int
    digest: hashes.HashAlgorithm
    attributes: bytes | None
    signature: bytes

    @classmethod
    def parse(cls, der: bytes) -> _Message:
        try:
            kind, wrapped = _elements(_only(der, _SEQUENCE))
            if kind.value != _SIGNED_DATA or kind.tag != _OID:
                raise ValueError
            _, _, inner, *rest = _elements(_only(_expect(wrapped, _FIRST), _SEQUENCE))
            _, content = _elements(_expect(inner, _SEQUENCE))
            certificates = next((_elements(element.value) for element in rest if element.tag == _FIRST), [])
            (signer,) = _elements(_expect(rest[-1], _SET))
            _, who, digest, *more = _elements(_expect(signer, _SEQUENCE))
            issuer, serial = _elements(_expect(who, _SEQUENCE))
            attributes = more.pop(0) if more[0].tag == _FIRST else None
            return cls(
                _only(_expect(content, _FIRST), _OCTETS),
                tuple(certificate.whole for certificate in certificates[:_MOST_CERTIFICATES]),
                issuer.whole,
                int.from_bytes(_expect(serial, _INTEGER), "big", signed=True),
                _DIGESTS[_elements(_expect(digest, _SEQUENCE))[0].value],
                attributes.value if attributes is not None else None,
                _expect(more[1], _OCTETS),
            )
        except (ValueError, KeyError, IndexError):
            raise InvalidReceipt("This is neither a signed transaction nor a receipt of the App Store.") from None

    def check(self, created_at: datetime, root_certificates: tuple[str, ...]) -> None:
        # Imported when needed (`certificate_chains.py` says why).
        from appstoreserverlibrary.signed_data_verifier import VerificationException

        forged = InvalidReceipt("The receipt is not signed by Apple.")
        try:
            certificates = [x509.load_der_x509_certificate(certificate) for certificate in self.certificates]
            leaf = {(one.serial_number, one.issuer.public_bytes()): one for one in certificates}[
                self.serial, self.issuer
            ]
            intermediate = next(one for one in certificates if one.subject == leaf.issuer and one != leaf)
            self._check_signature(leaf)
        # What the library raises for broken certificates and keys is of many kinds.
        except Exception:
            raise forged from None
        try:
            pair = [base64.b64encode(one.public_bytes(Encoding.DER)).decode() for one in (leaf, intermediate)]
            _chains_under(root_certificates).check([*pair, ""], int(created_at.timestamp()))
        except VerificationException:
            if _is_receipt_root_missing(intermediate, root_certificates):
                raise StoreDown(
                    f"A StoreKit 1 receipt is signed under '{_RECEIPT_ROOT}', which is not among root_certificates."
                ) from None
            raise forged from None

    def _check_signature(self, leaf: x509.Certificate) -> None:
        signed = self.content
        if self.attributes is not None:
            pairs = (_elements(element.value) for element in _elements(self.attributes))
            told = {name.value: value for name, value, *_ in pairs}
            hashed = hashes.Hash(self.digest)
            hashed.update(self.content)
            if _only(_expect(told[_MESSAGE_DIGEST], _SET), _OCTETS) != hashed.finalize():
                raise InvalidSignature
            signed = bytes([_SET]) + _length(len(self.attributes)) + self.attributes
        key = leaf.public_key()
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(self.signature, signed, padding.PKCS1v15(), self.digest)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(self.signature, signed, ec.ECDSA(self.digest))
        else:
            raise InvalidSignature


@lru_cache(maxsize=64)
def _chains_under(root_certificates: tuple[str, ...]) -> CertificateChains:
    from latchkey.stores.apple.certificate_chains import CertificateChains

    # Not strict: the authorities of receipts are older than the rules of today.
    return CertificateChains(to_der(root_certificates), strict=False)


def _is_receipt_root_missing(intermediate: x509.Certificate, root_certificates: tuple[str, ...]) -> bool:
    try:
        names = intermediate.issuer.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    except ValueError:
        # A broken name is parsed only when somebody looks at it.
        return False
    if [name.value for name in names] != [_RECEIPT_ROOT]:
        return False
    roots = (x509.load_pem_x509_certificate(root_certificate.encode()) for root_certificate in root_certificates)
    return all(root.subject != intermediate.issuer for root in roots)


def _content(der: bytes) -> StoreKit1Receipt:
    try:
        fields = dict(_fields(der))
        transaction_id = None
        for field, value in _fields(der):
            if field == _IN_APP and transaction_id is None:
                bought = dict(_fields(value))
                named = bought.get(_TRANSACTION_ID) or bought.get(_ORIGINAL_TRANSACTION_ID)
                transaction_id = _only(named, _UTF8).decode("ascii") if named is not None else None
        created_at = datetime.fromisoformat(_only(fields[_CREATED], _IA5).decode("ascii"))
        if transaction_id is not None and not (transaction_id.isdigit() and len(transaction_id) <= 32):
            raise ValueError
        bundle_id = _only(fields[_BUNDLE_ID], _UTF8).decode()
        return StoreKit1Receipt(bundle_id, created_at.astimezone(UTC), transaction_id)
    except (ValueError, KeyError, IndexError, OverflowError):
        raise InvalidReceipt("The receipt does not hold what a receipt of the App Store holds.") from None


def _fields(der: bytes) -> Iterator[tuple[int, bytes]]:
    for element in _elements(_only(der, _SET)):
        number, _, value = _elements(_expect(element, _SEQUENCE))
        yield int.from_bytes(_expect(number, _INTEGER), "big"), _expect(value, _OCTETS)


class _Element(Struct, frozen=True):
    tag: int
    value: bytes
    # With tag and length.
    whole: bytes


def _elements(der: bytes) -> list[_Element]:
    """The elements in these bytes, one after another. DER only: lengths are definite. ValueError for anything else."""
    found, at = [], 0
    while at < len(der):
        begin, tag, size = at, der[at], der[at + 1] if at + 1 < len(der) else 0x80
        at += 2
        if size >= 0x80:
            count = size - 0x80
            if not 1 <= count <= 4 or at + count > len(der):
                raise ValueError("not DER")
            size, at = int.from_bytes(der[at : at + count], "big"), at + count
        if at + size > len(der):
            raise ValueError("cut off")
        found.append(_Element(tag, der[at : at + size], der[begin : at + size]))
        at += size
    return found


def _only(der: bytes, tag: int) -> bytes:
    (one,) = _elements(der)
    return _expect(one, tag)


def _expect(one: _Element, tag: int) -> bytes:
    if one.tag != tag:
        raise ValueError("another type than expected")
    return one.value


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(octets)]) + octets
