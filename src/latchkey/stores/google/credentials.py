"""What an operator gives for an app in Google Play, checked before it is kept."""

import re
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from google.auth.crypt import RSASigner

from latchkey.stores.credential_form import CredentialForm, declared, public_fingerprint, text

API_BASE_URL = "https://androidpublisher.googleapis.com"
CERTIFICATES_URL = "https://www.googleapis.com/oauth2/v1/certs"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", re.ASCII)
_LARGEST_ACCOUNT = 20_000


class ServiceAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks the Android Publisher API."""

    email: str
    key_id: str | None
    signer: Any
    # SHA-256 of the public key.
    fingerprint: str

    def __repr__(self) -> str:
        return f"ServiceAccount({self.email!r})"


class GoogleCredentials(msgspec.Struct, frozen=True, kw_only=True):
    package_name: str
    service_account: ServiceAccount
    # Who pushes notifications, and what the pushes are addressed to.
    push_service_account: str
    push_audience: str
    api_base_url: str
    certificates_url: str
    token_url: str


def _account(given: object) -> ServiceAccount:
    """As an object, or as the text of the file that Google Cloud gives out. No message repeats a value of it."""
    if isinstance(given, str) and len(given) <= _LARGEST_ACCOUNT:
        try:
            given = msgspec.json.decode(given)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise ValueError("is not valid JSON") from None
    if not isinstance(given, dict) or given.get("type") != "service_account":
        raise ValueError('must be the JSON of a service account\'s key, with "type": "service_account"')
    email, key_id = text(_EMAIL, "has no client_email", 320)(given.get("client_email")), given.get("private_key_id")
    signer, fingerprint = _signer(given.get("private_key"))
    usable = isinstance(key_id, str) and key_id.isalnum() and len(key_id) <= 100
    return ServiceAccount(email=email, key_id=key_id if usable else None, signer=signer, fingerprint=fingerprint)


def _signer(pem: object) -> tuple[Any, str]:
    wrong = "has no usable private_key: it must be an RSA key in PEM form"
    if not isinstance(pem, str) or not 100 <= len(pem) <= _LARGEST_ACCOUNT:
        raise ValueError(wrong)
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    # The library's own exceptions differ between its versions, and their messages may repeat parts of the key.
    except Exception:
        raise ValueError(wrong) from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < 2048:
        raise ValueError(wrong)
    return RSASigner(key), public_fingerprint(key.public_key())


def _besides(credentials: GoogleCredentials) -> dict[str, str]:
    account = credentials.service_account
    shown = {"key": f"SHA-256 {account.fingerprint[:16]}…"}
    return shown if account.key_id is None else {**shown, "private_key_id": account.key_id}


FIELDS = declared(
    __package__,
    {
        "service_account": {
            "json": dict[str, Any] | str,
            "check": _account,
            "show": lambda account: str(account.email),
        },
        "push_service_account": {"check": text(_EMAIL, "must be the email address of a service account", 320)},
        "api_base_url": {"address": API_BASE_URL},
        "certificates_url": {"address": CERTIFICATES_URL},
        "token_url": {"address": TOKEN_URL},
    },
)
FORM = CredentialForm("Google Play", FIELDS, GoogleCredentials, _besides)
