"""A self-made key that signs as Google does: the tokens of Pub/Sub pushes, and a service account's own.

Latchkey believes it only where an operator's settings allow the host of the `certificates_url` in an app's credentials.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID
from msgspec import Struct

ISSUER = "https://accounts.google.com"
TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Google's push tokens live for an hour.
LIFETIME_S = 3600

# An emulator's clock may stand in any year.
_FROM = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SigningKey:
    key: RSAPrivateKey = field(repr=False)
    certificate: x509.Certificate

    @property
    def kid(self) -> str:
        """As Google writes them: 40 hexadecimal digits."""
        public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(public).hexdigest()[:40]

    @property
    def private_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def certificates(self) -> dict[str, str]:
        """The document that Google publishes at https://www.googleapis.com/oauth2/v1/certs."""
        return {self.kid: self.certificate.public_bytes(Encoding.PEM).decode()}

    def push_token(self, audience: str, email: str, now_s: int, /, **claims: Any) -> str:
        """The bearer token of a push. Each of `claims` replaces one of Google's; None leaves it out."""
        usual: dict[str, Any] = {
            "iss": ISSUER,
            "aud": audience,
            "azp": "113774264463038321964",
            "sub": "113774264463038321964",
            "email": email,
            "email_verified": True,
            "iat": now_s,
            "exp": now_s + LIFETIME_S,
        }
        return self.sign({name: value for name, value in (usual | claims).items() if value is not None})

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        return jwt.encode(dict(claims), self.key, algorithm="RS256", headers={"kid": self.kid, **header})

    def service_account(self, email: str, token_uri: str = TOKEN_URI) -> dict[str, str]:
        """The JSON that Google Cloud gives out for a key of a service account."""
        return {
            "type": "service_account",
            "project_id": "latchkey-emulator",
            "private_key_id": self.kid,
            "private_key": self.private_pem,
            "client_email": email,
            "client_id": "113774264463038321964",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": token_uri,
            "universe_domain": "googleapis.com",
        }

    def claimed_by(self, assertion: str, audience: str) -> dict[str, Any]:
        """The claims of an assertion that a holder of `service_account` signed for this token address, or for Google's:
        Google's library names the latter wherever it sends the assertion. ValueError for another signer or address, or
        an assertion that is too old."""
        try:
            return jwt.decode(
                assertion,
                self.key.public_key(),
                algorithms=["RS256"],
                audience=[audience, TOKEN_URI],
                options={"require": ["iss", "scope", "aud", "iat", "exp"]},
                leeway=60,
            )
        except jwt.PyJWTError as error:
            raise ValueError(f"not a valid assertion: {error}") from None


def make_signing_key() -> SigningKey:
    return _certified(generate_private_key(public_exponent=65537, key_size=2048))


def restore_signing_key(private_pem: str) -> SigningKey:
    """The same keys again, from `private_pem`: the certificate may be another, but the key and its id are the same."""
    key = serialization.load_pem_private_key(private_pem.encode(), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("the key must be an RSA key")  # noqa: TRY004 - the value is wrong, not its type
    return _certified(key)


def _certified(key: RSAPrivateKey) -> SigningKey:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "federated-signon.latchkey.test")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(_FROM).not_valid_after(_UNTIL)
    return SigningKey(key, builder.sign(key, hashes.SHA256()))


class GoogleKeys(Struct, frozen=True):
    """`google` signs the pushes; `account` is the key that the service asks the API with."""

    google: SigningKey
    account: SigningKey


def make_google_keys() -> GoogleKeys:
    return GoogleKeys(make_signing_key(), make_signing_key())
