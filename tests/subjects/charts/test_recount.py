"""The facts of a customer add up to what a receiver of the events would count."""

from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.catalog import ProductKind
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import Duration
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.stores.test_store import actions
from latchkey.wire.event import Event
from tests.domain.book import Book
from tests.domain.lives import Life, as_told, elsewhere, lives
from tests.domain.retelling import retellings
from tests.domain.shop import CATALOG, NOON, PRO_YEARLY, TEAM_MONTHLY
from tests.subjects.charts.derived import AT_ONCE, Issue, Person, PurchaseKey, facts_of_each, fewer, many_lives
from tests.subjects.charts.feed import MONTHS, TRIAL_PRICE, recount, sums_of


def issues_of(events: list[Event]) -> dict[PurchaseKey, list[Issue]]:
    found: dict[PurchaseKey, list[Issue]] = defaultdict(list)
    for one in events:
        if one.type == "BILLING_ISSUE":
            grace = one.grace_period_expires_at_ms
            issue = Issue(one.event_timestamp_ms, str(one.transaction_id), grace if isinstance(grace, int) else None)
            found[str(one.store), str(one.original_transaction_id)].append(issue)
    return found


def events_of(book: Book) -> list[Event]:
    return [one.wire for one in book.told]


def check(*told: tuple[Book, list[Event]]) -> None:
    people = [Person(book.customer, book.catalog, issues_of(events)) for book, events in told]
    for (book, events), facts in zip(told, facts_of_each(people), strict=True):
        counted = sums_of(facts, book.now)
        expected = recount(events, book.customer.first_seen_at, book.now)
        assert {key: one for key, one in counted.items() if expected.get(key) != one} == {
            key: one for key, one in expected.items() if counted.get(key) != one
        }


@fewer
@given(many_lives)
def test_as_it_happens(told: list[Life]) -> None:
    check(*((life.book, events_of(life.book)) for life in told))


@fewer
@given(st.data())
def test_told_in_any_order_and_several_times(data: st.DataObject) -> None:
    told = [data.draw(lives(with_own_acts=False, longest=10)) for _ in range(AT_ONCE)]
    books = [data.draw(retellings(life)).of(life) for life in told]
    check(*((book, events_of(book)) for book in books if not has_untold_grace(book)))


def has_untold_grace(book: Book) -> bool:
    """A failed payment that the service hears of after it was made good is not told, so no receiver can know that there
    was a grace period."""
    told = {one.event.transaction_id for one in book.told if one.event.type is EventType.BILLING_ISSUE}
    return any(
        after.paid_from is not None and before.id not in told
        for one in book.customer.subscriptions
        for before, after in pairwise(one.periods)
    )


_PAIRS = st.tuples(lives(longest=8), lives(longest=8, who="$RCAnonymousID:" + "a" * 32, prefix="q"))


@fewer
@given(st.lists(_PAIRS, min_size=1, max_size=AT_ONCE))
def test_of_two_customers_who_are_merged(pairs: list[tuple[Life, Life]]) -> None:
    told = []
    for life, other in pairs:
        now = max(life.ended_at, other.ended_at)
        other.book.pass_time(now)
        life.book.pass_time(now)
        events = events_of(other.book)
        life.book.absorb(other.book, now)
        told.append((life.book, [*events, *events_of(life.book)]))
    check(*told)


def test_two_payments_that_are_refunded_in_the_same_millisecond() -> None:
    """Found by random lives: the second refund looked like the first one, and was not told."""
    book = Book()
    one = actions.buy(book.customer, PRO_YEARLY, NOON, id="p0", environment=Environment.SANDBOX)
    for act in (
        lambda seen: seen,
        lambda seen: actions.refund(seen, NOON),
        lambda seen: actions.reverse_refund(seen, NOON),
        lambda seen: actions.change_product(seen, TEAM_MONTHLY, NOON, at_renewal=False),
        lambda seen: actions.refund(seen, NOON),
    ):
        one = act(one)
        book.take_in(elsewhere(as_told(one)), NOON)
    assert [one.wire.type for one in book.told].count("REFUND") == 2
    check((book, events_of(book)))


def test_the_recount_knows_the_lengths_and_prices_of_the_catalog() -> None:
    sold = {one.id: one for one in CATALOG.products.values() if one.kind is ProductKind.SUBSCRIPTION}
    assert {id: one.duration for id, one in sold.items()} == {id: Duration(months=n) for id, n in MONTHS.items()}
    assert [one.price.micros for one in sold.values() if one.trial] == [TRIAL_PRICE]
