"""What a row of the vendor's export means: a table of its quirks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.instants import to_iso
from latchkey.domain.money.amounts import UNKNOWN, Price
from latchkey.domain.purchases.purchase import Environment, Ownership, Purchase, PurchaseKind, Reason, usd_micros
from latchkey.domain.purchases.subscription import Cause, PeriodType, Subscription
from latchkey.subjects.imports.rules import revenuecat_format as vendor
from latchkey.subjects.imports.rules.person import ImportedPerson, person, rebuilt
from latchkey.subjects.imports.rules.row import RowError, RowKind, TransactionRow
from tests.subjects.imports.vendor_rows import SINCE_5, row

APPS = {"app_store": "app_ios"}


def read(**cells: str) -> TransactionRow:
    return vendor.transaction(row(**cells), APPS)


def period(number: int, **cells: str) -> dict[str, str]:
    """A month of 2026, paid by a renewal of its own."""
    return row(**{"renewal_number": str(number), **between(f"2026-0{number}-01", f"2026-0{number + 1}-01"), **cells})


def between(start: str, end: str, cut: str = "") -> dict[str, str]:
    """From one day to another; access ended earlier if it was cut."""
    days = {"start_time": start, "end_time": end, "effective_end_time": cut or end}
    return {name: f"{day} 08:00:00" for name, day in days.items()}


def refunded(at: str) -> dict[str, str]:
    """All of it was given back, and access ended with it."""
    return {"price_in_usd": "0", "price_in_purchased_currency": "0", "refunded_at": at, "effective_end_time": at}


def only(*rows: dict[str, str]) -> Subscription:
    (found,) = rebuilt([vendor.transaction(one, APPS) for one in rows])
    assert isinstance(found, Subscription)
    return found


@pytest.mark.parametrize(
    ("cells", "field", "value"),
    [
        ({"start_time": "2026-01-01 9:01:45"}, "purchased_at", "2026-01-01T09:01:45Z"),
        ({"start_time": "2026-01-01T09:01:45Z"}, "purchased_at", "2026-01-01T09:01:45Z"),
        ({"start_time": "2026-01-01 09:01:45.250 UTC"}, "purchased_at", "2026-01-01T09:01:45Z"),
        ({"start_time": "2026-01-01T09:01:45+01:00"}, "purchased_at", "2026-01-01T08:01:45Z"),
        ({"updated_at": ""}, "updated_at", "2026-01-01T08:00:00Z"),
    ],
)
def test_dates_are_read_leniently(cells: dict[str, str], field: str, value: str) -> None:
    assert to_iso(getattr(read(**cells), field)) == value


@pytest.mark.parametrize(
    ("cells", "field", "value"),
    [
        ({"is_sandbox": "TRUE"}, "environment", Environment.SANDBOX),
        ({"is_sandbox": "t"}, "environment", Environment.SANDBOX),
        ({"is_sandbox": "FALSE"}, "environment", Environment.PRODUCTION),
        ({"is_trial_period": "TRUE"}, "period_type", PeriodType.TRIAL),
        ({"is_in_intro_offer_period": "true"}, "period_type", PeriodType.INTRO),
        ({"ownership_type": ""}, "ownership", Ownership.PURCHASED),
        ({"ownership_type": "FAMILY_SHARED"}, "ownership", Ownership.FAMILY_SHARED),
        ({"is_trial_conversion": "TRUE"}, "cause", Cause.CONVERSION),
        ({"country": "de"}, "country", "DE"),
        ({"country": "unknown"}, "country", None),
        ({"store": "app_store"}, "app_id", "app_ios"),
        ({"store": "roku"}, "app_id", None),
        ({"store": "ROKU"}, "store", "roku"),
        ({"renewal_number": "3"}, "number", 2),
        ({"purchased_currency": "", "price_in_purchased_currency": ""}, "price", Price(9_990_000, "USD")),
        ({"price_in_usd": "9.990000000001", "purchased_currency": ""}, "price", Price(9_990_000, "USD")),
        ({}, "price", Price(8_990_000, "EUR")),
        ({"is_auto_renewable": "false", "end_time": "", "effective_end_time": ""}, "kind", RowKind.ONE_TIME),
        ({"is_auto_renewable": "FALSE", "end_time": "", "effective_end_time": ""}, "ends_at", None),
    ],
)
def test_a_cell_means(cells: dict[str, str], field: str, value: Any) -> None:
    assert getattr(read(**cells), field) == value


def test_a_price_that_was_never_learned_is_unknown_and_not_nothing() -> None:
    empty = dict.fromkeys((one for one in row() if "price_in" in one), "")
    assert read(**empty, purchased_currency="").price == UNKNOWN


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"start_time": ""}, "start_time is empty."),
        ({"start_time": "yesterday"}, "start_time is not a date such as 2026-01-31T08:00:00.000Z."),
        ({"start_time": "²"}, "start_time is not a date such as 2026-01-31T08:00:00.000Z."),
        ({"start_time": "1970-01-01 00:00:00"}, "start_time is before 2000 or after 2200."),
        ({"rc_original_app_user_id": ""}, "rc_original_app_user_id is empty."),
        ({"rc_original_app_user_id": "a/b"}, "rc_original_app_user_id is not accepted as an app user id."),
        ({"rc_original_app_user_id": "null"}, "rc_original_app_user_id is not accepted as an app user id."),
        ({"store_transaction_id": ""}, "store_transaction_id is empty."),
        ({"is_sandbox": "perhaps"}, "is_sandbox is neither true nor false."),
        ({"price_in_usd": "much"}, "price_in_usd is not a number."),
        ({"price_in_usd": "1e1000000"}, "price_in_usd is not a number."),
        ({"price_in_usd": "0." + "0" * 1000 + "1"}, "price_in_usd is not a number."),
        ({"price_in_usd": "1e9"}, "price_in_usd is not an amount from 0 to 1,000,000."),
        ({"renewal_number": "-1e999999999"}, "renewal_number is not a whole number."),
        ({"renewal_number": "1e30"}, "renewal_number is too large."),
        ({"purchased_currency": "EURO"}, "purchased_currency is not a currency code of three letters."),
        ({"tax_percentage": "19"}, "tax_percentage is not a share from 0 to 1."),
        ({"end_time": "", "effective_end_time": ""}, "The row renews, but has no end_time."),
        (
            {"store": "play_store", "end_time": "2025-12-31 08:00:00"},
            "The order was never paid: it ends before it starts.",
        ),
        ({"entitlement_identifiers": "{pro"}, "entitlement_identifiers is not valid JSON."),
    ],
)
def test_a_row_that_cannot_be_used_says_why(cells: dict[str, str], reason: str) -> None:
    with pytest.raises(RowError) as refused:
        read(**cells)
    assert refused.value.reason == reason


def test_version_4_has_no_columns_that_version_5_added() -> None:
    old = {name: value for name, value in row().items() if name not in SINCE_5}
    assert vendor.transaction(old, APPS) == read()
    assert vendor.customer(old).first_seen_at is None


def test_the_two_prices_imply_the_rate_to_the_last_micro_unit() -> None:
    one = read(purchase_price_in_usd="10.483917", purchase_price_in_purchased_currency="8.99")
    assert one.terms is not None
    assert one.terms.rate is not None
    assert usd_micros(one.price, one.terms) == 10_483_917
    assert (one.terms.rate.day, one.terms.tax, one.terms.commission) == ("2026-01-01", 0.16, 0.15)


@given(st.integers(1, 10**12), st.integers(1, 10**9))
def test_any_two_prices_imply_a_rate_that_gives_the_price_in_usd_again(paid: int, usd: int) -> None:
    one = read(
        purchase_price_in_usd=f"{usd / 1_000_000:.6f}",
        purchase_price_in_purchased_currency=f"{paid // 1_000_000}.{paid % 1_000_000:06}",
        price_in_purchased_currency="",
    )
    assert one.price.micros == paid
    assert usd_micros(one.price, one.terms) == usd


def test_a_payment_in_usd_has_no_rate() -> None:
    one = read(purchased_currency="USD", purchase_price_in_purchased_currency="9.99")
    assert one.terms is not None
    assert one.terms.rate is None


def test_a_full_refund_ends_access_when_it_ended() -> None:
    one = read(**refunded("2026-01-12 08:00:00") | {"refunded_at": "2026-01-12 10:00:00"})
    assert one.refunded_at is not None
    assert to_iso(one.refunded_at) == "2026-01-12T08:00:00Z"
    assert one.given_back == 0


def test_a_partial_refund_keeps_access_and_counts_the_money() -> None:
    for refunded_at in ("", "2026-01-12 10:00:00"):
        one = read(price_in_purchased_currency="6.99", refunded_at=refunded_at)
        assert (one.refunded_at, one.given_back) == (None, 2_000_000)


def test_a_refund_after_which_the_store_left_access_open_gives_back_everything_and_ends_nothing() -> None:
    one = read(store="stripe", price_in_usd="0", price_in_purchased_currency="0", refunded_at="2026-01-12 10:00:00")
    assert (one.refunded_at, one.given_back) == (None, 8_990_000)


def test_a_refund_of_a_one_time_purchase_takes_it_away() -> None:
    (bought,) = rebuilt([read(is_auto_renewable="false", end_time="", **refunded("2026-01-12 10:00:00"))])
    assert isinstance(bought, Purchase)
    assert bought.refunded_at is not None
    assert bought.ends_at is None


def test_the_example_of_a_trial_that_converts_and_is_refunded() -> None:
    free = dict.fromkeys((name for name in row() if "price_in" in name), "0")
    trial = row(**between("2026-03-01", "2026-03-08"), is_trial_period="true", **free)
    paid = period(2, **between("2026-03-08", "2026-04-08"), store_transaction_id="2", is_trial_conversion="true")
    back = period(3, **between("2026-04-08", "2026-05-08") | refunded("2026-04-12 08:00:00"), store_transaction_id="3")
    found = only(back, trial, paid)
    assert [one.cause for one in found.periods] == [Cause.TRIAL, Cause.CONVERSION, Cause.RENEWAL]
    assert [one.period_type for one in found.periods] == [PeriodType.TRIAL, PeriodType.NORMAL, PeriodType.NORMAL]
    assert to_iso(found.access_ends_at) == "2026-04-12T08:00:00Z"


def test_orders_of_google_play_belong_to_their_first_order() -> None:
    first = row(store="play_store", store_transaction_id="GPA.1-2-3", original_store_transaction_id="GPA.1-2-3")
    ids = dict.fromkeys(("store_transaction_id", "original_store_transaction_id"), "GPA.1-2-3..0")
    second = period(2, store="play_store", **ids)
    found = only(second, first)
    assert (found.id, [one.id for one in found.periods]) == ("GPA.1-2-3", ["GPA.1-2-3", "GPA.1-2-3..0"])


def test_stripe_repeats_one_id_in_every_row() -> None:
    ids = dict.fromkeys(("store_transaction_id", "original_store_transaction_id"), "si_1")
    months = [period(number, store="stripe", **ids) for number in (1, 2, 3)]
    assert [one.id for one in only(*months).periods] == ["si_1.0", "si_1.1", "si_1.2"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (("txn_1", "txn_2", "txn_3"), ["txn_1", "txn_2", "txn_3"]),
        # Where renewals repeat the id of the subscription, they need different ones.
        (("sub_1", "sub_1", "sub_1"), ["sub_1", "sub_1.1", "sub_1.2"]),
        (("sub_1", "txn_2", "txn_3"), ["sub_1", "txn_2", "txn_3"]),
    ],
)
def test_paddle_keeps_the_ids_that_its_webhooks_tell(ids: tuple[str, ...], expected: list[str]) -> None:
    months = [
        period(number, store="paddle", store_transaction_id=id, original_store_transaction_id="sub_1")
        for number, id in enumerate(ids, start=1)
    ]
    assert [one.id for one in only(*months).periods] == expected


def test_somebody_who_comes_back_after_a_lapse_buys_and_after_a_failed_payment_renews() -> None:
    later = period(2, **between("2026-02-20", "2026-03-20"), store_transaction_id="2000002")
    assert only(row(unsubscribe_detected_at="2026-01-20 08:00:00"), later).current.cause is Cause.PURCHASE
    assert only(row(billing_issues_detected_at="2026-02-01 08:00:00"), later).current.cause is Cause.RENEWAL


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, {"auto_renew": True}),
        (
            {"unsubscribe_detected_at": "2026-01-20 08:00:00"},
            {"auto_renew": False, "renewal_off_reason": Reason.UNSUBSCRIBE},
        ),
        ({"unsubscribe_detected_at": "2026-01-20 08:00:00", "auto_resume_time": "2026-03-01 00:00:00"}, {
            "auto_renew": True}),
    ],
)  # fmt: skip
def test_the_last_row_tells_how_the_subscription_stands(cells: dict[str, str], expected: dict[str, Any]) -> None:
    status = only(row(**cells)).status
    assert {name: getattr(status, name) for name in expected} == expected


def test_a_grace_period_keeps_access_open() -> None:
    found = only(
        row(
            billing_issues_detected_at="2026-02-01 08:00:00",
            grace_period_end_time="2026-02-17 08:00:00",
            effective_end_time="2026-02-17 08:00:00",
        )
    )
    assert found.in_grace
    assert to_iso(found.access_ends_at) == "2026-02-17T08:00:00Z"
    assert to_iso(found.current.ends_at) == "2026-02-01T08:00:00Z"


@pytest.mark.parametrize("ends", [("2226-08-21 00:00:00",) * 2, ("", "2226-08-21 00:00:00"), ("9999-12-31", "")])
@pytest.mark.parametrize("store", ["promotional", "app_store"])
def test_an_end_after_centuries_means_for_life(ends: tuple[str, str], store: str) -> None:
    end_time, effective_end_time = ends
    cells = {"end_time": end_time, "effective_end_time": effective_end_time, "store": store}
    assert read(**cells, is_auto_renewable="false").ends_at is None
    cut = {**cells, **refunded("2026-01-05 08:00:00")}
    assert read(**cut, is_auto_renewable="false").refunded_at == read(start_time="2026-01-05 08:00:00").purchased_at


def test_a_subscription_that_lasts_for_centuries_has_the_latest_end() -> None:
    ends_at = only(row(end_time="2226-08-21 00:00:00", effective_end_time="2226-08-21 00:00:00")).current.ends_at
    assert to_iso(ends_at) == "2200-01-01T00:00:00Z"


def test_a_paused_subscription_resumes_when_the_row_says() -> None:
    pause = only(row(store="play_store", auto_resume_time="2026-03-01 00:00:00")).status.pause
    assert pause is not None
    assert to_iso(pause.resumes_at) == "2026-03-01T00:00:00Z"


def test_a_grant_names_its_entitlement_also_in_single_quotes() -> None:
    (grant,) = rebuilt([read(store="promotional", product_identifier="rc_promo_pro_monthly",
                             entitlement_identifiers="['pro', 'plus']", store_transaction_id="")])  # fmt: skip
    assert isinstance(grant, Purchase)
    assert (grant.kind, grant.entitlement_id) == (PurchaseKind.PROMOTIONAL, "pro")
    assert grant.id


def test_attributes_may_be_dated_in_seconds_or_milliseconds() -> None:
    about = vendor.customer(
        row(
            reserved_subscriber_attributes='{"$email": {"value": "ada@example.com", "updated_at_ms": 1767225600}}',
            custom_subscriber_attributes='{"level": {"value": 7, "updated_at_ms": 1767225600000}, "bad/name": "x"}',
        )
    )
    assert {name: (one.value, one.updated_at) for name, one in about.attributes.items()} == {
        "$email": ("ada@example.com", 1_767_225_600_000),
        "level": ("7", 1_767_225_600_000),
    }


def test_the_last_seen_id_is_the_current_one() -> None:
    about = vendor.customer(row(rc_original_app_user_id="$RCAnonymousID:" + "a" * 32))
    assert about.ids == ("$RCAnonymousID:" + "a" * 32, "ada")
    assert about.app_user_id == "ada"


# Any order, any repetition.

MONTHS = [
    vendor.transaction(
        period(
            number,
            store_transaction_id=f"200000{number}",
            updated_at=f"2026-0{number + told}-02 08:00:00",
            unsubscribe_detected_at="2026-05-03 08:00:00" if told else "",
        ),
        APPS,
    )
    for number in range(1, 6)
    for told in (0, 1)
]


@given(st.permutations(MONTHS), st.lists(st.sampled_from(MONTHS), max_size=5))
def test_neither_order_nor_repetition_of_rows_matters(rows: list[TransactionRow], more: list[TransactionRow]) -> None:
    expected: ImportedPerson = person("ada", MONTHS, ())
    assert person("ada", [*rows, *more], ()).bought == expected.bought
    assert len(expected.bought) == 1
