"""What can change in the figures at one instant, and the sums of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


# A tuple: a roller makes hundreds of thousands of these.
class Tally(NamedTuple):
    # Paid subscriptions and trials that begin (or end, negative), and what the former bring in a month.
    active: int = 0
    trials: int = 0
    mrr: int = 0
    # Payments, and which of them were refunded, whenever that was: both stand at the payment's instant.
    payments: int = 0
    paid: int = 0
    refunds: int = 0
    refunded: int = 0
    expired: int = 0
    resubscribed: int = 0
    # Trials that began; those that became paid, at the instant the trial ended; and first payments after a trial.
    trials_started: int = 0
    trials_kept: int = 0
    trials_converted: int = 0
    # Sandbox only: a customer who has bought nothing in production, at the instant the customer was first seen.
    newcomers: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(*(one + two for one, two in zip(self, other, strict=True)))

    def minus(self, other: Tally) -> Tally:
        return Tally(*(one - two for one, two in zip(self, other, strict=True)))

    @property
    def trials_ended(self) -> int:
        """`trials` counts a trial up when it begins and down when it ends."""
        return self.trials_started - self.trials

    @property
    def revenue(self) -> int:
        return self.paid - self.refunded


NOTHING = Tally()


def total(tallies: Iterable[Tally]) -> Tally:
    return Tally(*map(sum, zip(*tallies, strict=True))) if (tallies := tuple(tallies)) else NOTHING
