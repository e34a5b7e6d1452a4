"""The rows of an export, and of Latchkey's own import format: one struct for each kind of row.

Each field is a column and carries its meaning, so that code, files and documentation cannot differ. The order of the
fields is the order of the columns. A new column is added at the end and raises `SCHEMA_VERSION`; a column is never
renamed, removed or given another type.
"""

from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Struct

# Raised by one with every new column.
SCHEMA_VERSION = 2


class RowKind(StrEnum):
    """What a column holds. `docs/export.md` says how each format writes it."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    # An int of epoch milliseconds in the struct.
    INSTANT = "instant"
    # A day of the calendar, YYYY-MM-DD.
    DATE = "date"
    # An int of millionths in the struct: exact decimals with up to six places in files.
    MONEY = "money"
    # Exact decimal text such as 1.0834.
    RATE = "rate"
    # A share of the price, such as 0.15.
    FRACTION = "fraction"
    # A list of texts.
    LIST = "list"
    # JSON, as text in the struct.
    JSON = "json"


Instant = Annotated[int, RowKind.INSTANT]
Date = Annotated[str, RowKind.DATE]
Money = Annotated[int, RowKind.MONEY]
Rate = Annotated[str, RowKind.RATE]
Json = Annotated[str, RowKind.JSON]

_PLAIN: dict[Any, RowKind] = {
    str: RowKind.TEXT,
    int: RowKind.INTEGER,
    bool: RowKind.BOOLEAN,
    float: RowKind.FRACTION,
    tuple[str, ...]: RowKind.LIST,
}


class TransactionRow(Struct, frozen=True, kw_only=True):
    """One period of a subscription, one one-time purchase, or one grant. Key: `store`, `subscription_id`,
    `transaction_id`."""

    app_user_id: Annotated[str, "The current id of the customer who owns the purchase."]
    store: Annotated[
        str, "app_store, play_store, stripe, rc_billing, promotional, test_store, or another store's name."
    ]
    app_id: Annotated[str | None, "The app it was bought in, if that is known."] = None
    environment: Annotated[str, "PRODUCTION or SANDBOX."]
    kind: Annotated[
        str, "subscription, one_time, promotional (a grant), or temporary (access while a store could not be asked)."
    ]
    subscription_id: Annotated[
        str | None, "The store's id of the subscription; empty for everything that is not a subscription."
    ] = None
    transaction_id: Annotated[str, "The store's id of this payment or period."]
    renewal_number: Annotated[
        int | None, "Counts the periods of a subscription from 0 in the order of time; empty for everything else."
    ] = None
    product_id: Annotated[str, "The store's id of the product; with its base plan as product:plan."]
    period_type: Annotated[
        str | None, "normal, trial, intro, prepaid or promotional; empty where there is no subscription."
    ] = None
    cause: Annotated[
        str | None, "Why a period began: trial, purchase, conversion (of a trial), renewal or change (of the product)."
    ] = None
    changed_from: Annotated[str | None, "The product before a change of the product."] = None
    purchased_at: Annotated[Instant, "When it was paid or granted."]
    starts_at: Annotated[
        Instant | None, "When its time begins, if that is before the payment: a payment recovered late leaves no gap."
    ] = None
    expires_at: Annotated[
        Instant | None, "The end of the time that was paid for. Empty: without an end. Refunds do not move it."
    ] = None
    price: Annotated[Money | None, "What was charged, in `currency`. Unchanged by refunds. Empty: not known."] = None
    currency: Annotated[str | None, "ISO 4217 code of the price."] = None
    country: Annotated[str | None, "ISO 3166 alpha-2 code of the country, as the store says it."] = None
    usd_price: Annotated[Money | None, "The price in USD. Empty: the price, or the currency, is not known."] = None
    usd_rate: Annotated[Rate | None, "USD for one unit of the currency, as used for `usd_price`."] = None
    usd_rate_date: Annotated[Date | None, "The day of the rate."] = None
    tax_percentage: Annotated[float | None, "The share of the price that is tax."] = None
    commission_percentage: Annotated[float | None, "The share of the price that the store keeps."] = None
    refunded_at: Annotated[Instant | None, "When the whole price was given back. Empty after a reversed refund."] = None
    refunded_amount: Annotated[
        Money | None, "What was given back, in `currency`: the price after a refund, less after a partial one, else 0."
    ] = None
    refunded_usd: Annotated[Money | None, "The same in USD, at the rate of the payment. Empty: as above."] = None
    ownership_type: Annotated[str, "PURCHASED, or FAMILY_SHARED where a family member has paid."] = "PURCHASED"
    entitlement_ids: Annotated[
        tuple[str, ...], "The entitlements that the product grants now, or that the grant names."
    ] = ()
    credited: Annotated[int, "Virtual currency credited for a one-time purchase and not taken back."] = 0
    revoked_at: Annotated[Instant | None, "When the operator took a grant back, or the store a purchase."] = None
    resolved_at: Annotated[
        Instant | None, "When another purchase took its place: temporary access that was replaced by the real purchase."
    ] = None
    auto_renew: Annotated[
        bool | None, "Last period of a subscription only, as all up to ended_reason: whether it will renew."
    ] = None
    unsubscribe_detected_at: Annotated[Instant | None, "When the renewal was turned off."] = None
    cancellation_reason: Annotated[
        str | None,
        "Why it was turned off: UNSUBSCRIBE, BILLING_ERROR, DEVELOPER_INITIATED, PRICE_INCREASE, CUSTOMER_SUPPORT, "
        "SUBSCRIPTION_PAUSED or UNKNOWN.",
    ] = None
    billing_issues_detected_at: Annotated[Instant | None, "When the payment failed that is still missing."] = None
    grace_period_expires_at: Annotated[Instant | None, "Until when access continues without a payment."] = None
    next_product_id: Annotated[str | None, "The product of the next period, if it will be another."] = None
    paused_at: Annotated[Instant | None, "When the customer asked for the pause that begins after this period."] = None
    auto_resume_at: Annotated[Instant | None, "When the pause ends."] = None
    ended_reason: Annotated[
        str | None, "Set once the store says that the subscription is over; the words of cancellation_reason."
    ] = None
    expired_at: Annotated[
        Instant | None, "When access ended, if that was told as an EXPIRATION; on the last period of a subscription."
    ] = None
    expiration_reason: Annotated[str | None, "Why access ended; the words of cancellation_reason."] = None
    purchase_token: Annotated[
        str | None, "What the store can be asked about. A token is a receipt: exported with --with-tokens only."
    ] = None
    updated_at: Annotated[Instant, "The moment of the newest report about this row."]
    customer_key: Annotated[
        int | None, "A number for the customer that never changes and is never used again. An import ignores it."
    ] = None
    offering: Annotated[
        str | None,
        "The lookup key of the offering that it was bought from, as the app said it with this payment. An import "
        "ignores offerings that the project does not have.",
    ] = None
    offer_code: Annotated[str | None, "The offer code that was redeemed with this payment, as the store names it."] = (
        None
    )


class CustomerRow(Struct, frozen=True, kw_only=True):
    """One customer. Key: `customer_key`."""

    app_user_id: Annotated[str, "The current id."]
    original_app_user_id: Annotated[str, "The first id."]
    aliases: Annotated[tuple[str, ...], "All ids in the order they were first seen, including the two above."] = ()
    attributes: Annotated[Json, 'JSON object: name to {"value", "updated_at_ms"}.'] = "{}"
    first_seen_at: Annotated[Instant, "When the customer was first seen."]
    last_seen_at: Annotated[Instant | None, "When the customer's app was last heard of."] = None
    last_seen_platform: Annotated[str | None, "iOS, android and the like."] = None
    last_seen_platform_version: Annotated[str | None, "The version of the phone's system."] = None
    last_seen_app_version: Annotated[str | None, "The version of the app."] = None
    last_seen_country: Annotated[str | None, "ISO 3166 alpha-2, by the address of the last request."] = None
    balances: Annotated[Json, "JSON object: code of the virtual currency to the balance."] = "{}"
    enrollments: Annotated[
        Json, 'JSON array of experiments: {"experiment_id", "name", "variant_id", "enrolled_at_ms"}.'
    ] = "[]"
    test_clock_id: Annotated[str | None, "The test clock that this customer lives on. Figures leave such out."] = None
    customer_key: Annotated[
        int | None, "A number for the customer that never changes and is never used again. An import ignores it."
    ] = None


class EntitlementRow(Struct, frozen=True, kw_only=True):
    """One entitlement that a customer holds or held, by the purchase that gives it longest. Key: `customer_key`,
    `entitlement_id`. It is active while `expires_at` is empty or lies ahead."""

    app_user_id: Annotated[str, "The current id of the customer."]
    entitlement_id: Annotated[str, "The entitlement."]
    product_id: Annotated[str, "The product that gives it."]
    store: Annotated[str, "Where that was bought."]
    environment: Annotated[str, "PRODUCTION or SANDBOX."]
    kind: Annotated[str, "subscription, one_time, promotional or temporary."]
    purchase_id: Annotated[str, "The store's id: subscription_id or transaction_id of the transactions."]
    purchased_at: Annotated[Instant, "When the period that gives it was bought."]
    expires_at: Annotated[Instant | None, "When access ends or ended, grace period included. Empty: never."] = None
    grace_period_expires_at: Annotated[Instant | None, "The end of the grace period, if one keeps it open."] = None
    ownership_type: Annotated[str, "PURCHASED or FAMILY_SHARED."] = "PURCHASED"
    customer_key: Annotated[int | None, "As in customers."] = None


class EventRow(Struct, frozen=True, kw_only=True):
    """One event. Key: `id`. The whole event, as webhooks receive it, is in `body`."""

    position: Annotated[int, "Its place in the project's feed. Positions have no gap and only grow."]
    id: Annotated[str, "The event's id."]
    type: Annotated[str, "INITIAL_PURCHASE, RENEWAL, ..."]
    app_user_id: Annotated[str, "The customer's id when it happened; a pseudonym after the customer was erased."]
    sequence: Annotated[int | None, "Counts the customer's events from 1."] = None
    environment: Annotated[str, "PRODUCTION or SANDBOX."]
    store: Annotated[str | None, "Where it was bought."] = None
    app_id: Annotated[str | None, "The app it was bought in."] = None
    product_id: Annotated[str | None, "The product."] = None
    period_type: Annotated[str | None, "normal, trial, intro, prepaid or promotional."] = None
    transaction_id: Annotated[str | None, "The store's id of the payment."] = None
    original_transaction_id: Annotated[str | None, "The store's id of the subscription."] = None
    renewal_number: Annotated[int | None, "As in transactions."] = None
    occurred_at: Annotated[Instant, "When it happened."]
    committed_at: Annotated[Instant, "When Latchkey recorded it."]
    purchased_at: Annotated[Instant | None, "When the period was bought."] = None
    expires_at: Annotated[Instant | None, "When the period ends."] = None
    price_usd: Annotated[
        Money | None, "The event's `price`, in USD. Of a REFUND: what was given back, not negative."
    ] = None
    price: Annotated[Money | None, "The event's `price_in_purchased_currency`."] = None
    currency: Annotated[str | None, "ISO 4217 code of the price."] = None
    country: Annotated[str | None, "The event's `country_code`."] = None
    tax_percentage: Annotated[float | None, "The share of the price that is tax."] = None
    commission_percentage: Annotated[float | None, "The share of the price that the store keeps."] = None
    takehome_percentage: Annotated[float | None, "The share of the price that is left."] = None
    reason: Annotated[str | None, "The event's cancellation_reason or expiration_reason."] = None
    customer_key: Annotated[int, "As in customers; a merged customer's events keep the number they had."]
    body: Annotated[Json, "The whole event as JSON."]


class ChangedCustomerRow(Struct, frozen=True, kw_only=True):
    """One customer whose rows an increment replaces. Key: `customer_key`."""

    customer_key: Annotated[
        int, "Remove all earlier rows of customers, transactions and entitlements with this number."
    ]
    deleted: Annotated[bool, "The customer was erased, or merged into another: no rows follow."]


Row = TransactionRow | CustomerRow | EntitlementRow | EventRow | ChangedCustomerRow

# By the name that `--what` takes. `changed_customers` comes with every export of the three that belong to customers.
ROWS: dict[str, type[Row]] = {
    "events": EventRow,
    "transactions": TransactionRow,
    "customers": CustomerRow,
    "entitlements": EntitlementRow,
    "changed_customers": ChangedCustomerRow,
}


class Column(Struct, frozen=True):
    name: str
    kind: RowKind
    # False: every row has a value.
    nullable: bool
    doc: str


@cache
def columns(row: type[Row]) -> tuple[Column, ...]:
    return tuple(_column(name, hint) for name, hint in get_type_hints(row, include_extras=True).items())


def _column(name: str, hint: Any) -> Column:
    # Python flattens an alias inside another: `Annotated[Instant, "doc"]` has the arguments int, Kind.INSTANT, "doc".
    value, *notes, doc = get_args(hint)
    nullable = type(None) in get_args(value)
    if nullable:
        value = next(arg for arg in get_args(value) if arg is not type(None))
        notes = [*notes, *getattr(value, "__metadata__", ())]
    kind = next((note for note in notes if isinstance(note, RowKind)), None)
    return Column(name, _PLAIN[value] if kind is None else kind, nullable, doc)


Format = Literal["csv", "jsonl", "parquet"]
ExportKind = Literal["whole", "increment"]


class ExportFile(Struct, frozen=True, kw_only=True):
    name: str
    # events, transactions, customers, entitlements or changed_customers.
    what: str
    rows: int
    bytes: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """`manifest.json`, the last file of an export: a folder without one is not complete."""

    object: Literal["export_manifest"] = "export_manifest"
    schema_version: int = SCHEMA_VERSION
    project_id: str
    # The name of the folder.
    id: str
    # An increment holds what changed since the export whose cursor is `since`.
    kind: ExportKind
    what: list[str]
    format: Format
    with_tokens: bool
    # The moment that the rows are of, and when the last file was complete. ISO 8601.
    as_of: str
    finished_at: str
    since: str | None
    # Where the next increment begins.
    cursor: str
    files: list[ExportFile]
    # Customers whose stored state could not be read. They are missing; the service's log names them.
    unreadable: int = 0
    # The same for events.
    unreadable_events: int = 0


class ExportRun(Struct, frozen=True, kw_only=True):
    object: Literal["export_run"] = "export_run"
    id: str
    export_id: str
    state: Literal["running", "done", "failed"]
    # Null while it is not decided.
    kind: ExportKind | None
    started_at: int
    finished_at: int | None
    # Its folder at the destination.
    folder: str | None
    rows: int
    bytes: int
    files: int
    # Why it failed, or what is missing.
    error: str | None


class Export(Struct, frozen=True, kw_only=True):
    """An export that runs by itself."""

    object: Literal["export"] = "export"
    id: str
    project_id: str
    name: str
    what: list[str]
    format: Format
    # False: every run exports everything.
    incremental: bool
    with_tokens: bool
    # A folder below the operator's, or s3://bucket/prefix.
    destination: str
    endpoint: str | None
    region: str | None
    # The end of the access key; the secret is never shown. Null for a folder.
    access_key_hint: str | None
    every: Literal["hour", "day", "week", "never"]
    enabled: bool
    # Null: it does not run by itself.
    next_run_at: int | None
    # Failed runs since the last one that succeeded.
    failures: int
    created_at: int
    updated_at: int
