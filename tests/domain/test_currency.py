from __future__ import annotations

import pytest

from latchkey.domain.customers.credits import settle_own
from latchkey.domain.customers.currency import MAX_BALANCE, move
from latchkey.domain.customers.customer import CurrencyTransaction, Customer, put_purchase
from latchkey.domain.events.diff import diff
from latchkey.domain.events.event import EventType
from latchkey.domain.refusal import InsufficientBalance
from tests.domain.shop import CATALOG, COINS, NOON, bought, someone


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
    with pytest.raises(InsufficientBalance, match=f"The balance of COIN is {balance}; {debit} cannot be taken"):
        moved(customer, -debit)


def test_one_currency_does_not_pay_for_another() -> None:
    with pytest.raises(InsufficientBalance):
        moved(moved(someone(), 100, "COIN"), -1, "GEM")


def test_a_balance_stays_exact_in_every_client_language() -> None:
    customer = moved(someone(), MAX_BALANCE)
    with pytest.raises(InsufficientBalance, match="would pass"):
        moved(customer, 1)


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
