"""The days of a period, and the sums over them."""

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
    """The last `days` days (UTC) including today until now, and the same number of days before them."""

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
        """New customers are compared by whole hours: the figure does not need more precision."""
        return self.then // HOUR

    @property
    def dates(self) -> tuple[str, ...]:
        return tuple(to_iso(day * DAY)[:10] for day in range(self.start, self.today + 1))


@dataclass(frozen=True, slots=True)
class Sums:
    """The input of a report. It has the days of both periods; `opening` sums up everything before them."""

    opening: ByCurrency
    days: Mapping[int, ByCurrency]
    # The part of today's sum that lies after now, and the same for the day one period ago.
    ahead: ByCurrency
    ahead_then: ByCurrency
    # New customers by day, and those of the earlier period's last day until the same time of day.
    newcomers: Mapping[int, int]
    newcomers_then: int

    @property
    def currencies(self) -> set[str]:
        return {*self.opening, *(currency for day in self.days.values() for currency in day)}


@dataclass(frozen=True, slots=True)
class Account:
    """The sums of one currency, or of all: in this period, in the one before, and everything up to the end of each."""

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

    def in_usd(self, currency: str) -> Account:
        return Account(
            self.opening.in_usd(currency),
            self.previous_flow.in_usd(currency),
            self.at_start.in_usd(currency),
            tuple(one if one is NOTHING else one.in_usd(currency) for one in self.flows),
        )

    def levels(self, column: str) -> tuple[int, ...]:
        """For each day of the period, the sum of everything up to the end of that day."""
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
