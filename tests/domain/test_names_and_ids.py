"""Names, ids of users, and the V2 ids of subscriptions and purchases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.promotion import grant
from latchkey.domain.naming import (
    checked_country,
    checked_currency,
    checked_duration,
    checked_id,
    checked_name,
    checked_text,
)
from latchkey.domain.purchases.reference import (
    PREPAID,
    has_transaction,
    kind_of,
    parsed,
    possible_purchases,
    underivable_transactions,
    v2_id,
    written,
)
from latchkey.domain.refusal import Invalid
from latchkey.domain.stores.store import BASE_PLANS
from latchkey.domain.stores.test_store import actions
from latchkey.domain.user_id import is_anonymous, problem_with
from tests.domain.shop import CATALOG, NOON, PRO_LIFETIME, bought, someone, subscribed


@pytest.mark.parametrize("text", ["a", "pro_monthly", "com.example:pro-1", "7", "x" * 100, "..."])
def test_an_id_is_made_of_letters_digits_and_four_signs(text: str) -> None:
    assert checked_id(text) == text


@pytest.mark.parametrize("text", ["", " ", "a b", "a/b", "a\n", "é", ".", "..", "x" * 201, "$rc", "a\0"])
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        checked_id(text, "product_id")
    assert refusal.value.param == "product_id"


def test_a_name_loses_the_spaces_around_it() -> None:
    assert checked_name("  Pro, für immer 👩‍🚀 ") == "Pro, für immer 👩‍🚀"


@pytest.mark.parametrize("text", ["", "  ", "x" * 1501, "\x1fa", "a\n", "a\nb", "a\0b", "\x7f", "\ud800"])
def test_a_name_is_short_and_on_one_line(text: str) -> None:
    with pytest.raises(Invalid):
        checked_name(text)


def test_a_text_may_have_several_lines_but_no_control_characters() -> None:
    assert checked_text("a\n\tb", "description") == "a\n\tb"
    for text in ("x" * 1501, "\0", "\x1b[31m"):
        with pytest.raises(Invalid):
            checked_text(text, "description")


@pytest.mark.parametrize("text", ["P1", "P0D", "-P1M", "P100Y", "P٣D"])
def test_a_duration_is_written_as_in_iso_8601(text: str) -> None:
    """`test_instants.py` has all forms."""
    for good in ("P1Y6M", "P1DT30M", "P99Y", "P01M"):
        assert checked_duration(good) == good
    with pytest.raises(Invalid):
        checked_duration(text)


@pytest.mark.parametrize("text", ["usd", "US", "USDT", "U$D", "", "USD\n", "XYZ"])
def test_a_currency_is_a_code_of_iso_4217(text: str) -> None:
    assert checked_currency("USD") == "USD"
    with pytest.raises(Invalid, match="no currency of ISO 4217"):
        checked_currency(text)


@pytest.mark.parametrize("text", ["de", "DEU", "", "XY"])
def test_a_country_is_a_code_of_iso_3166(text: str) -> None:
    assert checked_country("DE") == "DE"
    with pytest.raises(Invalid, match="no country of ISO 3166-1"):
        checked_country(text)


ANONYMOUS = "$RCAnonymousID:" + "0123456789abcdef" * 2

BLOCKED = [
    "no_user",
    "null",
    "none",
    "nil",
    "(null)",
    "NaN",
    "\\0",
    "\0",
    "",
    "unidentified",
    "undefined",
    "unknown",
    "anonymous",
    "guest",
    "-1",
    "0",
    "[]",
    "{}",
    "[object Object]",
    "$deleted",
]


@pytest.mark.parametrize("id", BLOCKED)
def test_an_id_that_only_a_bug_produces_is_refused(id: str) -> None:
    assert problem_with(id)


@pytest.mark.parametrize(
    "id",
    [
        "a",
        "x" * 100,
        "ann@example.com",
        "Ann Other",
        "1",
        "-2",
        "00",
        "Null",
        "guest7",
        "...",
        "ü-日本",
        "a%2Fb",
        ANONYMOUS,
    ],
)
def test_any_other_id_of_1_to_100_characters_is_accepted(id: str) -> None:
    assert problem_with(id) is None


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 101, "101 characters"),
        ("a/b", "'/'"),
        ("/", "'/'"),
        ("a\nb", "control"),
        ("a\x7fb", "control"),
        ("null", "'null' is not accepted"),
        (".", "'.' is not accepted"),
        ("..", "in a URL it is a direction"),
        ("a\ud800", "surrogate"),
    ],
)
def test_the_problem_is_said_in_words(id: str, says: str) -> None:
    problem = problem_with(id)
    assert problem is not None
    assert says in problem


def test_the_length_is_counted_in_characters_not_bytes() -> None:
    assert problem_with("日" * 100) is None


@pytest.mark.parametrize(
    ("id", "anonymous"),
    [
        (ANONYMOUS, True),
        (ANONYMOUS[:-1], False),
        (ANONYMOUS + "0", False),
        (ANONYMOUS + "\n", False),
        (ANONYMOUS.upper(), False),
        ("$RCAnonymousID:" + "g" * 32, False),
        ("x" + ANONYMOUS, False),
        ("ann", False),
    ],
)
def test_an_anonymous_id_has_exactly_32_hexadecimal_digits(id: str, anonymous: bool) -> None:
    assert is_anonymous(id) is anonymous


KINDS = st.sampled_from(["subscription", "purchase"])
# What a database can hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


@given(KINDS, TEXTS.filter(lambda text: ":" not in text), TEXTS)
def test_an_id_names_one_purchase_and_says_of_which_kind_it_is(kind: str, store: str, id: str) -> None:
    text = written(kind, store, id)  # type: ignore[arg-type]  # one of the kinds
    assert parsed(text, kind) == (store, id)  # type: ignore[arg-type]
    assert parsed(text, "purchase" if kind == "subscription" else "subscription") is None


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_is_refused(text: str) -> None:
    for kind in ("subscription", "purchase"):
        for prefix in ("", "sub_", "purch_"):
            found = parsed(prefix + text, kind)
            assert found is None or written(kind, *found) == prefix + text


def test_ids_of_every_store_fit_the_vendors_255_characters() -> None:
    # An order of Google with an add-on: the longest id that a store gives.
    order = "GPA.3345-1234-5678-90123#" + "p" * 139
    assert len(written("purchase", "play_store", order)) <= 255


def test_a_prepaid_plan_is_a_subscription_wherever_a_store_has_prepaid_plans() -> None:
    assert BASE_PLANS >= PREPAID
    plan = replace(bought(PRO_LIFETIME), store="play_store", product_id="pro:prepaid")
    assert kind_of(plan) == "subscription"
    assert kind_of(replace(plan, store="test_store")) == "purchase"
    assert kind_of(replace(plan, product_id="pro")) == "purchase"


def test_a_grant_is_a_subscription_and_a_one_time_purchase_is_a_purchase() -> None:
    (given_,) = grant(someone(), "pro", None, NOON).purchases
    assert kind_of(given_) == "subscription"
    assert v2_id(given_).startswith("sub_")
    assert v2_id(subscribed()).startswith("sub_")
    assert v2_id(bought(PRO_LIFETIME)).startswith("purch_")


@pytest.mark.parametrize(
    ("transaction", "purchases"),
    [
        ("test_1_a", ["test_1_a"]),
        ("test_1.12", ["test_1.12", "test_1"]),
        ("GPA.3345-1234..0", ["GPA.3345-1234..0", "GPA.3345-1234"]),
        (".5", [".5"]),
    ],
)
def test_a_later_period_is_named_after_its_purchase(transaction: str, purchases: list[str]) -> None:
    assert possible_purchases(transaction) == purchases


def test_only_periods_that_do_not_name_their_subscription_are_indexed() -> None:
    first = subscribed()
    renewed = actions.renew(first, CATALOG, NOON + 1)
    assert len(renewed.periods) == 2
    assert underivable_transactions(renewed) == frozenset()
    assert all(has_transaction(renewed, one.id) for one in renewed.periods)
    assert has_transaction(renewed, renewed.id)
    assert not has_transaction(renewed, "another")
