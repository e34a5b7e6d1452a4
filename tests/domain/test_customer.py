"""A customer's purchases, attributes and balances."""

import itertools

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import (
    MAX_COUNT,
    Attribute,
    CurrencyTransaction,
    Customer,
    next_due_at,
    problem_with_attribute,
    put_purchase,
    visible,
    with_attributes,
    with_purchase,
    with_subscription,
)
from latchkey.domain.customers.virtual_currency import MAX_BALANCE, move, settle_own
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.lifecycle import RENEWAL_LEEWAY
from latchkey.domain.purchases.purchase import MoneyBack, Purchase
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store import actions
from tests.domain.shop import CATALOG, COINS, NOON, PRO_LIFETIME, PRO_PASS, PRO_YEARLY, at, bought, someone, subscribed

END = at("2026-02-15T12:00")


def test_purchases_stand_in_the_order_in_which_they_were_made_however_they_arrive() -> None:
    subscriptions = [
        subscribed(id="b"),
        subscribed(PRO_YEARLY, NOON - DAY, id="c"),
        subscribed(id="a"),
        replace(subscribed(id="a"), store="app_store"),
    ]
    for order in itertools.permutations(subscriptions):
        customer = someone()
        for one in order:
            customer = with_subscription(customer, one)
        assert [(one.id, one.store) for one in customer.subscriptions] == [
            ("c", "test_store"),
            ("a", "app_store"),
            ("a", "test_store"),
            ("b", "test_store"),
        ]


def test_the_same_id_in_two_stores_is_two_purchases() -> None:
    customer = with_purchase(with_purchase(someone(), bought()), replace(bought(), store="app_store"))
    assert len(customer.purchases) == 2
    assert customer.purchase("app_store", "one") != customer.purchase("test_store", "one")


def test_the_next_thing_that_time_will_do_is_the_earliest_end() -> None:
    assert next_due_at(someone()) is None
    assert next_due_at(with_purchase(someone(), bought(PRO_LIFETIME))) is None

    customer = with_subscription(someone(), subscribed())
    assert next_due_at(customer) == END + RENEWAL_LEEWAY
    customer = with_subscription(customer, actions.cancel(subscribed(id="off"), NOON))
    assert next_due_at(customer) == END
    customer = with_purchase(customer, bought(PRO_PASS))
    assert next_due_at(customer) == NOON + 10 * DAY


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("$email", "ann@example.com"),
        ("$email", ""),
        ("$displayName", "Ann Other"),
        ("favourite.cat-name_2", "x" * 500),
        ("n" * 40, None),
        ("nickname", ""),
    ],
)
def test_reserved_and_custom_attributes_are_kept(name: str, value: str | None) -> None:
    assert problem_with_attribute(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("n" * 41, "v", "41 characters"),
        ("", "v", "A name is made of"),
        ("$", "v", "A name is made of"),
        ("$$email", "v", "A name is made of"),
        ("na\nme", "v", "A name is made of"),
        ("name", "v" * 501, "501 characters"),
        ("$email", "ann", "not an e-mail address"),
        ("$email", "ann@exam ple", "not an e-mail address"),
    ],
)
def test_an_attribute_that_cannot_be_kept_is_explained(name: str, value: str, says: str) -> None:
    problem = problem_with_attribute(name, value)
    assert problem is not None
    assert says in problem


def test_the_newer_value_wins_in_whatever_order_they_arrive() -> None:
    values = [Attribute("old", 1), Attribute("new", 3), Attribute("middle", 2)]
    for order in itertools.permutations(values):
        customer = someone()
        for value in order:
            customer = with_attributes(customer, {"name": value})
        assert visible(customer) == {"name": Attribute("new", 3)}


def test_a_deleted_attribute_is_not_shown_and_a_late_older_value_does_not_bring_it_back() -> None:
    customer = with_attributes(someone(), {"name": Attribute("first", 1)})
    customer = with_attributes(customer, {"name": Attribute("", 5)})
    assert visible(customer) == {}

    customer = with_attributes(customer, {"name": Attribute("late", 4)})
    assert visible(customer) == {}

    customer = with_attributes(customer, {"name": Attribute("again", 6)})
    assert visible(customer) == {"name": Attribute("again", 6)}


def test_the_same_values_again_change_nothing() -> None:
    customer = with_attributes(someone(), {"name": Attribute("v", 1)})
    assert with_attributes(customer, {"name": Attribute("v", 1)}) is customer


