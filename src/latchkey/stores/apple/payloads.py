"""What Apple's signed objects hold, as far as it is used here. Read after the signature was checked.

Fields that Latchkey does not need are ignored, and values it does not know are kept as they are: Apple adds new ones.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from latchkey.domain.instants import LATEST
from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.errors import Malformed

Instant = Annotated[int, Meta(ge=0, le=LATEST)]
Text = Annotated[str, Meta(min_length=1, max_length=256, pattern="^[ -~]+$")]
Amount = Annotated[int, Meta(ge=0, le=10**12)]

SUBSCRIPTION = "Auto-Renewable Subscription"
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
    consumption_request_reason: str | None = None
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
