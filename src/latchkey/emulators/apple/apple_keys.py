"""The Apple emulator's keys: a certificate chain that signs as Apple does (root, intermediate and leaf, each with
Apple's marks), and the key by which the service may call its API.

Latchkey trusts the chain only where an operator has put its root among the `root_certificates` of an app's credentials.
"""

from __future__ import annotations

import base64
import secrets
import string
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

# The extensions by which a leaf may sign for the App Store, and an intermediate may issue such a leaf.
LEAF_MARK = x509.ObjectIdentifier("1.2.840.113635.100.6.11.1")
INTERMEDIATE_MARK = x509.ObjectIdentifier("1.2.840.113635.100.6.2.1")
_MARK_VALUE = b"\x05\x00"  # ASN.1 NULL, as in Apple's own certificates

# A signature is checked as of the date in the signed payload, and an emulator's clock may stand in any year.
FROM = datetime(2000, 1, 1, tzinfo=UTC)
UNTIL = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AppleChain:
    root: x509.Certificate
    intermediate: x509.Certificate
    leaf: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def root_pem(self) -> str:
        """What belongs into `root_certificates`."""
        return _pem(self.root)

    @property
    def x5c(self) -> list[str]:
        chain = (self.leaf, self.intermediate, self.root)
        return [base64.b64encode(certificate.public_bytes(Encoding.DER)).decode() for certificate in chain]

    def sign(self, payload: Mapping[str, Any]) -> str:
        return jwt.encode(dict(payload), self.key, algorithm="ES256", headers={"x5c": self.x5c, "typ": None})

    def to_pem(self) -> str:
        """All of it, for a file that only its owner can read. The leaf's private key comes last."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return "".join(_pem(certificate) for certificate in (self.root, self.intermediate, self.leaf)) + key.decode()

    @classmethod
    def from_pem(cls, text: str) -> AppleChain:
        """What `to_pem` wrote; ValueError for anything else."""
        certificates = x509.load_pem_x509_certificates(text.encode())
        key = load_pem_private_key(text[text.rindex("-----BEGIN PRIVATE KEY") :].encode(), None)
        if len(certificates) != 3 or not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("This file is not a certificate chain of the Apple emulator.")
        root, intermediate, leaf = certificates
        return cls(root, intermediate, leaf, key)


def make_chain(
    *,
    name: str = "Latchkey Apple emulator",
    not_before: datetime = FROM,
    not_after: datetime = UNTIL,
    leaf_mark: bool = True,
    intermediate_mark: bool = True,
) -> AppleChain:
    """A new chain with new keys. The keys of the authorities are thrown away: the chain signs nothing else.

    `not_before` and `not_after` are those of the leaf. The marks can be left out, to show that they are looked at.
    """
    root_key, middle_key, leaf_key = map(ec.generate_private_key, (ec.SECP384R1(), ec.SECP384R1(), ec.SECP256R1()))
    issuer = f"{name} Root CA", root_key
    root = _certificate(*issuer, issuer, FROM, UNTIL, authority=True)
    mark = INTERMEDIATE_MARK if intermediate_mark else None
    middle = _certificate(f"{name} intermediate", middle_key, issuer, FROM, UNTIL, authority=True, mark=mark)
    issuer, mark = (f"{name} intermediate", middle_key), LEAF_MARK if leaf_mark else None
    leaf = _certificate(f"{name} signing", leaf_key, issuer, not_before, not_after, mark=mark)
    return AppleChain(root, middle, leaf, leaf_key)


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[str, ec.EllipticCurvePrivateKey],
    not_before: datetime,
    not_after: datetime,
    *,
    authority: bool = False,
    mark: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    # Apple's library checks strictly by RFC 5280, so every extension that it asks for is here.
    usage = x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(_named(issuer[0]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key()), critical=False)
        .add_extension(usage, critical=True)
    )
    if mark is not None:
        builder = builder.add_extension(x509.UnrecognizedExtension(mark, _MARK_VALUE), critical=False)
    return builder.sign(issuer[1], hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


@dataclass(frozen=True, slots=True)
class AppleKeys:
    chain: AppleChain
    issuer_id: str
    key_id: str
    # Of the service, as the App Store hands it out once (a .p8 file).
    private_key: str = field(repr=False)
    # Another kind of key, for the App Store Connect API.
    connect_key_id: str = field(default_factory=lambda: new_key_id())
    connect_private_key: str = field(default_factory=lambda: new_private_key(), repr=False)


def make_apple_keys() -> AppleKeys:
    return AppleKeys(make_chain(), str(uuid.uuid4()), new_key_id(), new_private_key())


def public_key_of(private_key: str) -> ec.EllipticCurvePublicKey:
    loaded = load_pem_private_key(private_key.encode(), None).public_key()
    assert isinstance(loaded, ec.EllipticCurvePublicKey)
    return loaded


def new_private_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def new_key_id() -> str:
    return "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(10))
