"""Whatever the order and number of times in which a store's snapshots arrive, the result is the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.events.event import MONEY, Event, EventType
from latchkey.domain.instants import Ms
from tests.domain.book import Book
from tests.domain.lives import Life, elsewhere, lives
from tests.domain.retelling import replay, retellings


def straight(life: Life, until: Ms) -> Book:
    """Every snapshot once, in order, at the moment it happened."""
    return replay([(at, elsewhere(one)) for at, one in life.snapshots], until)


def state(customer: Customer) -> Customer:
    """Without the number of events, which may be lower, and without balances of 0."""
    return replace(customer, sequence=0, balances={code: one for code, one in customer.balances.items() if one})


def speaks_of_money(event: Event) -> bool:
    bought_by_change = event.type is EventType.PRODUCT_CHANGE and event.price is not None
    return event.type in MONEY or bought_by_change


RENEWAL_OFF = {EventType.CANCELLATION, EventType.TRIAL_CANCELLED}
RENEWAL_ON = {
    EventType.UNCANCELLATION,
    EventType.INITIAL_PURCHASE,
    EventType.TRIAL_STARTED,
    EventType.RENEWAL,
    EventType.PRODUCT_CHANGE,
}


@given(st.data())
def test_any_order_and_duplication_ends_in_the_same_state(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))

    assert state(retelling.of(life).customer) == state(straight(life, retelling.until).customer)


@given(st.data())
def test_any_order_and_duplication_tells_of_the_same_money_once(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))

    told = [one.event.id for one in retelling.of(life).told if speaks_of_money(one.event)]
    expected = [one.event.id for one in straight(life, retelling.until).told if speaks_of_money(one.event)]

    assert sorted(told) == sorted(expected)
    assert len(set(told)) == len(told)


@given(st.data())
def test_the_money_a_store_tells_of_is_the_money_the_service_saw_as_it_happened(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))

    def amounts(book: Book) -> list[tuple[Ms, str, str | None, object]]:
        return [
            (one.event.at, one.event.type, one.event.transaction_id, one.event.price)
            for one in book.told
            if speaks_of_money(one.event)
        ]

    assert sorted(amounts(life.book), key=repr) == sorted(amounts(straight(life, life.ended_at)), key=repr)


@given(st.data())
def test_a_status_that_was_overtaken_is_never_told_backwards(data: st.DataObject) -> None:
    """The events of a subscription come in the order of their moments, except expirations, which time alone causes."""
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))
    book = retelling.of(life)

    for subscription in book.customer.subscriptions:
        moments = [
            one.event.at
            for one in book.told
            if one.event.original_transaction_id == subscription.id and one.event.type is not EventType.EXPIRATION
        ]
        assert moments == sorted(moments)


@given(st.data())
def test_what_was_told_last_of_renewal_agrees_with_the_status(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))
    book = retelling.of(life)

    for subscription in book.customer.subscriptions:
        told = [
            one.event.type
            for one in book.told
            if one.event.original_transaction_id == subscription.id and one.event.type in RENEWAL_OFF | RENEWAL_ON
        ]
        # Once the store has ended it, nothing is told of renewal any more.
        if subscription.status.ended is None:
            assert (told[-1] in RENEWAL_ON) == subscription.status.auto_renew


@given(st.data())
def test_sequence_counts_every_event_from_one_without_a_gap(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))
    book = retelling.of(life)

    assert [one.wire.sequence for one in book.told] == list(range(1, len(book.told) + 1))
    assert book.customer.sequence == len(book.told)
