"""The numbers that can change in the figures at one instant, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from latchkey.domain.purchases.terms import USD


# A tuple: the roller makes hundreds of thousands of these.
class Tally(NamedTuple):
    # Paid subscriptions and trials that begin (negative: end), and the monthly revenue of the paid ones.
    active: int = 0
    trials: int = 0
    mrr: int = 0
    # Payments, and how many of them were refunded at any time: both are counted at the instant of the payment.
    payments: int = 0
    paid: int = 0
    refunds: int = 0
    refunded: int = 0
    expired: int = 0
    resubscribed: int = 0
    # Trials started; trials converted, at the instant the trial ended; and first payments after a trial.
    trials_started: int = 0
    trials_kept: int = 0
    trials_converted: int = 0
    # Sandbox only: a customer without production purchases, at the instant the customer was first seen.
    newcomers: int = 0
    # What of it could be converted to USD: payments, and active subscriptions with their monthly revenue. All zero on
    # lines in USD, which need no conversion: `in_usd` reads both kinds.
    converted: int = 0
    paid_usd: int = 0
    refunded_usd: int = 0
    active_usd: int = 0
    mrr_usd: int = 0

    def in_usd(self, currency: str) -> Tally:
        """The same with its amounts in USD. What could not be converted is left out of the amounts, and of the numbers
        of payments and active subscriptions."""
        if currency == USD:
            return self
        return self._replace(
            active=self.active_usd,
            mrr=self.mrr_usd,
            payments=self.converted,
            paid=self.paid_usd,
            refunded=self.refunded_usd,
        )

    def plus(self, other: Tally) -> Tally:
        return Tally(*(one + two for one, two in zip(self, other, strict=True)))

    def minus(self, other: Tally) -> Tally:
        return Tally(*(one - two for one, two in zip(self, other, strict=True)))

    @property
    def trials_ended(self) -> int:
        """`trials` is incremented when a trial begins and decremented when it ends."""
        return self.trials_started - self.trials

    @property
    def revenue(self) -> int:
        return self.paid - self.refunded


NOTHING = Tally()


def total(tallies: Iterable[Tally]) -> Tally:
    return Tally(*map(sum, zip(*tallies, strict=True))) if (tallies := tuple(tallies)) else NOTHING
