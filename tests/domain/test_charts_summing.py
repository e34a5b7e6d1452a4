"""The plain sums that the stored ones are compared with."""

from __future__ import annotations

from datetime import date

import pytest

from latchkey.domain.charts.period_amounts import Money
from latchkey.domain.instants import DAY
from latchkey.subjects.charts.rules.facts import Filter, Kind, Question, Resolution, date_of, day_of, period_of
from tests.domain.charts.fact import Dimensions, Fact, Sum
from tests.domain.charts.summing import sum_facts

JANUARY = day_of(date(2026, 1, 1))
NOW = day_of(date(2026, 3, 1)) * DAY
DE = Dimensions(product="pro", country="DE", variants=("price:a", "wall:x"))
FR = Dimensions(product="pro", country="FR", attributes=("plan=team",))


def asked(kind: Kind, *filters: Filter, segment: str | None = None) -> Question:
    return Question("PRODUCTION", (kind,), JANUARY, JANUARY + 30, Resolution.DAY, filters, segment)


def at(day: int) -> int:
    return (JANUARY + day) * DAY


@pytest.mark.parametrize(
    ("day", "resolution", "first"),
    [
        ("2026-01-31", Resolution.DAY, "2026-01-31"),
        ("2026-01-31", Resolution.WEEK, "2026-01-25"),
        ("2026-02-01", Resolution.WEEK, "2026-02-01"),
        ("2026-02-07", Resolution.WEEK, "2026-02-01"),
        ("1969-12-31", Resolution.WEEK, "1969-12-28"),
        ("2028-02-29", Resolution.MONTH, "2028-02-01"),
    ],
)
def test_a_day_belongs_to_the_period_that_begins_on(day: str, resolution: Resolution, first: str) -> None:
    assert str(date_of(period_of(day_of(date.fromisoformat(day)), resolution))) == first


def test_flows_are_summed_within_the_days_asked_for() -> None:
    facts = [
        Fact(Kind.PAYMENT, at(-1), currency="EUR", quantity=1, money=Money(1)),
        Fact(Kind.PAYMENT, at(0), currency="EUR", quantity=1, money=Money(2)),
        Fact(Kind.PAYMENT, at(0) + 5, currency="EUR", quantity=1, money=Money(4)),
        Fact(Kind.PAYMENT, at(31), currency="EUR", quantity=1, money=Money(8)),
        Fact(Kind.REFUND, at(1), currency="EUR", quantity=1, money=Money(16)),
    ]
    assert sum_facts(facts, asked(Kind.PAYMENT), NOW) == [Sum(Kind.PAYMENT, 0, JANUARY, "", "EUR", 2, Money(6))]


def test_levels_come_with_what_was_before() -> None:
    facts = [
        Fact(Kind.ACTIVE, at(-40), quantity=1),
        Fact(Kind.ACTIVE, at(-9), quantity=1),
        Fact(Kind.ACTIVE, at(3), quantity=-1),
    ]
    assert sum_facts(facts, asked(Kind.ACTIVE), NOW) == [
        Sum(Kind.ACTIVE, 0, None, "", "", 2),
        Sum(Kind.ACTIVE, 0, JANUARY + 3, "", "", -1),
    ]


def test_nothing_after_now_counts() -> None:
    facts = [Fact(Kind.TRIAL, at(2), quantity=1), Fact(Kind.TRIAL, at(2) + 1, quantity=1)]
    assert sum_facts(facts, asked(Kind.TRIAL), at(2)) == [Sum(Kind.TRIAL, 0, JANUARY + 2, "", "", 1)]


def test_filters_must_all_match_and_segments_divide() -> None:
    facts = [Fact(Kind.NEW, at(1), quantity=1, dimensions=DE), Fact(Kind.NEW, at(1), quantity=2, dimensions=FR)]

    def counted(*filters: Filter, segment: str | None = None) -> list[tuple[str, int]]:
        found = sum_facts(facts, asked(Kind.NEW, *filters, segment=segment), NOW)
        return [(one.segment, one.quantity) for one in found]

    assert counted(segment="country") == [("DE", 1), ("FR", 2)]
    assert counted(segment="experiment:price") == [("", 2), ("a", 1)]
    assert counted(segment="attribute:plan") == [("", 1), ("team", 2)]
    assert counted(Filter("country", ("FR", "US"))) == [("", 2)]
    assert counted(Filter("country", ("FR",)), Filter("experiment:wall", ("x",))) == []
    assert counted(Filter("product", ("pro",)), Filter("experiment:wall", ("",))) == [("", 2)]
