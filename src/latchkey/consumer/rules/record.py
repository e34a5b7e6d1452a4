"""The local copy: what this server knows about one user without asking the service."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from latchkey.consumer.rules.timestamps import Ms, end_or_none, iso_or_none


class Subscription(Struct, frozen=True):
    """The subscription record, one for each user."""

    app_user_id: str
    external_user_id: str | None = None
    email: str | None = None
    is_active: bool = False
    subscription_status: str | None = None
    product_id: str | None = None
    # Active entitlements by id, each as webhooks and V1 write it.
    entitlements: Mapping[str, Any] = field(default_factory=dict)
    expires_at: Ms | None = None
    purchased_at: Ms | None = None
    cancelled_at: Ms | None = None
    trial_end_at: Ms | None = None
    grace_period_expires_at: Ms | None = None
    auto_renew: bool = True
    billing_issue: bool = False
    store: str | None = None
    environment: str | None = None
    last_webhook_event_id: str | None = None
    last_webhook_event_type: str | None = None
    # When the service was last asked, and when the record was last confirmed.
    last_revenue_sync_at: Ms | None = None
    last_updated: Ms | None = None

    # Beyond the specification's record.
    # Subscription by product id, as V1 writes it.
    subscriptions: Mapping[str, Any] = field(default_factory=dict)
    # The sequence of the last event that was applied.
    last_sequence: int | None = None
    last_event_at: Ms | None = None
    # The sequence of the last event that the service's last response included, if it said so.
    read_sequence: int | None = None
    # Something newer is known to exist: a re-read is scheduled.
    stale: bool = False
    # Counts writes. A response that was read before one of them is discarded.
    revision: int = 0

    @property
    def exists(self) -> bool:
        """False for an empty row that is only locked while a user's first event is processed."""
        return self.last_updated is not None


class Entitlement(Struct, frozen=True):
    """The entitlement record, one for each user and entitlement."""

    entitlement_id: str
    product_id: str | None = None
    is_active: bool = True
    granted_at: Ms | None = None
    expires_at: Ms | None = None
    grace_period_expires_at: Ms | None = None
    purchase_date: Ms | None = None
    store: str | None = None
    environment: str | None = None

    def as_written(self, now: Ms) -> dict[str, Any]:
        return {
            "expires_date": end_or_none(self.expires_at, now),
            "grace_period_expires_date": end_or_none(self.grace_period_expires_at, now),
            "product_identifier": self.product_id,
            "purchase_date": iso_or_none(self.purchase_date),
        }


class LocalCopy(Struct, frozen=True):
    subscription: Subscription
    entitlements: Mapping[str, Entitlement] = field(default_factory=dict)

    def held(self, now: Ms) -> dict[str, Entitlement]:
        """The entitlements that are active at `now`. They may have ended since the last event."""
        return {
            id: row
            for id, row in self.entitlements.items()
            if row.is_active and (row.expires_at is None or row.expires_at > now)
        }


def marked_stale(copy: LocalCopy) -> LocalCopy:
    """The revision is counted here, so that the copy is written even if it is stale already."""
    known = copy.subscription
    return replace(copy, subscription=replace(known, stale=True, revision=known.revision + 1))


def empty_copy(app_user_id: str) -> LocalCopy:
    return LocalCopy(Subscription(app_user_id=app_user_id))


# The attributes by which an app knows its user.
EMAIL = "$email"
DISPLAY_NAME = "$displayName"


def external_user_id(attributes: Mapping[str, str], app_user_id: str) -> str:
    """The `$email` attribute, else `$displayName`, else the app user id."""
    return attributes.get(EMAIL) or attributes.get(DISPLAY_NAME) or app_user_id


def email_of(attributes: Mapping[str, str]) -> str | None:
    return attributes.get(EMAIL) or None
