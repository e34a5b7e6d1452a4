"""What Apple's signed objects hold, as far as it is used here, and opening them for one app: the signature is checked
first, under the roots that the operator trusts, then bundle id, app id and environment.

Apple's library checks the certificate chain (`certificate_chains.py`). Checked anew for every signature that would take
many times as long as the signature itself, so a chain that was found good is kept, with the time in which all of its
certificates are valid. The signature of a payload is checked every time. docs/architecture/apple.md says why that is
safe.

Fields that Latchkey does not need are ignored, and values it does not know are kept as they are: Apple adds new ones.
"""

import base64
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
from jwt.algorithms import ECAlgorithm
from msgspec import Meta

from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.apple.credentials import AppleCredentials, to_der
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic

# A signed notification holds two more signed objects and has about 15 KB.
LARGEST_JWS = 512 * 1024
_ALPHABET = (string.ascii_letters + string.digits + "_-").encode()
_ES256 = ECAlgorithm(ECAlgorithm.SHA256)
Instant = Annotated[int, Meta(ge=0, le=LATEST)]


class _Header(msgspec.Struct, frozen=True):
    alg: str
    x5c: list[str] = []
    # Names extensions that must be understood. Apple uses none.
    crit: Any = None


class NotSigned(Malformed):
    """No signed object at all, so certainly nothing that Apple has signed."""


class _Dated(msgspec.Struct, frozen=True, rename="camel"):
    """When it was signed. An app transaction has another name for it."""

    signed_date: Instant | None = None
    receipt_creation_date: Instant | None = None


