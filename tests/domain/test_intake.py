import itertools

import pytest
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Credit, Product
from latchkey.domain.customers.customer import CurrencyTransaction
from latchkey.domain.customers.virtual_currency import move
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.purchases.purchase import TEMPORARY_ACCESS, Environment, Purchase, Reason
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.shop import CATALOG, COINS, NOON, PRO_LIFETIME, PRO_MONTHLY, PRO_YEARLY, bought, owner_of, subscribed

T = EventType


def outage(book: Book, product: Product = PRO_MONTHLY, now: Ms | None = None) -> list[EventType]:
    now = book.now if now is None else now
    book.pass_time(now)
    sandbox = Environment.SANDBOX
    return book.take_in(actions.store_outage(book.customer, product, now, id=f"outage {now}", environment=sandbox), now)


# Temporary grants.


def test_a_temporary_grant_lasts_at_most_a_day_and_then_expires() -> None:
    book = Book()
    assert outage(book) == [T.TEMPORARY_ENTITLEMENT_GRANT]
    assert book.holds(NOON + 24 * HOUR - 1) == ["pro"]
    assert book.pass_time(NOON + 24 * HOUR) == [T.EXPIRATION]
    assert book.last.expiration_reason == Reason.UNKNOWN
    assert book.holds() == []
    assert TEMPORARY_ACCESS == 24 * HOUR


@pytest.mark.parametrize("purchased_at", [NOON - HOUR, NOON, NOON + HOUR])
def test_the_real_subscription_settles_it_in_silence(purchased_at: Ms) -> None:
    book = Book()
    outage(book)
    assert book.take_in(subscribed(now=purchased_at), NOON + HOUR) == [T.INITIAL_PURCHASE]
    assert book.pass_time(NOON + 2 * DAY) == []
    assert book.holds() == ["pro"]


def test_the_real_one_time_purchase_settles_it_in_silence() -> None:
    book = Book()
    outage(book, PRO_LIFETIME)
    assert book.take_in(bought(PRO_LIFETIME), NOON + HOUR) == [T.NON_RENEWING_PURCHASE]
    assert book.pass_time(NOON + 2 * DAY) == []


def test_a_renewal_of_the_product_settles_it_too() -> None:
    book = Book()
    lapsed = actions.fail_billing(subscribed(), NOON + DAY)
    book.take_in(lapsed)
    book.pass_time(NOON + 40 * DAY)
    outage(book)
    recovered = actions.recover_billing(book.subscription, CATALOG, book.now)
    assert book.take_in(recovered) == [T.RENEWAL]
    assert book.pass_time(book.now + 2 * DAY) == []


def test_the_purchase_of_something_else_settles_nothing() -> None:
    book = Book()
    outage(book)
    book.take_in(subscribed(PRO_YEARLY), NOON + HOUR)
    assert book.pass_time(NOON + DAY) == [T.EXPIRATION]
    # The expiry takes nothing away that another purchase still gives.
    assert list(book.last.entitlements) == ["pro"]


def test_a_late_word_about_an_old_purchase_settles_nothing() -> None:
    old = actions.expire(subscribed(now=NOON - 90 * DAY), NOON - 80 * DAY)
    for known_before in (True, False):
        book = Book(now=NOON - 90 * DAY)
        if known_before:
            book.take_in(old, NOON - 80 * DAY)
        outage(book, now=NOON)
        book.take_in(old, NOON + HOUR)
        assert book.holds(NOON + 2 * HOUR) == ["pro"]


def test_a_repeated_word_about_a_running_purchase_settles_nothing() -> None:
    book = Book.of(actions.issue_invoice(subscribed(), NOON))
    outage(book)
    before = book.customer
    assert book.take_in(subscribed(), NOON + HOUR) == []
    assert book.customer == before


def test_after_it_has_expired_the_real_purchase_only_adds() -> None:
    book = Book()
    outage(book)
    book.pass_time(NOON + DAY)
    assert book.take_in(subscribed(now=NOON), NOON + 2 * DAY) == [T.INITIAL_PURCHASE]
    assert book.holds() == ["pro"]


# Currency that comes with a purchase.


