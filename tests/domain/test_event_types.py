"""Each event type: the one thing that causes it, and the fields the specification names for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.money.amounts import UNKNOWN
from latchkey.domain.purchases.purchase import Environment, Ownership
from tests.domain import causes
from tests.domain.book import Book
from tests.domain.causes import MONTH_END, TRIAL_END
from tests.domain.shop import NOON, at, someone, subscribed

T = EventType


@dataclass(frozen=True)
class Row:
    type: EventType
    cause: Callable[[Book], None]
    # Fields with exactly these values.
    fields: dict[str, Any] = field(default_factory=dict)
    # Fields that are null.
    nulls: frozenset[str] = frozenset()
    # Fields that are absent.
    absent: frozenset[str] = frozenset()
    # The entitlements in the event, with their ends.
    holds: Mapping[str, str | None] = field(default_factory=dict)


MONTH = {"pro": "2026-02-15T12:00:00Z"}
# At the rate of the shop.
EUROS = {
    "price": 5.489,
    "price_in_purchased_currency": 4.99,
    "currency": "EUR",
    "exchange_rate": {"usd": "1.1", "date": "2026-01-15"},
}
# Nothing is paid with these, unless a row says otherwise.
WITHOUT_PAYMENT = {
    *(T.CANCELLATION, T.UNCANCELLATION, T.TRIAL_CANCELLED, T.BILLING_ISSUE, T.EXPIRATION, T.PRODUCT_CHANGE),
    *(T.SUBSCRIPTION_PAUSED, T.SUBSCRIPTION_EXTENDED, T.TRANSFER, T.VIRTUAL_CURRENCY_TRANSACTION),
    *(T.EXPERIMENT_ENROLLMENT, T.SUBSCRIBER_ALIAS),
}
UNPAID = {"price": 0, "price_in_purchased_currency": 0, "takehome_percentage": 1.0}
PAID = {"price": 9.99, "price_in_purchased_currency": 9.99, "currency": "USD"}

ROWS = [
    Row(
        T.INITIAL_PURCHASE,
        causes.bought_a_month,
        {
            **PAID,
            "product_id": "pro_monthly",
            "purchased_at_ms": NOON,
            "expiration_at_ms": MONTH_END,
            "store": "test_store",
            "is_trial_conversion": False,
            "period_type": "normal",
            "takehome_percentage": 1.0,
        },
        holds=MONTH,
    ),
    Row(
        T.INITIAL_PURCHASE,
        causes.trial_converted,
        {
            **PAID,
            "product_id": "pro_monthly",
            "purchased_at_ms": TRIAL_END,
            "expiration_at_ms": at("2026-02-22T12:00"),
            "original_purchase_date_ms": NOON,
            "store": "test_store",
            "is_trial_conversion": True,
            "period_type": "normal",
        },
        holds={"pro": "2026-02-22T12:00:00Z"},
    ),
    Row(
        T.TRIAL_STARTED,
        causes.bought_on_trial,
        {"expiration_at_ms": TRIAL_END, "product_id": "pro_monthly", "period_type": "trial", "price": 0.0},
        absent=frozenset({"is_trial_conversion"}),
        holds={"pro": "2026-01-22T12:00:00Z"},
    ),
    Row(
        T.RENEWAL,
        causes.renewed_by_itself,
        {**PAID, "expiration_at_ms": at("2026-03-15T12:00"), "purchased_at_ms": MONTH_END, "renewal_number": 1},
        absent=frozenset({"is_trial_conversion"}),
        holds={"pro": "2026-03-15T12:00:00Z"},
    ),
    Row(
        T.RENEWAL,
        causes.payment_recovered,
        # Within the grace period nothing was missed: the next period follows the paid one.
        {**PAID, "expiration_at_ms": at("2026-03-15T12:00"), "purchased_at_ms": MONTH_END + DAY},
        absent=frozenset({"grace_period_expires_at_ms"}),
        holds={"pro": "2026-03-15T12:00:00Z"},
    ),
    Row(
        T.NON_RENEWING_PURCHASE,
        causes.bought_for_ever,
        {"product_id": "pro_lifetime", "price": 199.0, "currency": "USD", "store": "test_store"},
        nulls=frozenset({"expiration_at_ms"}),
        absent=frozenset({"is_trial_conversion", "renewal_number"}),
        holds={"pro": None},
    ),
    Row(
        T.NON_RENEWING_PURCHASE,
        causes.bought_a_pass,
        {"product_id": "pro_pass", "expiration_at_ms": NOON + 10 * DAY, **EUROS},
        holds={"pro": "2026-01-25T12:00:00Z"},
    ),
    Row(
        T.NON_RENEWING_PURCHASE,
        causes.granted_by_an_operator,
        {"store": "promotional", "expiration_at_ms": NOON + DAY, "period_type": "promotional", "price": 0.0},
        holds={"team": "2026-01-16T12:00:00Z"},
    ),
    Row(
        T.CANCELLATION,
        causes.turned_renewal_off,
        {
            "expiration_at_ms": MONTH_END,
            "cancellation_reason": "UNSUBSCRIBE",
            "event_timestamp_ms": NOON + DAY,
            "product_id": "pro_monthly",
            "currency": "USD",
        },
        nulls=frozenset({"auto_resume_at_ms"}),
        absent=frozenset({"expiration_reason"}),
        holds=MONTH,
    ),
    Row(
        T.CANCELLATION,
        causes.turned_renewal_off_with_a_pause_scheduled,
        {"auto_resume_at_ms": MONTH_END + 30 * DAY, "cancellation_reason": "UNSUBSCRIBE"},
        holds=MONTH,
    ),
    Row(
        T.UNCANCELLATION,
        causes.turned_renewal_on,
        {"expiration_at_ms": MONTH_END, "event_timestamp_ms": NOON + 2 * DAY},
        absent=frozenset({"cancellation_reason"}),
        holds=MONTH,
    ),
    Row(
        T.UNCANCELLATION,
        causes.lifted_a_pause,
        {"expiration_at_ms": MONTH_END},
        absent=frozenset({"auto_resume_at_ms"}),
        holds=MONTH,
    ),
    Row(
        T.TRIAL_CANCELLED,
        causes.turned_renewal_off_in_a_trial,
        {"cancellation_reason": "UNSUBSCRIBE", "expiration_at_ms": TRIAL_END, "period_type": "trial"},
        holds={"pro": "2026-01-22T12:00:00Z"},
    ),
    Row(
        T.BILLING_ISSUE,
        causes.payment_failed_with_grace,
        # The subscription's own end stays the paid one; the entitlement's is the end of grace.
        {"grace_period_expires_at_ms": MONTH_END + 6 * DAY, "expiration_at_ms": MONTH_END},
        holds={"pro": "2026-02-21T12:00:00Z"},
    ),
    Row(
        T.BILLING_ISSUE,
        causes.payment_failed,
        {"expiration_at_ms": MONTH_END},
        nulls=frozenset({"grace_period_expires_at_ms"}),
        holds=MONTH,
    ),
    Row(
        T.EXPIRATION,
        causes.ran_out_after_renewal_was_turned_off,
        {"expiration_reason": "UNSUBSCRIBE", "expiration_at_ms": MONTH_END, "event_timestamp_ms": MONTH_END},
        absent=frozenset({"cancellation_reason"}),
    ),
    Row(
        T.EXPIRATION,
        causes.grace_ran_out,
        {"expiration_reason": "BILLING_ERROR", "expiration_at_ms": MONTH_END + 6 * DAY},
    ),
    Row(T.EXPIRATION, causes.pause_began, {"expiration_reason": "SUBSCRIPTION_PAUSED", "expiration_at_ms": MONTH_END}),
    Row(
        T.EXPIRATION,
        causes.pass_ran_out,
        {"expiration_reason": "UNKNOWN", "expiration_at_ms": NOON + 10 * DAY, "product_id": "pro_pass"},
    ),
    Row(T.REFUND, causes.refunded, {**PAID, "product_id": "pro_monthly", "event_timestamp_ms": NOON + DAY}),
    Row(T.REFUND, causes.pass_refunded, {"product_id": "pro_pass", **EUROS}),
    Row(T.REFUND_REVERSED, causes.refund_reversed, {**PAID, "event_timestamp_ms": NOON + 2 * DAY}, holds=MONTH),
    Row(
        T.PRODUCT_CHANGE,
        causes.changed_product_now,
        {
            "product_id": "pro_monthly",
            "new_product_id": "team_monthly",
            "expiration_at_ms": at("2026-02-16T12:00"),
            "price": 29.99,
        },
        absent=frozenset({"is_trial_conversion"}),
        holds={"pro": "2026-02-16T12:00:00Z", "team": "2026-02-16T12:00:00Z"},
    ),
    Row(
        T.PRODUCT_CHANGE,
        causes.changed_product_at_renewal,
        {"product_id": "pro_monthly", "new_product_id": "pro_yearly", "expiration_at_ms": MONTH_END},
        holds=MONTH,
    ),
    Row(
        T.SUBSCRIPTION_PAUSED,
        causes.paused,
        {"auto_resume_at_ms": MONTH_END + 30 * DAY, "expiration_at_ms": MONTH_END},
        holds=MONTH,
    ),
    Row(
        T.SUBSCRIPTION_EXTENDED,
        causes.extended,
        {"expiration_at_ms": MONTH_END + 3 * DAY, "event_timestamp_ms": NOON + DAY},
        holds={"pro": "2026-02-18T12:00:00Z"},
    ),
    Row(
        T.TRANSFER,
        causes.received_what_was_another_customers,
        {"transferred_from": ["bob"], "transferred_to": ["ann"], "app_user_id": "ann", "store": "test_store"},
        nulls=frozenset({"product_id", "expiration_at_ms", "currency"}),
        holds=MONTH,
    ),
    Row(
        T.INVOICE_ISSUANCE,
        causes.invoice_issued,
        {**PAID, "product_id": "pro_monthly", "event_timestamp_ms": NOON + DAY, "expiration_at_ms": MONTH_END},
        holds=MONTH,
    ),
    Row(
        T.TEMPORARY_ENTITLEMENT_GRANT,
        causes.store_unreachable,
        {"expiration_at_ms": NOON + 24 * HOUR, "product_id": "pro_monthly", "price": 0.0},
        holds={"pro": "2026-01-16T12:00:00Z"},
    ),
    Row(
        T.VIRTUAL_CURRENCY_TRANSACTION,
        causes.currency_credited,
        {"amount": 250, "currency": "COIN", "transaction_type": "credit"},
        nulls=frozenset({"product_id", "store"}),
    ),
    Row(
        T.VIRTUAL_CURRENCY_TRANSACTION,
        causes.currency_debited,
        {"amount": 40, "currency": "COIN", "transaction_type": "debit"},
        nulls=frozenset({"product_id", "store"}),
    ),
    Row(
        T.VIRTUAL_CURRENCY_TRANSACTION,
        causes.currency_bought,
        {"amount": 100, "currency": "COIN", "transaction_type": "credit", "product_id": "coins_100"},
    ),
    Row(
        T.EXPERIMENT_ENROLLMENT,
        causes.enrolled,
        {"experiment_id": "paywall", "variant_id": "b"},
        nulls=frozenset({"product_id", "store", "expiration_at_ms", "currency"}),
    ),
    Row(
        T.SUBSCRIBER_ALIAS,
        causes.absorbed_an_anonymous_customer,
        {
            "app_user_id": "ann",
            "aliases": [causes.ANONYMOUS],
            "merged_sequences": [
                {"app_user_id": causes.ANONYMOUS, "sequence": 2},
                {"app_user_id": "ann", "sequence": 1},
            ],
            "sequence": 3,
            "store": "test_store",
        },
        nulls=frozenset({"product_id", "expiration_at_ms", "currency"}),
        holds=MONTH,
    ),
    Row(
        T.SUBSCRIBER_ALIAS,
        causes.took_another_id,
        {
            "app_user_id": "anna",
            "original_app_user_id": "ann",
            "aliases": ["ann"],
            "merged_sequences": [{"app_user_id": "ann", "sequence": 1}],
            "sequence": 2,
        },
        holds=MONTH,
    ),
]


# The specification's table, without `subscriber_attributes` and the fields of certain types.
COMMON = {
    *("id", "type", "app_user_id", "original_app_user_id", "aliases", "product_id", "period_type", "purchased_at_ms"),
    *("expiration_at_ms", "original_purchase_date_ms", "event_timestamp_ms", "environment", "store", "entitlements"),
    *("price", "price_in_purchased_currency", "currency", "takehome_percentage"),
}
NEVER_NULL = {
    *("id", "type", "app_user_id", "original_app_user_id", "aliases", "event_timestamp_ms", "environment"),
    *("entitlements", "price", "price_in_purchased_currency", "takehome_percentage"),
}
OWN = {
    T.INITIAL_PURCHASE: {"is_trial_conversion"},
    T.CANCELLATION: {"cancellation_reason", "auto_resume_at_ms"},
    T.TRIAL_CANCELLED: {"cancellation_reason"},
    T.BILLING_ISSUE: {"grace_period_expires_at_ms"},
    T.EXPIRATION: {"expiration_reason"},
    T.PRODUCT_CHANGE: {"new_product_id"},
    T.SUBSCRIPTION_PAUSED: {"auto_resume_at_ms"},
    T.TRANSFER: {"transferred_from", "transferred_to"},
    T.VIRTUAL_CURRENCY_TRANSACTION: {"amount", "transaction_type", "currency"},
    T.EXPERIMENT_ENROLLMENT: {"experiment_id", "variant_id"},
    T.SUBSCRIBER_ALIAS: {"merged_sequences"},
}


def written(book: Book) -> dict[str, Any]:
    """The last event, as a receiver parses it."""
    parsed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(book.last))
    return parsed


def test_every_type_of_the_specification_has_a_row() -> None:
    assert {row.type for row in ROWS} == set(EventType)
    # The nineteen of the specification, and one of ours.
    assert len(EventType) == 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.type}-{row.cause.__name__}")
def test_each_type_has_its_cause_and_carries_its_fields(row: Row) -> None:
    book = Book()
    row.cause(book)
    event = written(book)

    assert event["type"] == row.type
    assert {name: event.get(name, "absent") for name in row.fields} == row.fields
    assert {name for name in row.nulls if event.get(name, "absent") is not None} == set()
    assert not row.absent & event.keys()
    if row.type in WITHOUT_PAYMENT and "price" not in row.fields:
        assert {name: event.get(name, "absent") for name in UNPAID} == UNPAID
    assert {id: one["expires_date"] for id, one in event["entitlements"].items()} == row.holds


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.type}-{row.cause.__name__}")
def test_every_event_says_who_when_and_in_which_order(row: Row) -> None:
    book = Book()
    row.cause(book)
    event = written(book)

    assert isinstance(event["id"], str)
    assert isinstance(event["event_timestamp_ms"], int)
    assert event["environment"] in ("PRODUCTION", "SANDBOX")
    if row.type is not T.SUBSCRIBER_ALIAS:
        assert event["app_user_id"] == event["original_app_user_id"] == "ann"
        assert event["aliases"] == []
        assert event["sequence"] == len(book.told)
    # Only the attributes may be absent; whatever else does not apply is null, and a price is 0.
    assert event.keys() >= COMMON
    assert not {name for name in NEVER_NULL if event[name] is None}
    assert OWN.get(row.type, set()) <= event.keys()
    # Our own additional fields are left out rather than null.
    beyond = event.keys() - COMMON - set().union(*OWN.values())
    assert not {name for name in beyond if event[name] is None}


STORIES: dict[Callable[[Book], None], list[EventType]] = {
    causes.trial_converted: [T.TRIAL_STARTED, T.INITIAL_PURCHASE],
    causes.renewed_by_itself: [T.INITIAL_PURCHASE, T.RENEWAL],
    causes.turned_renewal_on: [T.INITIAL_PURCHASE, T.CANCELLATION, T.UNCANCELLATION],
    causes.turned_renewal_off_in_a_trial: [T.TRIAL_STARTED, T.TRIAL_CANCELLED],
    causes.payment_recovered: [T.INITIAL_PURCHASE, T.BILLING_ISSUE, T.RENEWAL],
    causes.grace_ran_out: [T.INITIAL_PURCHASE, T.BILLING_ISSUE, T.EXPIRATION],
    causes.ran_out_after_renewal_was_turned_off: [T.INITIAL_PURCHASE, T.CANCELLATION, T.EXPIRATION],
    causes.refund_reversed: [T.INITIAL_PURCHASE, T.REFUND, T.REFUND_REVERSED],
    causes.pause_began: [T.INITIAL_PURCHASE, T.SUBSCRIPTION_PAUSED, T.EXPIRATION],
    causes.lifted_a_pause: [T.INITIAL_PURCHASE, T.SUBSCRIPTION_PAUSED, T.UNCANCELLATION],
    causes.changed_product_now: [T.INITIAL_PURCHASE, T.PRODUCT_CHANGE],
    causes.extended: [T.INITIAL_PURCHASE, T.SUBSCRIPTION_EXTENDED],
    causes.invoice_issued: [T.INITIAL_PURCHASE, T.INVOICE_ISSUANCE],
    causes.currency_bought: [T.NON_RENEWING_PURCHASE, T.VIRTUAL_CURRENCY_TRANSACTION],
    causes.received_what_was_another_customers: [T.TRANSFER],
}


@pytest.mark.parametrize("cause", STORIES, ids=lambda cause: cause.__name__)
def test_nothing_is_told_beside_the_story(cause: Callable[[Book], None]) -> None:
    book = Book()
    cause(book)
    assert book.types() == STORIES[cause]


def test_in_grace_the_entitlement_says_so_and_otherwise_it_does_not() -> None:
    book = Book()
    causes.payment_failed_with_grace(book)
    assert written(book)["entitlements"]["pro"]["grace_period_expires_date"] == "2026-02-21T12:00:00Z"

    book = Book()
    causes.bought_a_month(book)
    assert written(book)["entitlements"]["pro"] == {
        "expires_date": "2026-02-15T12:00:00Z",
        "grace_period_expires_date": None,
        "product_identifier": "pro_monthly",
        "purchase_date": "2026-01-15T12:00:00Z",
    }


def test_family_sharing_is_an_ownership_and_is_told() -> None:
    book = Book.of(replace(subscribed(), ownership=Ownership.FAMILY_SHARED))
    assert written(book)["is_family_share"] is True

    book = Book.of(subscribed())
    assert written(book)["is_family_share"] is False


@pytest.mark.parametrize("environment", list(Environment))
def test_the_environment_is_the_purchases(environment: Environment) -> None:
    book = Book.of(replace(subscribed(), environment=environment))
    assert written(book)["environment"] == environment


def test_the_same_happening_has_the_same_id_in_every_replay_and_in_no_other_project() -> None:
    def ids(project_id: str) -> list[str]:
        book = Book(replace(someone(), project_id=project_id))
        causes.turned_renewal_on(book)
        return [one.event.id for one in book.told]

    assert ids("one") == ids("one")
    assert not set(ids("one")) & set(ids("two"))


def test_where_the_store_tells_no_price_an_event_has_the_catalogs() -> None:
    book = Book()
    one = subscribed()
    book.take_in(replace(one, periods=(replace(one.current, price=UNKNOWN),)))
    assert {name: written(book)[name] for name in PAID} == PAID
