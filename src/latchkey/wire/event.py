"""The webhook envelope and the event inside it."""

from msgspec import UNSET, Struct, UnsetType

API_VERSION = "1.0"
# `true` on a test delivery. The receiver verifies it, answers 200 and changes nothing. It is a header because a test
# event must look like a real one in its id, type and body.
TEST_EVENT = "Latchkey-Test-Event"


class Entitlement(Struct, frozen=True, kw_only=True):
    """An entitlement of a user; V1 uses the same form."""

    # A missing or null end means that access never ends.
    expires_date: str | None = None
    grace_period_expires_date: str | None = None
    product_identifier: str
    purchase_date: str
    # V1 only: the base plan, for readers that know the product without it.
    product_plan_identifier: str | UnsetType = UNSET


class Attribute(Struct, frozen=True, kw_only=True):
    value: str
    updated_at_ms: int


class MergedSequence(Struct, frozen=True, kw_only=True):
    """One of the merged customers: its current id at that moment, and the sequence of its last event."""

    app_user_id: str
    sequence: int


class ExchangeRate(Struct, frozen=True, kw_only=True):
    # USD for one unit of `currency`: a decimal number as text, because it is exact.
    usd: str
    # The day that the rate is of, as YYYY-MM-DD: at most 7 days before the payment. Any other day is that of the
    # reference rates, and the amount is an estimate.
    date: str


class Event(Struct, frozen=True, kw_only=True):
    # Every event has these fields: null where there is no value. A price is 0 where no money moved, and never null.
    id: str
    type: str
    app_user_id: str
    original_app_user_id: str
    aliases: list[str]
    product_id: str | None = None
    period_type: str | None = None
    purchased_at_ms: int | None = None
    expiration_at_ms: int | None = None
    original_purchase_date_ms: int | None = None
    event_timestamp_ms: int
    environment: str
    store: str | None = None
    entitlements: dict[str, Entitlement]
    # The only field of the specification's table that may be absent.
    subscriber_attributes: dict[str, Attribute] | UnsetType = UNSET
    # In USD, at the operator's rate for the day, else at a reference rate.
    price: float = 0
    # The catalog's price where the store does not tell it.
    price_in_purchased_currency: float = 0
    currency: str | None = None
    # What the store leaves of the price. An assumption where the store's share is not known.
    takehome_percentage: float = 1

    # Events of the types in `OWN_FIELDS` always have these, null where there is no value.
    new_product_id: str | UnsetType | None = UNSET
    is_trial_conversion: bool | UnsetType | None = UNSET
    cancellation_reason: str | UnsetType | None = UNSET
    expiration_reason: str | UnsetType | None = UNSET
    grace_period_expires_at_ms: int | UnsetType | None = UNSET
    auto_resume_at_ms: int | UnsetType | None = UNSET
    transferred_from: list[str] | UnsetType | None = UNSET
    transferred_to: list[str] | UnsetType | None = UNSET
    amount: int | UnsetType | None = UNSET
    transaction_type: str | UnsetType | None = UNSET
    experiment_id: str | UnsetType | None = UNSET
    variant_id: str | UnsetType | None = UNSET

    # Beyond the specification's table; consumers tolerate extra fields.
    app_id: str | UnsetType = UNSET
    transaction_id: str | UnsetType = UNSET
    original_transaction_id: str | UnsetType = UNSET
    entitlement_ids: list[str] | UnsetType = UNSET
    country_code: str | UnsetType = UNSET
    renewal_number: int | UnsetType = UNSET
    # The offer code that was redeemed: the App Store tells the name of its offer, Google Play the code.
    offer_code: str | UnsetType = UNSET
    is_family_share: bool | UnsetType = UNSET
    tax_percentage: float | UnsetType = UNSET
    commission_percentage: float | UnsetType = UNSET
    # The lookup key of the offering that the product was bought from, where the app told it.
    presented_offering_id: str | UnsetType = UNSET
    # With which `price` was converted; absent where nothing was, as for USD.
    exchange_rate: ExchangeRate | UnsetType = UNSET
    # The customers, and so the sequences, that were merged.
    merged_sequences: list[MergedSequence] | UnsetType = UNSET
    # Numbers a customer's events from 1 without a gap. Receivers order by it, not by timestamps.
    sequence: int | UnsetType = UNSET


# Fields that only certain types have: an event of the type has the field, null where there is no value.
OWN_FIELDS: dict[str, tuple[str, ...]] = {
    "INITIAL_PURCHASE": ("is_trial_conversion",),
    "CANCELLATION": ("cancellation_reason", "auto_resume_at_ms"),
    "TRIAL_CANCELLED": ("cancellation_reason",),
    "BILLING_ISSUE": ("grace_period_expires_at_ms",),
    "EXPIRATION": ("expiration_reason",),
    "PRODUCT_CHANGE": ("new_product_id",),
    "SUBSCRIPTION_PAUSED": ("auto_resume_at_ms",),
    "TRANSFER": ("transferred_from", "transferred_to"),
    "VIRTUAL_CURRENCY_TRANSACTION": ("amount", "transaction_type"),
    "EXPERIMENT_ENROLLMENT": ("experiment_id", "variant_id"),
}


def continues(event: Event) -> bool:
    """Whether a purchase goes on with a subscription that the customer had before: after a trial, or after a lapse."""
    number = event.renewal_number
    return event.is_trial_conversion is True or (number is not UNSET and number > 0)


class Envelope(Struct, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    event: Event
