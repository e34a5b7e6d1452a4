"""Whatever the order and repetition: the same state and money; without a change no event; and two lives become one."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.customer import Customer, let_time_pass
from latchkey.domain.customers.identity import transfer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.events.customer_event import Event, EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Refusal
from latchkey.engine.due_transitions import steps
from tests.domain.book import MONEY, Book
from tests.domain.causes import ANONYMOUS
from tests.domain.lives import Life, elsewhere, lives
from tests.domain.retelling import replay, retellings
from tests.domain.shop import CATALOG


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


def money(book: Book) -> list[str]:
    return sorted(one.event.id for one in book.told if speaks_of_money(one.event))


@given(st.data())
def test_any_order_and_duplication_ends_in_the_same_state_and_tells_of_the_same_money_once(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))
    book, plain = retelling.of(life), straight(life, retelling.until)

    assert state(book.customer) == state(plain.customer)
    assert money(book) == money(plain)
    assert len(set(money(book))) == len(money(book))
    # The sequence counts every event from one without a gap.
    assert [one.wire.sequence for one in book.told] == list(range(1, len(book.told) + 1))
    assert book.customer.sequence == len(book.told)
    for subscription in book.customer.subscriptions:
        told = [one.event for one in book.told if one.event.original_transaction_id == subscription.id]
        # A status that was overtaken is never told backwards. Expirations are caused by time alone.
        moments = [event.at for event in told if event.type is not EventType.EXPIRATION]
        assert moments == sorted(moments)
        # What was told last of renewal agrees with the status, until the store has ended it.
        if subscription.status.ended is None:
            last = [event.type for event in told if event.type in RENEWAL_OFF | RENEWAL_ON][-1]
            assert (last in RENEWAL_ON) == subscription.status.auto_renew


@given(lives(with_own_acts=False))
def test_the_money_a_store_tells_of_is_the_money_the_service_saw_as_it_happened(life: Life) -> None:
    def amounts(book: Book) -> list[tuple[Ms, str, str | None, object]]:
        return [
            (one.event.at, one.event.type, one.event.transaction_id, one.event.price)
            for one in book.told
            if speaks_of_money(one.event)
        ]

    assert sorted(amounts(life.book), key=repr) == sorted(amounts(straight(life, life.ended_at)), key=repr)


@given(lives(), st.data())
def test_what_was_seen_before_and_time_that_has_passed_change_nothing_and_tell_nothing(
    life: Life, data: st.DataObject
) -> None:
    customer = life.book.customer
    assert list(steps(customer, CATALOG, life.ended_at)) == []
    assert let_time_pass(customer, life.ended_at) is customer
    if life.snapshots:
        _, snapshot = data.draw(st.sampled_from(life.snapshots))
        after = take_in(customer, snapshot, life.ended_at)
        assert after == customer
        assert diff(customer, after) == ()


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
def test_a_merge_is_told_once_and_afterwards_time_tells_exactly_what_it_would_have_told_of_both(
    drawn: tuple[Life, Life, Ms],
) -> None:
    anonymous, named, now = drawn
    before = [holds(life.book, now) for life in (anonymous, named)]
    numbers = [len(life.book.told) for life in (anonymous, named)]
    both = {id: later(*(one.get(id, 0) for one in before)) for one in before for id in one}
    expected = alone(anonymous.book, now + LATER) | alone(named.book, now + LATER)

    assert named.book.absorb(anonymous.book, now) == [EventType.SUBSCRIBER_ALIAS]

    alias = named.book.last
    assert holds(named.book, now) == both
    assert set(alias.entitlements) == set(both)
    assert alias.sequence == max(numbers) + 1 == named.book.customer.sequence
    assert isinstance(alias.merged_sequences, list)
    assert [one.sequence for one in alias.merged_sequences] == numbers
    assert {alias.app_user_id, *alias.aliases} == {ANONYMOUS, "ann"}
    first = len(named.book.told)

    named.book.pass_time(now + LATER)

    told = named.book.told[first:]
    assert sorted(one.event.id for one in told) == sorted(expected)
    assert [one.wire.sequence for one in told] == list(range(alias.sequence + 1, alias.sequence + 1 + len(told)))
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