def test_attributes_are_shown_in_the_order_of_their_names() -> None:
    customer = with_attributes(
        someone(), {"b": Attribute("2", 1), "$email": Attribute("e@x.y", 1), "a": Attribute("1", 1)}
    )
    assert list(visible(customer)) == ["$email", "a", "b"]


def test_only_so_many_deletions_are_remembered_and_the_oldest_are_forgotten_first() -> None:
    customer = someone()
    for moment in range(MAX_COUNT + 50):
        customer = with_attributes(customer, {f"name{moment}": Attribute("", moment)})
    assert len(customer.attributes) == MAX_COUNT
    assert "name0" not in customer.attributes
    assert f"name{MAX_COUNT + 49}" in customer.attributes


def moved(customer: Customer, amount: int, code: str = "COIN", id: str = "key") -> Customer:
    return move(customer, CurrencyTransaction(id, code, amount, NOON))


def test_credits_and_debits_add_up_in_each_currency() -> None:
    customer = moved(moved(moved(someone(), 100), -30), 7, "GEM")
    assert customer.balances == {"COIN": 70, "GEM": 7}


def test_a_balance_can_be_spent_to_zero() -> None:
    assert moved(moved(someone(), 100), -100).balances == {"COIN": 0}


@pytest.mark.parametrize(("balance", "debit"), [(0, 1), (99, 100), (100, 101)])
def test_a_balance_never_goes_below_zero(balance: int, debit: int) -> None:
    customer = moved(someone(), balance)
    with pytest.raises(Refusal, match=f"The balance of COIN is {balance}; {debit} cannot be taken"):
        moved(customer, -debit)


def test_one_currency_does_not_pay_for_another() -> None:
    with pytest.raises(Refusal):
        moved(moved(someone(), 100, "COIN"), -1, "GEM")


def test_a_balance_stays_exact_in_every_client_language() -> None:
    customer = moved(someone(), MAX_BALANCE)
    with pytest.raises(Refusal, match="would pass"):
        moved(customer, 1)


@pytest.mark.parametrize("room", [0, 30, 100])
def test_a_purchase_credits_what_there_is_room_for_and_its_refund_takes_no_more(room: int) -> None:
    def after(customer: Customer, purchase: Purchase) -> Customer:
        return settle_own(customer, put_purchase(customer, purchase), CATALOG, NOON)

    full = after(moved(someone(), MAX_BALANCE - room), bought(COINS))
    assert full.balances == {"COIN": MAX_BALANCE}
    back = replace(full.purchases[0], money_back=(MoneyBack(NOON),))
    refunded = after(full, back)
    assert refunded.balances == {"COIN": MAX_BALANCE - room}
    again = replace(refunded.purchases[0], money_back=(*back.money_back, MoneyBack(NOON + 1, reversal=True)))
    spent = moved(refunded, -200)
    # Now there is room for all of it, and never for more.
    assert after(spent, again).balances == {"COIN": MAX_BALANCE - room - 200 + 100}


@pytest.mark.parametrize(("amount", "type"), [(100, "credit"), (-40, "debit")])
def test_a_movement_is_told_with_a_positive_amount_and_its_direction(amount: int, type: str) -> None:
    before = moved(someone(), 50)
    (event,) = diff(before, moved(before, amount, id="second"))

    assert event.type is EventType.VIRTUAL_CURRENCY_TRANSACTION
    assert (event.amount, event.transaction_type, event.currency) == (abs(amount), type, "COIN")


def test_the_same_key_makes_the_same_event_id_and_another_key_another() -> None:
    def id_of(key: str, code: str = "COIN") -> str:
        (event,) = diff(someone(), moved(someone(), 5, code, key))
        return event.id

    assert id_of("a") == id_of("a")
    assert len({id_of("a"), id_of("b"), id_of("a", "GEM")}) == 3


@pytest.mark.parametrize("ahead", [-1_000, 0, 1_000])
def test_the_purchase_is_told_before_its_credit_also_if_the_clock_of_the_store_is_ahead(ahead: int) -> None:
    before = someone()
    after = settle_own(before, put_purchase(before, bought(COINS, NOON + ahead)), CATALOG, NOON)
    told = diff(before, after)
    assert [event.type for event in told] == ["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"]
    assert told[0].at <= told[1].at