def coins(book: Book) -> int:
    return book.customer.balances.get("COIN", 0)


def spend(book: Book, amount: int) -> None:
    book.change(move(book.customer, CurrencyTransaction(f"spent {amount}", "COIN", -amount, book.now)))


def test_a_purchase_credits_its_currency_once() -> None:
    book = Book()
    assert book.take_in(bought(COINS)) == [T.NON_RENEWING_PURCHASE, T.VIRTUAL_CURRENCY_TRANSACTION]
    assert book.take_in(bought(COINS)) == []
    assert coins(book) == 100


@pytest.mark.parametrize(
    ("spent", "after_refund", "after_reversal"),
    [(0, 0, 100), (30, 0, 70), (100, 0, 0)],
    ids=["nothing spent", "some spent", "all spent"],
)
def test_a_refund_takes_back_what_is_left_and_a_reversal_gives_that_again(
    spent: int, after_refund: int, after_reversal: int
) -> None:
    book = Book.of(bought(COINS))
    if spent:
        spend(book, spent)

    book.take_in(actions.refund(book.customer.purchases[0], NOON + 1), NOON + 1)
    assert coins(book) == after_refund

    book.take_in(actions.reverse_refund(book.customer.purchases[0], NOON + 2), NOON + 2)
    assert coins(book) == after_reversal


def test_a_refund_takes_back_no_more_than_this_purchase_gave() -> None:
    book = Book.of(bought(COINS, id="first"))
    book.take_in(bought(COINS, id="second"))
    first = book.customer.purchase("test_store", "first")
    assert first is not None
    book.take_in(actions.refund(first, NOON + 1), NOON + 1)
    assert coins(book) == 100


# How the product is edited between a purchase, its refund and the reversal.
EDITS: dict[str, Credit | None] = {
    "not at all": COINS.credits,
    "credits more": Credit("COIN", 500),
    "credits less": Credit("COIN", 10),
    "another currency": Credit("GEM", 100),
    "nothing": None,
}


@pytest.mark.parametrize("before_reversal", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("before_refund", EDITS.values(), ids=EDITS)
def test_a_refund_and_its_reversal_move_what_was_credited_whatever_the_product_credits_by_then(
    before_refund: Credit | None, before_reversal: Credit | None
) -> None:
    book = Book.of(bought(COINS))
    book.change(move(book.customer, CurrencyTransaction("gems", "GEM", 100, book.now)))
    spend(book, 30)
    book.catalog = Catalog({COINS.id: replace(COINS, credits=before_refund)})
    book.take_in(actions.refund(book.customer.purchases[0], NOON + 1), NOON + 1)
    assert book.customer.balances == {"COIN": 0, "GEM": 100}
    book.catalog = Catalog({COINS.id: replace(COINS, credits=before_reversal)})
    book.take_in(actions.reverse_refund(book.customer.purchases[0], NOON + 2), NOON + 2)
    assert book.customer.balances == {"COIN": 70, "GEM": 100}


@pytest.mark.parametrize("credited", [0, 25, 100])
@pytest.mark.parametrize("refunded_before", [False, True])
def test_the_reversal_for_an_imported_purchase_credits_no_more_than_the_refund_took(
    credited: int, refunded_before: bool
) -> None:
    known: Subscription | Purchase = replace(bought(COINS), credited=credited)
    if refunded_before:
        known = actions.refund(known, NOON)
    book = Book(replace(owner_of(known), balances={"COIN": 40}))
    if not refunded_before:
        book.take_in(actions.refund(known, NOON))
        assert coins(book) == 40 - min(40, credited)
    book.take_in(actions.reverse_refund(book.customer.purchases[0], NOON + 1), NOON + 1)
    assert coins(book) == 40


def test_the_balance_does_not_depend_on_the_order_in_which_the_store_told() -> None:
    whole: list[Subscription | Purchase] = [bought(COINS)]
    whole.append(actions.refund(whole[-1], NOON + 1))
    whole.append(actions.reverse_refund(whole[-1], NOON + 2))
    for order in itertools.permutations(whole):
        book = Book()
        for one in order:
            book.take_in(one, NOON + 3)
        assert coins(book) == 100
