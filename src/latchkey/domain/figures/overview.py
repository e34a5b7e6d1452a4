"""What an overview shows: cards with the value now and a period ago, and a line for each figure by the day."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.figures.definitions import Figure
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment


@dataclass(frozen=True, slots=True)
class Amount:
    """What a card says of one of the other currencies, in millionths."""

    currency: str
    value: int
    previous: int


@dataclass(frozen=True, slots=True)
class Card:
    """A count, millionths of `currency`, or a share; see `figure.unit`. None where there is nothing to divide by."""

    figure: Figure
    value: float | None
    # A period earlier: at that moment, or in the equal period before this one.
    previous: float | None
    # The currency with the most payments; None for what is no money, or where there never was any.
    currency: str | None = None
    others: tuple[Amount, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """The same figure in one of the other currencies."""

    currency: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each of the overview's dates: at the end of the day (today: now), or of what happened on it."""

    figure: Figure
    values: tuple[int, ...]
    currency: str | None = None
    others: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    project_id: str
    environment: Environment
    days: int
    now: Ms
    # Up to when everything is in the figures, and how many events of the feed are not yet.
    as_of: Ms
    behind: int
    # UTC days such as 2026-01-31, the last is today.
    dates: tuple[str, ...]
    # All that money was made in, the main one first.
    currencies: tuple[str, ...]
    cards: tuple[Card, ...]
    series: tuple[Series, ...]

    def card(self, figure: Figure) -> Card:
        return next(one for one in self.cards if one.figure is figure)

    def line(self, figure: Figure) -> Series:
        return next(one for one in self.series if one.figure is figure)
