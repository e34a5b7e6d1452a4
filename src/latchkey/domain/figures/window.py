"""Which days make a period, and what the sums by day come to in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import TypeAlias

from latchkey.domain.figures.tally import NOTHING, Tally, total
from latchkey.domain.instants import DAY, HOUR, Ms, to_iso

ByCurrency: TypeAlias = Mapping[str, Tally]


@dataclass(frozen=True, slots=True)
class Window:
    """The last `days` days, UTC, today until now among them; and as many before, until the same time of their last."""

    days: int
    now: Ms

    @property
    def today(self) -> int:
        return self.now // DAY

    @property
    def start(self) -> int:
        return self.today - self.days + 1

    @property
    def previous_start(self) -> int:
        return self.start - self.days

    @property
    def then(self) -> Ms:
        return self.now - self.days * DAY

    @property
    def then_hour(self) -> int:
        """New customers are compared by whole hours: nobody needs the minute in which a stranger came a month ago."""
        return self.then // HOUR

    @property
    def dates(self) -> tuple[str, ...]:
        return tuple(to_iso(day * DAY)[:10] for day in range(self.start, self.today + 1))


@dataclass(frozen=True, slots=True)
class Sums:
    """All that a report needs. Days are those of both periods; `opening` is everything before them."""

    opening: ByCurrency
    days: Mapping[int, ByCurrency]
    # What is in today's sum though it lies ahead of now, and the same for the day and the moment a period ago.
    ahead: ByCurrency
    ahead_then: ByCurrency
    # Customers by the day on which they were first seen, and those of the earlier period until the moment a period ago.
    newcomers: Mapping[int, int]
    newcomers_then: int

    @property
    def currencies(self) -> set[str]:
        return {*self.opening, *(currency for day in self.days.values() for currency in day)}


@dataclass(frozen=True, slots=True)
class Account:
    """What happened in one currency, or in all: in the period and the one before, and all that had by their ends."""

    opening: Tally
    previous_flow: Tally
    at_start: Tally
    # For each day of the period.
    flows: tuple[Tally, ...]

    @property
    def flow(self) -> Tally:
        return total(self.flows)

    @property
    def level(self) -> Tally:
        return self.at_start.plus(self.flow)

    @property
    def previous_level(self) -> Tally:
        return self.opening.plus(self.previous_flow)

    def levels(self, column: str) -> tuple[int, ...]:
        """For each day of the period, all that had happened by its end."""
        index = Tally._fields.index(column)
        return tuple(accumulate((flow[index] for flow in self.flows), initial=self.at_start[index]))[1:]


def account(window: Window, sums: Sums, currency: str) -> Account:
    def day(number: int) -> Tally:
        by_currency = sums.days.get(number)
        return NOTHING if by_currency is None else by_currency.get(currency, NOTHING)

    opening = sums.opening.get(currency, NOTHING)
    previous = total(day(number) for number in range(window.previous_start, window.start))
    flows = [day(number) for number in range(window.start, window.today + 1)]
    flows[-1] = flows[-1].minus(sums.ahead.get(currency, NOTHING))
    return Account(
        opening=opening,
        previous_flow=previous.minus(sums.ahead_then.get(currency, NOTHING)),
        at_start=opening.plus(previous),
        flows=tuple(flows),
    )


def together(window: Window, accounts: Sequence[Account]) -> Account:
    if len(accounts) == 1:
        return accounts[0]
    nothing = Account(NOTHING, NOTHING, NOTHING, (NOTHING,) * window.days)
    return reduce(_sum, accounts, nothing)


def _sum(one: Account, two: Account) -> Account:
    return Account(
        opening=one.opening.plus(two.opening),
        previous_flow=one.previous_flow.plus(two.previous_flow),
        at_start=one.at_start.plus(two.at_start),
        # Most currencies see no payment on most days.
        flows=tuple(a if b is NOTHING else a.plus(b) for a, b in zip(one.flows, two.flows, strict=True)),
    )
