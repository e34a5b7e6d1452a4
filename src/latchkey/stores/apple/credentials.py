"""What connects an app to the App Store: how it is checked when it is given, and what may be shown of it."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from pydantic import Field

from latchkey.stores.credential_form import CredentialForm, declared, public_fingerprint

# SHA-256 fingerprints. The first signs what StoreKit 2 and Apple's servers send, the second StoreKit 1 receipts.
_APPLE_ROOTS = {
    "AppleRootCA-G3": "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179",
    "AppleRootCA": "b0b1730ecbc7ff4505142c49f1295e6eda6bcaed7e2c68c5be91b5a11001f024",
}
_LARGEST_PEM = 20_000
_MOST_ROOTS = 10


# What an answer in the form means.
_ANSWERS = {
    "": "Do not answer",
    "NONE": "Answer, without a preference",
    "DECLINE": "Answer, and prefer that Apple declines",
    "GRANT_FULL": "Answer, and prefer a full refund",
    "GRANT_PRORATED": "Answer, and prefer a refund of the unused time",
}
_END = "-----END CERTIFICATE-----"


def _chosen_answer(chosen: str) -> dict[str, Any]:
    if chosen not in _ANSWERS:
        raise ValueError("There is no such answer to consumption requests.")
    preference = {} if chosen == "NONE" else {"refund_preference": chosen}
    return {"customer_consented": True, **preference}


class Consumption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is answered when Apple asks about a purchase whose buyer wants the money back. Apple takes an answer only
    with the buyer's consent, which the app has to ask for."""

    customer_consented: Literal[True]
    sample_content_provided: bool = False
    delivery_status: Literal[
        "DELIVERED",
        "UNDELIVERED_QUALITY_ISSUE",
        "UNDELIVERED_WRONG_ITEM",
        "UNDELIVERED_SERVER_OUTAGE",
        "UNDELIVERED_OTHER",
    ] = "DELIVERED"
    refund_preference: Literal["DECLINE", "GRANT_FULL", "GRANT_PRORATED"] | None = None

    def body(self) -> dict[str, Any]:
        told = {
            "customerConsented": self.customer_consented,
            "sampleContentProvided": self.sample_content_provided,
            "deliveryStatus": self.delivery_status,
        }
        return told if self.refund_preference is None else {**told, "refundPreference": self.refund_preference}


@cache
def apple_roots() -> tuple[str, ...]:
    roots = []
    for name, fingerprint in _APPLE_ROOTS.items():
        roots.append(files(__package__).joinpath("roots", f"{name}.pem").read_text())
        if x509.load_pem_x509_certificate(roots[-1].encode()).fingerprint(hashes.SHA256()).hex() != fingerprint:
            raise RuntimeError(f"{name}.pem is not Apple's certificate. Install Latchkey again.")
    return tuple(roots)


class AppleCredentials(msgspec.Struct, frozen=True, kw_only=True):
    bundle_id: str
    app_apple_id: int
    issuer_id: str
    key_id: str
    private_key: str
    # PEM, one certificate each. Others than Apple's are for an emulator.
    root_certificates: tuple[str, ...] = msgspec.field(default_factory=apple_roots)
    # Replaces Apple's own addresses, for production and sandbox alike.
    api_base_url: str = ""
    consumption: Consumption | None = None
    # Of the App Store Connect API. None: products cannot be listed.
    connect_key_id: str | None = None
    connect_private_key: str | None = None

    def __post_init__(self) -> None:
        if (self.connect_key_id is None) is not (self.connect_private_key is None):
            raise ValueError("connect_key_id and connect_private_key must be given together")

    def __repr__(self) -> str:
        return f"AppleCredentials(bundle_id={self.bundle_id!r}, key_id={self.key_id!r})"


def signing_key(pem: str) -> EllipticCurvePrivateKey:
    key = load_pem_private_key(pem.encode(), None)
    if isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1):
        return key
    raise ValueError("not an EC key on the curve P-256")


def to_der(certificates: Iterable[str]) -> list[bytes]:
    return [x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER) for pem in certificates]


def _app_apple_id(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**15:
        raise ValueError("must be the app's Apple ID, a number such as 1234567890")
    return value


def _private_key(value: object) -> str:
    wrong = ValueError("must be the content of the .p8 file that App Store Connect gave out for this key")
    if not isinstance(value, str) or len(value) > _LARGEST_PEM:
        raise wrong
    try:
        signing_key(value.strip())
    # The library raises many kinds, and its messages may repeat what they read.
    except Exception:
        raise wrong from None
    return value.strip() + "\n"


def _root_certificates(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be a list of certificates in PEM form")
    found: dict[str, None] = {}
    for one in value:
        try:
            if len(one) > _LARGEST_PEM:
                raise ValueError
            certificates = x509.load_pem_x509_certificates(one.encode())
        except Exception:
            raise ValueError(
                "must be in PEM form. Apple publishes DER: convert a .cer file with "
                "`openssl x509 -inform der -in FILE.cer`"
            ) from None
        for certificate in certificates:
            if not _is_root(certificate):
                raise ValueError("must be root certificates, which sign themselves")
            found[certificate.public_bytes(Encoding.PEM).decode()] = None
    if len(found) > _MOST_ROOTS:
        raise ValueError(f"must be at most {_MOST_ROOTS}")
    return tuple(found)


def _is_root(certificate: x509.Certificate) -> bool:
    # The older one signs itself with SHA-1, which the library does not check any more.
    if certificate.fingerprint(hashes.SHA256()).hex() in _APPLE_ROOTS.values():
        return True
    try:
        certificate.verify_directly_issued_by(certificate)
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    # A signature that is not its own, an algorithm nobody knows, an extension that is missing or broken.
    except Exception:
        return False


def _consumption(value: object) -> Consumption:
    try:
        return msgspec.convert(value, type=Consumption)
    except msgspec.ValidationError as error:
        raise ValueError(f"is not right: {error}") from None


def _fingerprint(pem: str) -> str:
    return f"public key SHA-256 {public_fingerprint(signing_key(pem).public_key())}"


def _described(pem: str) -> str:
    certificate = x509.load_pem_x509_certificate(pem.encode())
    return f"{certificate.subject.rfc4514_string()} (SHA-256 {certificate.fingerprint(hashes.SHA256()).hex()})"


_KEY = {"check": _private_key, "show": _fingerprint}
FIELDS = declared(
    __package__,
    {
        "app_apple_id": {"json": Annotated[int, Field(gt=0, lt=10**15)] | str, "check": _app_apple_id},
        "private_key": _KEY,
        "connect_private_key": _KEY,
        "api_base_url": {"address": ""},
        "root_certificates": {
            "json": str | list[str],
            "from_text": lambda text: [part + _END for part in text.split(_END) if part.strip()],
            "check": _root_certificates,
            "show": lambda roots: "; ".join(map(_described, roots)),
        },
        "consumption": {
            "json": dict[str, Any],
            "choices": _ANSWERS,
            "from_text": _chosen_answer,
            "check": _consumption,
            "show": lambda chosen: ", ".join(f"{name}: {value}" for name, value in chosen.body().items()),
        },
    },
)
FORM = CredentialForm("App Store", FIELDS, AppleCredentials)
