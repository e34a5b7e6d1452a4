"""Credentials of stores that are the same in every run. Their keys sign nothing anywhere."""

from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID


def _private_key() -> str:
    return (
        derive_private_key(1, SECP256R1())
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


def _root() -> str:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Example Root")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


APPLE: dict[str, Any] = {
    "bundle_id": "com.example.notes",
    "app_apple_id": 1_234_567_890,
    "issuer_id": "57246542-96fe-1a63-e053-0824d011072a",
    "key_id": "2X9R4HXF34",
    "private_key": _private_key(),
    "root_certificates": [_root()],
}

STRIPE = {
    "api_key": "rk_test_000000000000000000000000",
    "webhook_secret": "whsec_000000000000000000000000",
    "previous_webhook_secret": "whsec_111111111111111111111111",
    "publishable_key": "pk_test_000000000000000000000000",
    "user_id_metadata_key": "app_user_id",
}
