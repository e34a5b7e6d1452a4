"""Two customers are merged, or one transfers its purchases to the other: no event is lost or made twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.identity import transfer
from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Refusal
from tests.domain.book import Book
from tests.domain.causes import ANONYMOUS
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG

LATER = 500 * DAY


@st.composite
def two_lives(draw: st.DrawFn) -> tuple[Life, Life, Ms]:
    """An anonymous life, a named one, and the moment at which both end."""
    anonymous = draw(lives(who=ANONYMOUS, prefix="q"))
    named = draw(lives())
    now = max(anonymous.ended_at, named.ended_at)
    anonymous.wait(now - anonymous.ended_at)
    named.wait(now - named.ended_at)
    return anonymous, named, now


def alone(book: Book, until: Ms) -> set[str]:
    """The ids of the events that time alone would make for this customer."""
    copy = Book(book.customer, now=book.now, _known=set(book._known))
    copy.pass_time(until)
    return {one.event.id for one in copy.told}


def holds(book: Book, now: Ms) -> dict[str, Ms | None]:
    return {id: access.ends_at for id, access in active(book.customer, CATALOG, now).items()}


def later(one: Ms | None, other: Ms | None) -> Ms | None:
    return None if one is None or other is None else max(one, other)


@given(two_lives())
def test_a_merge_is_told_once_with_what_both_held_and_the_number_after_both(drawn: tuple[Life, Life, Ms]) -> None:
    anonymous, named, now = drawn
    before = [holds(life.book, now) for life in (anonymous, named)]
    numbers = [len(life.book.told) for life in (anonymous, named)]
    both = {id: later(*(one.get(id, 0) for one in before)) for one in before for id in one}

    assert named.book.absorb(anonymous.book, now) == [EventType.SUBSCRIBER_ALIAS]

    told = named.book.last
    assert holds(named.book, now) == both
    assert set(told.entitlements) == set(both)
    assert told.sequence == max(numbers) + 1 == named.book.customer.sequence
    assert isinstance(told.merged_sequences, list)
    assert [one.sequence for one in told.merged_sequences] == numbers
    assert {told.app_user_id, *told.aliases} == {ANONYMOUS, "ann"}


@given(two_lives())
def test_after_a_merge_time_tells_exactly_what_it_would_have_told_of_both(drawn: tuple[Life, Life, Ms]) -> None:
    anonymous, named, now = drawn
    expected = alone(anonymous.book, now + LATER) | alone(named.book, now + LATER)
    named.book.absorb(anonymous.book, now)
    first = len(named.book.told)
    number = named.book.customer.sequence

    named.book.pass_time(now + LATER)

    told = named.book.told[first:]
    assert sorted(one.event.id for one in told) == sorted(expected)
    assert [one.wire.sequence for one in told] == list(range(number + 1, number + 1 + len(told)))
    everything = [one.event.id for one in (*anonymous.book.told, *named.book.told)]
    assert len(set(everything)) == len(everything)


@given(two_lives())
def test_after_a_transfer_time_tells_exactly_what_it_would_have_told_of_both(drawn: tuple[Life, Life, Ms]) -> None:
    giver, receiver, now = drawn
    expected = alone(giver.book, now + LATER) | alone(receiver.book, now + LATER)
    try:
        moved = transfer(giver.book.customer, receiver.book.customer, now)
    except Refusal:
        assert not giver.book.customer.subscriptions
        assert not giver.book.customer.purchases
        return
    giver.book.customer, receiver.book.customer = moved.source, moved.target_before
    assert receiver.book.change(moved.target, now) == [EventType.TRANSFER]
    first = len(receiver.book.told)

    assert giver.book.pass_time(now + LATER) == []
    receiver.book.pass_time(now + LATER)

    assert sorted(one.event.id for one in receiver.book.told[first:]) == sorted(expected)
    assert [one.wire.sequence for one in receiver.book.told] == list(range(1, len(receiver.book.told) + 1))
