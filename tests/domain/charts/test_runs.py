"""Sums as columns: added up, they are the same as sums added up one by one."""

from __future__ import annotations

from random import Random

import pytest

from latchkey.domain.charts.fact import NO_MONEY, Kind, Money, Sum, negative, plus
from latchkey.domain.charts.runs import Run, added, runs_of, sums_of


def some_sums(chance: Random, *, has_money: bool) -> list[Sum]:
    """Many of the same keys and periods, and no two with both the same."""
    found: dict[tuple[object, ...], Sum] = {}
    for _ in range(chance.randrange(12)):
        money = Money(*(chance.randint(-2, 2) for _ in NO_MONEY)) if has_money else NO_MONEY
        key = (
            chance.choice((Kind.PAYMENT, Kind.ACTIVE)),
            chance.randrange(2),
            chance.choice((None, 1, 2, 3)),
            chance.choice(("", "US")),
            "USD" if has_money else "",
        )
        one = Sum(*key, chance.randint(-2, 2), money)
        if one.quantity or any(money):
            found[key] = one
    return list(found.values())


def one_by_one(more: list[list[Sum]], less: list[list[Sum]]) -> set[Sum]:
    totals: dict[tuple[object, ...], Sum] = {}
    for row in (row for of in more for row in of):
        _add(totals, row)
    for row in (row for of in less for row in of):
        _add(totals, row._replace(quantity=-row.quantity, money=negative(row.money)))
    return {row for row in totals.values() if row.quantity or any(row.money)}


def _add(totals: dict[tuple[object, ...], Sum], row: Sum) -> None:
    known = totals.get(row[:5])
    if known is not None:
        row = row._replace(quantity=known.quantity + row.quantity, money=plus(known.money, row.money))
    totals[row[:5]] = row


@pytest.mark.parametrize("has_money", [True, False])
def test_runs_added_up_are_the_sums_added_up(has_money: bool) -> None:
    chance = Random(7)
    for _ in range(300):
        more = [some_sums(chance, has_money=has_money) for _ in range(chance.randrange(1, 4))]
        less = [some_sums(chance, has_money=has_money) for _ in range(chance.randrange(3))]
        found = added([run for of in more for run in runs_of(of)], less=[run for of in less for run in runs_of(of)])
        assert len({run.key for run in found}) == len(found)
        rows = sums_of(found)
        assert len(rows) == len(set(rows))
        assert set(rows) == one_by_one(more, less)


def test_runs_without_money_and_with_it_are_added_up() -> None:
    counted = Run(Kind.PAYMENT, 0, "", "", [1, 2], [3, 4])
    paid = Run(Kind.PAYMENT, 0, "", "", [2], [-4], [[one] for one in Money(5)])
    assert sums_of(added([counted, paid])) == [
        Sum(Kind.PAYMENT, 0, 1, "", "", 3),
        Sum(Kind.PAYMENT, 0, 2, "", "", 0, Money(5)),
    ]
    assert added([counted], less=[counted]) == []
