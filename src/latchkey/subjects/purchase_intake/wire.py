"""V1: small replies that only the vendor's SDKs ask for."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType


class CredentialsCheck(Struct, frozen=True, kw_only=True):
    # `unknown`: the store could not be asked, and `message` says why.
    result: Literal["ok", "refused", "unknown"]
    message: str
    checked_at: int | None


class StoreCredentials(Struct, frozen=True, kw_only=True):
    object: Literal["store_credentials"] = "store_credentials"
    app_id: str
    project_id: str
    store: str
    # What may be shown of them: ids and fingerprints, never a key. Null while there are none.
    credentials: dict[str, Any] | None
    saved_at: int | None
    check: CredentialsCheck
    # Where the store sends its notifications.
    notification_url: str
    first_notification_at: int | None
    last_notification_at: int | None


class MappedProduct(Struct, frozen=True, kw_only=True):
    product_identifier: str
    base_plan_id: str | UnsetType = UNSET
    entitlements: list[str]


class ProductEntitlementMapping(Struct, frozen=True, kw_only=True):
    """By product, or by `product:plan` where the store has base plans."""

    product_entitlement_mapping: dict[str, MappedProduct]


class Accepted(Struct, frozen=True):
    """An empty object: the SDKs parse every reply as JSON."""


class ServiceHealth(Struct, frozen=True, kw_only=True):
    status: str = "ok"


class HealthReportAvailability(Struct, frozen=True, kw_only=True):
    # Whether the SDK should ask for a health report and log it. There are none here.
    report_logs: bool = False


class RestoreEligibility(Struct, frozen=True, kw_only=True):
    is_purchase_allowed_by_restore_behavior: bool


class SignatureData(Struct, frozen=True, kw_only=True):
    nonce: str
    signature: str
    timestamp: int


class SignatureError(Struct, frozen=True, kw_only=True):
    code: int
    message: str


class SignedOffer(Struct, frozen=True, kw_only=True):
    """A signature, or the reason why there is none."""

    key_id: str
    offer_id: str
    product_id: str
    signature_data: SignatureData | None = None
    signature_error: SignatureError | None = None


class SignedOffers(Struct, frozen=True, kw_only=True):
    offers: list[SignedOffer]


class StoreNotification(Struct, frozen=True, kw_only=True):
    object: Literal["store_notification"] = "store_notification"
    id: str
    project_id: str
    app_id: str
    store: str
    # `history`: it never arrived and was found in the store's own history.
    source: Literal["notification", "receipt", "history"]
    # The store's own id.
    external_id: str
    # In the store's words.
    kind: str
    environment: str | None
    # Which purchase it is about, as the store names it.
    subject: str | None
    occurred_at: int
    received_at: int
    status: Literal["waiting", "applied", "ignored", "failed"]
    attempts: int
    # When it is processed next, while it waits.
    next_attempt_at: int | None
    finished_at: int | None
    # Why it failed, why it waits, or why nothing followed from it.
    message: str
    customer_id: str | None
    event_ids: list[str]
    # What was checked before it was stored.
    checked: dict[str, Any]
    # As it came. Only where one notification is read, and only for keys with the scope `write`.
    payload: str | UnsetType = UNSET


class Reprocessed(Struct, frozen=True, kw_only=True):
    object: Literal["store_notifications_reprocessed"] = "store_notifications_reprocessed"
    # How many are processed again.
    count: int