class Signatures:
    def __init__(self, roots: Sequence[bytes]) -> None:
        from latchkey.stores.apple.certificate_chains import CertificateChains

        self._chains = CertificateChains(roots)

    def open(self, signed: str) -> bytes:
        """The payload. NotAuthentic if the signature or its chain is not right, NotSigned if it is no signed object.
        Malformed if Apple has signed it without a date."""
        if len(signed) > LARGEST_JWS:
            raise NotSigned(f"A signed object of more than {LARGEST_JWS} characters is not from Apple.")
        try:
            if not is_jws(signed):
                raise ValueError
            head, payload, signature = map(_bytes, signed.split("."))
            header = msgspec.json.decode(head, type=_Header)
        except (ValueError, RecursionError):
            raise NotSigned("This is not a signed object in the form that Apple sends.") from None
        if header.alg != "ES256" or header.crit is not None:
            raise NotAuthentic("The signature is not of the kind that Apple makes (ES256).")
        signed_at = _signed_at(payload)
        key = self._chains.key_for(header.x5c, None if signed_at is None else signed_at // 1000)
        if not _ES256.verify(signed[: signed.rindex(".")].encode(), key, signature):
            raise NotAuthentic("The signature does not fit the payload.")
        if signed_at is None:
            raise Malformed("The signed object does not say when it was signed.")
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


def payload_of(signed: str) -> bytes:
    """Without any check: for what was checked before."""
    try:
        return _bytes(signed.split(".")[1])
    except (ValueError, IndexError):
        raise Malformed("This is not a signed object in the form that Apple sends.") from None


def _signed_at(payload: bytes) -> Ms | None:
    try:
        dated = msgspec.json.decode(payload, type=_Dated)
    except (ValueError, RecursionError):
        return None
    return dated.signed_date if dated.signed_date is not None else dated.receipt_creation_date


def _bytes(part: str) -> bytes:
    # Only characters of the alphabet are left: `is_jws` has looked.
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


Text = Annotated[str, Meta(min_length=1, max_length=256, pattern="^[ -~]+$")]
Amount = Annotated[int, Meta(ge=0, le=10**12)]

SUBSCRIPTION, CONSUMABLE = "Auto-Renewable Subscription", "Consumable"
FAMILY_SHARED = "FAMILY_SHARED"

_ENVIRONMENTS = {"Production": Environment.PRODUCTION, "Sandbox": Environment.SANDBOX}


class _Payload(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    pass


class AppleTransaction(_Payload, frozen=True, kw_only=True):
    transaction_id: Text
    original_transaction_id: Text
    bundle_id: Text
    product_id: Text
    type: Text
    environment: Text
    purchase_date: Instant
    signed_date: Instant
    expires_date: Instant | None = None
    app_account_token: str | None = None
    in_app_ownership_type: str = "PURCHASED"
    transaction_reason: str | None = None
    offer_type: int | None = None
    offer_identifier: Annotated[str, Meta(max_length=256)] | None = None
    offer_discount_type: str | None = None
    # Thousandths.
    price: Amount | None = None
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] | None = None
    storefront: str | None = None
    revocation_date: Instant | None = None
    revocation_type: str | None = None
    is_upgraded: bool = False

    @property
    def is_subscription(self) -> bool:
        return self.type == SUBSCRIPTION

    @property
    def is_first(self) -> bool:
        return self.transaction_id == self.original_transaction_id

    @property
    def is_family_shared(self) -> bool:
        return self.in_app_ownership_type == FAMILY_SHARED

    @property
    def handle(self) -> str:
        """What the App Store Server API is asked with."""
        return self.original_transaction_id if self.is_subscription else self.transaction_id


class Addressed(_Payload, frozen=True, kw_only=True):
    """What a nested object says of the app it is about. A renewal info does not name the app."""

    environment: str | None = None
    bundle_id: str | None = None


class RenewalInfo(_Payload, frozen=True, kw_only=True):
    original_transaction_id: Text
    product_id: Text
    environment: Text
    signed_date: Instant
    auto_renew_status: int = 1
    auto_renew_product_id: Text | None = None
    expiration_intent: int | None = None
    is_in_billing_retry_period: bool = False
    grace_period_expires_date: Instant | None = None
    renewal_date: Instant | None = None


class AppTransaction(_Payload, frozen=True, kw_only=True):
    bundle_id: Text
    # The environment, by another name.
    receipt_type: Text
    app_apple_id: int | None = None
    original_application_version: Text | None = None


class Data(_Payload, frozen=True, kw_only=True):
    """Which app a notification is about, and the purchase if it is about one."""

    bundle_id: Text
    environment: Text | None = None
    app_apple_id: int | None = None
    status: int | None = None
    signed_transaction_info: str | None = None
    signed_renewal_info: str | None = None
    external_purchase_id: str | None = None

    @property
    def told_environment(self) -> str:
        if self.environment is not None or self.external_purchase_id is None:
            return self.environment or ""
        # An external purchase token names its environment only in its id.
        return "Sandbox" if self.external_purchase_id.startswith("SANDBOX") else "Production"


class NotificationPayload(_Payload, frozen=True, kw_only=True):
    notification_type: Text
    # msgspec would look for notificationUuid.
    notification_uuid: Text = msgspec.field(name="notificationUUID")
    signed_date: Instant
    subtype: Text | None = None
    data: Data | None = None
    summary: Data | None = None
    external_purchase_token: Data | None = None
    app_data: Data | None = None

    @property
    def about(self) -> Data | None:
        return self.data or self.summary or self.external_purchase_token or self.app_data

    @property
    def kind(self) -> str:
        return self.notification_type if not self.subtype else f"{self.notification_type}/{self.subtype}"


P = TypeVar("P", bound=msgspec.Struct)


def shaped(payload: bytes, type: type[P]) -> P:
    """Malformed says which field is not as Apple documents it."""
    try:
        return msgspec.json.decode(payload, type=type)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{type.__name__}: {error}"[:300]) from None


def environment_of(told: str) -> Environment | None:
    """Only Apple's two servers. Xcode and LocalTesting sign with no key of Apple's and are nothing here."""
    return _ENVIRONMENTS.get(told)


@dataclass(frozen=True, slots=True)
class OpenedNotification:
    """A notification with what was nested in it, still as JSON."""

    payload: NotificationPayload
    environment: Environment
    transaction: bytes | None = field(repr=False)
    renewal: bytes | None = field(repr=False)


class Opener:
    """Raises NotAuthentic for the signature, Misdirected for another app or environment, Malformed for the rest."""

    def __init__(self, credentials: AppleCredentials) -> None:
        self._bundle_id = credentials.bundle_id
        self._app_apple_id = credentials.app_apple_id
        self._signatures: Signatures = signatures_under(credentials.root_certificates)

    def notification(self, signed: str) -> OpenedNotification:
        payload = shaped(self._signatures.open(signed), NotificationPayload)
        about = payload.about
        if about is None:
            raise Misdirected("The notification names no app.")
        environment = self._addressed(about)
        transaction = renewal = None
        if about.signed_transaction_info is not None:
            transaction = self._signatures.open(about.signed_transaction_info)
            told = shaped(transaction, Addressed)
            self._same_app(told.bundle_id)
            _same_environment(told.environment, environment)
        if about.signed_renewal_info is not None:
            renewal = self._signatures.open(about.signed_renewal_info)
            _same_environment(shaped(renewal, Addressed).environment, environment)
        return OpenedNotification(payload, environment, transaction, renewal)

    def transaction(self, signed: str) -> AppleTransaction:
        transaction = self._own(signed, AppleTransaction)
        _known(transaction.environment)
        return transaction

    def renewal(self, signed: str) -> RenewalInfo:
        renewal = shaped(self._signatures.open(signed), RenewalInfo)
        _known(renewal.environment)
        return renewal

    def app_transaction(self, signed: str) -> AppTransaction:
        told = self._own(signed, AppTransaction)
        self._addressed(Data(bundle_id=told.bundle_id, environment=told.receipt_type, app_apple_id=told.app_apple_id))
        return told

    def _own(self, signed: str, type: type[P]) -> P:
        """The app is looked at first: what Apple signed for another app is Misdirected, whatever its form."""
        payload = self._signatures.open(signed)
        if (bundle_id := shaped(payload, Addressed).bundle_id) is not None:
            self._same_app(bundle_id)
        return shaped(payload, type)

    def _addressed(self, about: Data) -> Environment:
        environment = _known(about.told_environment)
        self._same_app(about.bundle_id)
        # Apple leaves the app's id out in the sandbox. Where it is given it has to be right.
        app_apple_id = about.app_apple_id
        wanted = environment is Environment.PRODUCTION or app_apple_id is not None
        if wanted and app_apple_id != self._app_apple_id:
            raise Misdirected(f"It is about the app with the Apple ID {app_apple_id}, not {self._app_apple_id}.")
        return environment

    def _same_app(self, bundle_id: str | None) -> None:
        if bundle_id != self._bundle_id:
            raise Misdirected(f"It is about another app than {self._bundle_id}.")


def _same_environment(told: str | None, environment: Environment) -> None:
    if _known(told) is not environment:
        raise Misdirected(f"It comes from {environment.lower()} and holds something that does not.")


def _known(told: str | None) -> Environment:
    environment = environment_of(told or "")
    if environment is None:
        # Xcode signs without Apple. Any other name may be a new one of Apple's.
        kind = Misdirected if told in ("Xcode", "LocalTesting") else Malformed
        raise kind("It comes neither from Apple's production environment nor from its sandbox.")
    return environment


def reopened(signed: str) -> OpenedNotification:
    """A notification from the journal: it was checked before it got there."""
    payload = shaped(payload_of(signed), NotificationPayload)
    about = payload.about
    if about is None:
        raise Malformed("The notification names no app.")
    nested = (about.signed_transaction_info, about.signed_renewal_info)
    transaction, renewal = (None if one is None else payload_of(one) for one in nested)
    return OpenedNotification(payload, _known(about.told_environment), transaction, renewal)
