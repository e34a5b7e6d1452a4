"""What has passed does not change, and what was given back leaves nothing."""

from collections import defaultdict

from hypothesis import given
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import transfer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import MoneyBack, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Period
from latchkey.subjects.charts.rules.facts import LEVELS, Kind
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG, someone
from tests.subjects.charts.derived import Person, facts_of_each, fewer, many_lives
from tests.subjects.charts.fact import Fact
from tests.subjects.charts.feed import Amounts, Key, sums_of
from tests.subjects.charts.test_recount import issues_of

# Money and numbers of the past, as they were published.
CLOSED = {
    Kind.PAYMENT,
    Kind.REFUND,
    Kind.CUSTOMER,
    Kind.PAYING_CUSTOMER,
    Kind.ACTIVE,
    Kind.NEW,
    Kind.RETURN,
    Kind.EXPANSION,
    Kind.CONTRACTION,
    Kind.CHURN,
    Kind.TRIAL,
    Kind.TRIAL_STARTED,
    Kind.TRIAL_ENDED,
}
# Of these the number stays, but not what became of it so far (n).
BY_OUTCOME = {Kind.TRIAL_STARTED, Kind.TRIAL_ENDED}
# A reversed refund gives access back for all the time that was paid.
BY_ACCESS = CLOSED - {Kind.PAYMENT, Kind.REFUND, Kind.CUSTOMER, Kind.PAYING_CUSTOMER, Kind.TRIAL_STARTED}


def person(life: Life, customer: Customer, now: Ms) -> Person:
    events = [one.wire for one in life.book.told if one.committed_at <= now]
    return Person(customer, CATALOG, issues_of(events))


def published(facts: list[Fact], kinds: set[Kind], now: Ms) -> dict[Key, Amounts]:
    """All sums by day, of the days that are over."""
    return sums_of(
        (one._replace(n=0) if one.kind in BY_OUTCOME else one for one in facts if one.kind in kinds),
        now // DAY * DAY - 1,
    )


@fewer
@given(lives())
def test_later_events_do_not_change_the_days_that_are_over(life: Life) -> None:
    reversed_any = any("reverse" in act for act in life.acts)
    kinds = CLOSED - BY_ACCESS if reversed_any else CLOSED
    states = dict(life.book.states)
    people = [person(life, customer, now) for now, customer in states.items()]
    hindsight, *found = facts_of_each([person(life, life.book.customer, life.ended_at), *people])
    for now, facts in zip(states, found, strict=True):
        assert published(facts, kinds, now) == published(hindsight, kinds, now)


@fewer
@given(many_lives)
def test_who_got_everything_back_has_brought_in_nothing(told: list[Life]) -> None:
    people = [person(life, refunded(life.book.customer, life.ended_at), life.ended_at) for life in told]
    for life, one, facts in zip(told, people, facts_of_each(people), strict=True):
        _brought_in_nothing(one.customer, facts, life.ended_at)


def _brought_in_nothing(customer: Customer, facts: list[Fact], now: Ms) -> None:
    totals: dict[Kind, int] = defaultdict(int)
    money: dict[tuple[Kind, str], int] = defaultdict(int)
    for one in facts:
        if one.at <= now or one.kind not in LEVELS:
            totals[one.kind] += one.quantity
            money[one.kind, one.currency] += one.money.micros
    assert totals[Kind.PAYMENT] == totals[Kind.REFUND] == totals[Kind.REFUNDED_PAYMENT]
    for currency in {one.currency for one in facts}:
        assert money[Kind.PAYMENT, currency] == money[Kind.REFUND, currency]
        assert money[Kind.SEEN_REVENUE, currency] == 0
    assert (totals[Kind.SEEN_PAYER], totals[Kind.SEEN_REVENUE], totals[Kind.ACTIVE]) == (0, 0, 0)
    assert totals[Kind.PAYING_CUSTOMER] == int(totals[Kind.PAYMENT] > 0)
    trials = totals[Kind.TRIAL_STARTED]
    free = any(one.kind is PurchaseKind.ONE_TIME and not one.price.micros for one in customer.purchases)
    assert totals[Kind.SEEN_CONVERTED] == int(trials > 0 or free)


def refunded(customer: Customer, now: Ms) -> Customer:
    def back(one: Period | Purchase) -> tuple[MoneyBack, ...]:
        if not one.price.micros or one.refunded_at is not None:
            return one.money_back
        return (*one.money_back, MoneyBack(max(now, one.purchased_at), number=len(one.money_back)))

    return replace(
        customer,
        subscriptions=tuple(
            replace(one, periods=tuple(replace(period, money_back=back(period)) for period in one.periods))
            for one in customer.subscriptions
        ),
        purchases=tuple(
            replace(one, money_back=back(one)) if one.kind is PurchaseKind.ONE_TIME else one
            for one in customer.purchases
        ),
    )


@fewer
@given(many_lives)
def test_a_transfer_moves_no_fact_of_a_purchase(told: list[Life]) -> None:
    people: list[Person] = []
    for life in told:
        source = life.book.customer
        if source.subscriptions or source.purchases:
            moved = transfer(source, someone("bob", source.first_seen_at), life.ended_at)
            people += map(Person, (source, moved.target, moved.source))
    found = facts_of_each(people)
    for before, after, left in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert _of_purchases(after) == _of_purchases(before)
        assert {one.kind for one in left} <= {Kind.CUSTOMER, Kind.ENROLLED}


def _of_purchases(facts: list[Fact]) -> list[Fact]:
    """Without the variants: enrollments stay with the customer."""
    return [
        one._replace(dimensions=one.dimensions._replace(variants=()))
        for one in facts
        if not one.kind.startswith(("seen", "enrolled", "customer", "paying_customer"))
    ]
