"""Turns sums by day into cards and series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from latchkey.domain.figures import definitions as figures
from latchkey.domain.figures.definitions import Figure
from latchkey.domain.figures.overview import Amount, Card, InUsd, Line, Series
from latchkey.domain.figures.tally import Tally
from latchkey.domain.figures.window import Account, Sums, Window, account, together
from latchkey.domain.purchases.terms import USD

MONTHS_A_YEAR = 12


class Report:
    """Counts add up all currencies. Money is listed per currency, and once more in USD at the rate of each payment."""

    def __init__(self, window: Window, sums: Sums) -> None:
        self._window = window
        self._newcomers = tuple(sums.newcomers.get(day, 0) for day in range(window.start, window.today + 1))
        self._newcomers_then = sums.newcomers_then
        accounts = {currency: account(window, sums, currency) for currency in sums.currencies}
        self._all = together(window, tuple(accounts.values()))
        self._accounts = {currency: accounts[currency] for currency in by_weight(accounts)}
        self.currencies = tuple(self._accounts)
        self._usd: Account | None = None
        if any(currency != USD for currency in self.currencies):
            converted = tuple(one.in_usd(currency) for currency, one in self._accounts.items())
            self._usd = together(window, converted)

    def cards(self) -> tuple[Card, ...]:
        now, before = self._all.level, self._all.previous_level
        return (
            Card(figures.ACTIVE_SUBSCRIPTIONS, now.active, before.active),
            Card(figures.ACTIVE_TRIALS, now.trials, before.trials),
            self._money(figures.MRR, lambda one: (one.level.mrr, one.previous_level.mrr), _active_unconverted),
            self._money(
                figures.ARR,
                lambda one: (one.level.mrr * MONTHS_A_YEAR, one.previous_level.mrr * MONTHS_A_YEAR),
                _active_unconverted,
            ),
            self._money(
                figures.REVENUE, lambda one: (one.flow.revenue, one.previous_flow.revenue), _payments_unconverted
            ),
            Card(figures.NEW_CUSTOMERS, sum(self._newcomers), self._newcomers_then),
            self._share(figures.CHURN, lambda flow, start: (flow.expired - flow.resubscribed, start.active)),
            self._share(figures.TRIAL_CONVERSION, lambda flow, _: (flow.trials_kept, flow.trials_ended)),
            self._share(figures.REFUND_RATE, lambda flow, _: (flow.refunds, flow.payments)),
        )

    def series(self) -> tuple[Series, ...]:
        flows = self._all.flows
        return (
            Series(figures.ACTIVE_SUBSCRIPTIONS, self._all.levels("active")),
            Series(figures.ACTIVE_TRIALS, self._all.levels("trials")),
            self._lines(figures.MRR, lambda one: one.levels("mrr")),
            self._lines(figures.REVENUE, lambda one: (flow.revenue for flow in one.flows)),
            Series(figures.NEW_CUSTOMERS, self._newcomers),
            Series(figures.EXPIRED, tuple(flow.expired for flow in flows)),
            Series(figures.RESUBSCRIBED, tuple(flow.resubscribed for flow in flows)),
            Series(figures.TRIALS_STARTED, tuple(flow.trials_started for flow in flows)),
            Series(figures.TRIALS_CONVERTED, tuple(flow.trials_converted for flow in flows)),
            Series(figures.REFUNDS, tuple(flow.refunds for flow in flows)),
            self._lines(figures.REFUNDED, lambda one: (flow.refunded for flow in one.flows)),
        )

    def _money(
        self, figure: Figure, of: Callable[[Account], tuple[int, int]], unconverted: Callable[[Account], int]
    ) -> Card:
        amounts = [Amount(currency, *of(one)) for currency, one in self._accounts.items()]
        if not amounts:
            return Card(figure, 0, 0)
        main, *others = amounts
        shown = tuple(one for one in others if one.value or one.previous)
        in_usd = None
        if self._usd is not None:
            left_out = {
                currency: count
                for currency, one in self._accounts.items()
                if currency != USD and (count := unconverted(one))
            }
            in_usd = InUsd(*of(self._usd), sum(left_out.values()), tuple(left_out))
        return Card(figure, main.value, main.previous, main.currency, shown, in_usd)

    def _lines(self, figure: Figure, of: Callable[[Account], Iterable[int]]) -> Series:
        lines = [Line(currency, tuple(of(one))) for currency, one in self._accounts.items()]
        if not lines:
            return Series(figure, (0,) * self._window.days)
        main, *others = lines
        in_usd = None if self._usd is None else tuple(of(self._usd))
        return Series(figure, main.values, main.currency, tuple(one for one in others if any(one.values)), in_usd)

    def _share(self, figure: Figure, of: Callable[[Tally, Tally], tuple[int, int]]) -> Card:
        """`of` returns part and whole, given the sums of a period and the sums of everything before it."""
        now = of(self._all.flow, self._all.at_start)
        return Card(figure, share(*now), share(*of(self._all.previous_flow, self._all.opening)))


def _active_unconverted(one: Account) -> int:
    return one.level.active - one.level.active_usd


def _payments_unconverted(one: Account) -> int:
    return one.flow.payments - one.flow.converted


def by_weight(accounts: Mapping[str, Account]) -> list[str]:
    """All currencies. First the one with the most payments in the two periods, then the one with the most
    subscriptions: amounts in two currencies cannot be compared, counts can."""

    def rank(currency: str) -> tuple[int, int, str]:
        one = accounts[currency]
        return -(one.flow.payments + one.previous_flow.payments), -one.level.active, currency

    with_money = [currency for currency, one in accounts.items() if one.level.payments or one.level.mrr]
    return sorted(with_money, key=rank)


def share(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None
