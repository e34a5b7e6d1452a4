"""What an operator gives for an app in Google Play, checked before it is kept."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from google.auth.crypt import RSASigner

from latchkey.stores.credential_form import (
    CredentialField,
    CredentialForm,
    address_field,
    address_of,
    api_address_field,
    check_known,
    check_required,
    public_fingerprint,
    text_of,
)

API_BASE_URL = "https://androidpublisher.googleapis.com"
CERTIFICATES_URL = "https://www.googleapis.com/oauth2/v1/certs"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address

_ADDRESSES = {"api_base_url": API_BASE_URL, "certificates_url": CERTIFICATES_URL, "token_url": TOKEN_URL}
_PACKAGE = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+", re.ASCII)
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)
_LARGEST_ACCOUNT = 20_000


FIELDS = (
    CredentialField(
        "package_name", "Package name", "the app's package name.", "Such as com.example.app.", required=True
    ),
    CredentialField(
        "service_account",
        "Key of the service account",
        "the service account's JSON.",
        "The JSON file or its content.",
        json=dict[str, Any] | str,
        file="the JSON file",
        secret=True,
        required=True,
    ),
    CredentialField(
        "push_audience",
        "Audience of the push subscription",
        "the audience of the push subscription.",
        "Exactly as in the push subscription.",
        suggestion="https://{host}/{app_id}",
        required=True,
    ),
    CredentialField(
        "push_service_account",
        "Service account of the push subscription",
        "the account that signs the pushes.",
        "Its e-mail address, such as pubsub-push@my-project.iam.gserviceaccount.com.",
        required=True,
    ),
    api_address_field("Address of the Android Publisher API"),
    address_field("certificates_url", "Address of Google's certificates", "likewise, for certificates."),
    address_field("token_url", "Address for access tokens", "likewise, for access tokens."),
)


class GoogleCredentials(msgspec.Struct, frozen=True, kw_only=True):
    package_name: str
    # Who asks the Android Publisher API.
    client_email: str
    key_id: str | None
    signer: Any
    # SHA-256 of the public key.
    fingerprint: str
    # Who pushes notifications, and what the pushes are addressed to.
    push_service_account: str
    push_audience: str
    api_base_url: str = API_BASE_URL
    certificates_url: str = CERTIFICATES_URL
    token_url: str = TOKEN_URL

    def __repr__(self) -> str:
        return f"GoogleCredentials({self.package_name!r}, {self.client_email!r})"


def parse(given: Mapping[str, Any], allowed_hosts: frozenset[str]) -> GoogleCredentials:
    """ValueError names the field and says what is wrong with it. No message repeats a value of the service account."""
    check_required(given, FIELDS)
    check_known(given, FIELDS)
    account = _account(given["service_account"])
    email = account.get("client_email")
    if not isinstance(email, str) or len(email) > 320 or _EMAIL.fullmatch(email) is None:
        raise ValueError("service_account has no client_email")
    key_id = account.get("private_key_id")
    signer, fingerprint = _signer(account.get("private_key"))
    addresses = {name: address_of(given, name, allowed_hosts) or own for name, own in _ADDRESSES.items()}
    return GoogleCredentials(
        package_name=text_of(given, "package_name", _PACKAGE, "must be a package name such as com.example.app", 255),
        client_email=email,
        key_id=key_id if isinstance(key_id, str) and key_id.isalnum() and len(key_id) <= 100 else None,
        signer=signer,
        fingerprint=fingerprint,
        push_service_account=text_of(
            given, "push_service_account", _EMAIL, "must be the email address of a service account", 320
        ),
        push_audience=text_of(given, "push_audience", re.compile(r"[!-~]+"), "must be a text without spaces"),
        **addresses,
    )


def describe(credentials: GoogleCredentials) -> dict[str, str]:
    shown = {
        "package_name": credentials.package_name,
        "service_account": credentials.client_email,
        "key": f"SHA-256 {credentials.fingerprint[:16]}…",
        "push_audience": credentials.push_audience,
        "push_service_account": credentials.push_service_account,
    }
    if credentials.key_id is not None:
        shown["private_key_id"] = credentials.key_id
    shown |= {name: url for name, own in _ADDRESSES.items() if (url := getattr(credentials, name)) != own}
    return shown


def _account(given: object) -> dict[str, Any]:
    """As an object, or as the text of the file that Google Cloud gives out."""
    if isinstance(given, str) and len(given) <= _LARGEST_ACCOUNT:
        try:
            given = msgspec.json.decode(given)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise ValueError("service_account is not valid JSON") from None
    if not isinstance(given, dict):
        raise ValueError("service_account must be the JSON of a service account's key")  # noqa: TRY004
    if given.get("type") != "service_account":
        raise ValueError('service_account must be the JSON of a service account\'s key, with "type": "service_account"')
    return given


def _signer(pem: object) -> tuple[Any, str]:
    wrong = "service_account has no usable private_key: it must be an RSA key in PEM form"
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


FORM = CredentialForm("Google Play", FIELDS, parse, describe)
