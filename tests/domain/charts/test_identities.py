"""What must hold between facts, whatever happened in a customer's life."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.access.entitlements import accesses
from latchkey.domain.charts.fact import MOVED, NO_MONEY, Fact, Kind, Money, minus, negative, plus
from latchkey.domain.charts.amounts import growth
from latchkey.domain.charts.facts.of_customer import facts_of
from latchkey.domain.charts.facts.subject import subjects_of
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Subscription
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG

UP = (Kind.NEW, Kind.RETURN, Kind.EXPANSION)
DOWN = (Kind.CONTRACTION, Kind.CHURN)


def all_facts(customer: Customer) -> list[Fact]:
    found = facts_of(customer, CATALOG, origins={}, issues={}, attributes=())
    assert found.keys() == subjects_of(customer).keys()
    for facts in found.values():
        # No two facts of a subject differ in quantity and money only.
        assert len({(one.kind, one.at, one.n, one.currency, one.dimensions) for one in facts}) == len(facts)
    return [fact for facts in found.values() for fact in facts]


def quantity(facts: Iterable[Fact], *kinds: Kind, now: Ms | None = None, n: int | None = None) -> int:
    return sum(
        one.quantity
        for one in facts
        if one.kind in kinds and (now is None or one.at <= now) and (n is None or one.n == n)
    )


def money(facts: Iterable[Fact], *kinds: Kind) -> Money:
    total = NO_MONEY
    for one in facts:
        if one.kind in kinds:
            total = plus(total, one.money)
    return total


@given(lives())
def test_the_movement_explains_the_level_at_every_instant_in_every_currency_and_product(life: Life) -> None:
    parts: dict[object, list[Fact]] = defaultdict(list)
    for fact in all_facts(life.book.customer):
        if fact.kind is Kind.ACTIVE or fact.kind in UP + DOWN:
            parts[fact.at, fact.currency, fact.dimensions].append(fact)
    for facts in parts.values():
        assert quantity(facts, *UP) - quantity(facts, *DOWN) == quantity(facts, Kind.ACTIVE)
        assert money(facts, *UP) == plus(money(facts, Kind.ACTIVE), money(facts, *DOWN))


@given(lives())
def test_no_movement_is_negative_in_any_product_and_what_moves_between_products_adds_up_to_nothing(life: Life) -> None:
    moved: dict[object, Money] = defaultdict(lambda: NO_MONEY)
    for fact in all_facts(life.book.customer):
        if (fact.kind, fact.n) == (Kind.EXPANSION, MOVED):
            moved[fact.at, fact.currency] = plus(moved[fact.at, fact.currency], fact.money)
        elif fact.kind in UP + DOWN:
            assert min(shown(fact.money)) >= 0
    assert not any(any(one) for one in moved.values())


def shown(money: Money) -> tuple[int, ...]:
    """Every amount of it that a chart can show."""
    micros, tax, commission, usd, tax_usd, commission_usd, _ = money
    net, net_usd = micros - tax, usd - tax_usd
    return micros, net, net - commission, usd, net_usd, net_usd - commission_usd


AMOUNTS = st.integers(-10, 10)


@given(st.builds(Money, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS))
def test_growth_and_its_opposite_are_each_amount_for_itself_and_add_up_to_the_difference(difference: Money) -> None:
    more, less = growth(difference), growth(negative(difference))
    assert minus(more, less) == difference
    for one, up, down in zip(shown(difference), shown(more), shown(less), strict=True):
        assert (up, down) == (max(one, 0), max(-one, 0))


@given(lives())
def test_trials_that_started_and_have_not_ended_run(life: Life) -> None:
    facts = all_facts(life.book.customer)
    for at in {fact.at for fact in facts}:
        started, ended = (quantity(facts, kind, now=at) for kind in (Kind.TRIAL_STARTED, Kind.TRIAL_ENDED))
        assert started - ended == quantity(facts, Kind.TRIAL, now=at) >= 0


@given(lives())
def test_those_count_that_give_access_and_each_has_one_status(life: Life) -> None:
    for now, customer in life.book.states:
        running = {
            (one.source.store, one.source.id)
            for one in accesses(customer, CATALOG)
            if isinstance(one.source, Subscription) and one.purchased_at <= now and one.is_active(now)
        }
        facts = all_facts(customer)
        assert quantity(facts, Kind.ACTIVE, Kind.TRIAL, now=now) == len(running)
        assert quantity(facts, Kind.STATUS, now=now) == quantity(facts, Kind.ACTIVE, Kind.TRIAL, now=now)
