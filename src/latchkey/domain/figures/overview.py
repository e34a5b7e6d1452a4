"""The data of the overview page: cards with the value now and one period ago, and a series per day for each figure."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.figures.definitions import Figure
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment


@dataclass(frozen=True, slots=True)
class Amount:
    """The value of a card in one of the other currencies, in millionths."""

    currency: str
    value: int
    previous: int


@dataclass(frozen=True, slots=True)
class InUsd:
    """The value of a card over all currencies in USD, in millionths, as far as it could be converted."""

    value: int
    previous: int
    # How many payments or subscriptions of this period could not be, and in which currencies.
    unconverted: int
    currencies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A count, millionths of `currency`, or a share; see `figure.unit`. None if there is nothing to divide by."""

    figure: Figure
    value: float | None
    # One period earlier: at that instant, or over the period before this one.
    previous: float | None
    # The currency with the most payments; None if the figure is not money or there were no payments.
    currency: str | None = None
    others: tuple[Amount, ...] = ()
    # None if the figure is not money, or all of it is in USD.
    in_usd: InUsd | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """The same figure in one of the other currencies."""

    currency: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One value for each of the overview's dates: at the end of the day (today: now), or the total of that day."""

    figure: Figure
    values: tuple[int, ...]
    currency: str | None = None
    others: tuple[Line, ...] = ()
    # All currencies in USD, as far as they could be converted. None if it is not money, or all of it is in USD.
    in_usd: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    project_id: str
    environment: Environment
    days: int
    now: Ms
    # Until when the figures are complete, and how many events of the feed are not included yet.
    as_of: Ms
    behind: int
    # UTC days such as 2026-01-31; the last is today.
    dates: tuple[str, ...]
    # All currencies with payments, the main one first.
    currencies: tuple[str, ...]
    cards: tuple[Card, ...]
    series: tuple[Series, ...]

    def card(self, figure: Figure) -> Card:
        return next(one for one in self.cards if one.figure is figure)

    def line(self, figure: Figure) -> Series:
        return next(one for one in self.series if one.figure is figure)
