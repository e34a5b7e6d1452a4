"""What must hold between facts, whatever happened in a customer's life."""

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given

from latchkey.domain.access.entitlements import accesses
from latchkey.domain.charts.period_amounts import NO_MONEY, PeriodMoney
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Subscription
from latchkey.subjects.charts.rules.facts import MOVED, Kind
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG
from tests.subjects.charts.derived import Person, facts_of_each, facts_of_lives, fewer, many_lives
from tests.subjects.charts.fact import Fact, plus

UP = (Kind.NEW, Kind.RETURN, Kind.EXPANSION)
DOWN = (Kind.CONTRACTION, Kind.CHURN)


def quantity(facts: Iterable[Fact], *kinds: Kind, now: Ms | None = None, n: int | None = None) -> int:
    return sum(
        one.quantity
        for one in facts
        if one.kind in kinds and (now is None or one.at <= now) and (n is None or one.n == n)
    )


def money(facts: Iterable[Fact], *kinds: Kind) -> PeriodMoney:
    total = NO_MONEY
    for one in facts:
        if one.kind in kinds:
            total = plus(total, one.money)
    return total


@fewer
@given(many_lives)
def test_movements_trials_and_moves_between_products_add_up(told: list[Life]) -> None:
    for _, facts in facts_of_lives(told):
        movement_explains_the_level(facts)
        moves_between_products_add_up_to_nothing(facts)
        trials_that_have_not_ended_run(facts)


def movement_explains_the_level(found: list[Fact]) -> None:
    """At every instant, in every currency and product."""
    parts: dict[object, list[Fact]] = defaultdict(list)
    for fact in found:
        if fact.kind is Kind.ACTIVE or fact.kind in UP + DOWN:
            parts[fact.at, fact.currency, fact.dimensions].append(fact)
    for facts in parts.values():
        assert quantity(facts, *UP) - quantity(facts, *DOWN) == quantity(facts, Kind.ACTIVE)
        assert money(facts, *UP) == plus(money(facts, Kind.ACTIVE), money(facts, *DOWN))


def moves_between_products_add_up_to_nothing(found: list[Fact]) -> None:
    """And no movement is negative in any product."""
    moved: dict[object, PeriodMoney] = defaultdict(lambda: NO_MONEY)
    for fact in found:
        if (fact.kind, fact.n) == (Kind.EXPANSION, MOVED):
            moved[fact.at, fact.currency] = plus(moved[fact.at, fact.currency], fact.money)
        elif fact.kind in UP + DOWN:
            assert min(shown(fact.money)) >= 0
    assert not any(any(amount) for amount in moved.values())


def shown(money: PeriodMoney) -> tuple[int, ...]:
    """Every amount of it that a chart can show."""
    micros, tax, commission, usd, tax_usd, commission_usd, _ = money
    net, net_usd = micros - tax, usd - tax_usd
    return micros, net, net - commission, usd, net_usd, net_usd - commission_usd


def trials_that_have_not_ended_run(facts: list[Fact]) -> None:
    for at in {fact.at for fact in facts}:
        started, ended = (quantity(facts, kind, now=at) for kind in (Kind.TRIAL_STARTED, Kind.TRIAL_ENDED))
        assert started - ended == quantity(facts, Kind.TRIAL, now=at) >= 0


@fewer
@given(lives())
def test_those_count_that_give_access_and_each_has_one_status(life: Life) -> None:
    states = life.book.states
    found = facts_of_each([Person(customer) for _, customer in states])
    for (now, customer), facts in zip(states, found, strict=True):
        running = {
            (one.source.store, one.source.id)
            for one in accesses(customer, CATALOG)
            if isinstance(one.source, Subscription) and one.purchased_at <= now and one.is_active(now)
        }
        assert quantity(facts, Kind.ACTIVE, Kind.TRIAL, now=now) == len(running)
        assert quantity(facts, Kind.STATUS, now=now) == quantity(facts, Kind.ACTIVE, Kind.TRIAL, now=now)
