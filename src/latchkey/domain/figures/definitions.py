"""The figures of a business: name and exact definition, as the dashboard shows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# The lengths of a period, in days.
PERIODS = (7, 28, 90, 365)


class Unit(StrEnum):
    COUNT = "count"
    # Millionths of a currency unit.
    MONEY = "money"
    # 0.05 is five percent. None if the divisor is 0.
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    title: str
    definition: str
    unit: Unit = Unit.COUNT


ACTIVE_SUBSCRIPTIONS = Figure(
    "active_subscriptions",
    "Active subscriptions",
    "Paid subscriptions that have not expired, cancelled ones and those in a grace period included; trials are not.",
)
ACTIVE_TRIALS = Figure(
    "active_trials",
    "Active trials",
    "Free trials that are running, cancelled ones included.",
)
MRR = Figure(
    "mrr",
    "MRR",
    "Monthly recurring revenue: the price of every active subscription, as much of it as falls on one month.",
    Unit.MONEY,
)
ARR = Figure("arr", "ARR", "Annual recurring revenue: twelve times the MRR.", Unit.MONEY)
REVENUE = Figure(
    "revenue",
    "Revenue",
    "What was paid in the period for subscriptions and one-time purchases, less what of it was refunded since.",
    Unit.MONEY,
)
NEW_CUSTOMERS = Figure(
    "new_customers",
    "New customers",
    "Customers first seen in the period, buyers or not; who bought in the sandbox only counts there.",
)
CHURN = Figure(
    "churn",
    "Churn",
    "Subscriptions that expired in the period less those that came back, as a share of those active at its start.",
    Unit.SHARE,
)
TRIAL_CONVERSION = Figure(
    "trial_conversion",
    "Trial conversion",
    "Of the trials that ended in the period, the share that became a paid subscription.",
    Unit.SHARE,
)
REFUND_RATE = Figure(
    "refund_rate",
    "Refund rate",
    "Of the payments made in the period, the share that was refunded since.",
    Unit.SHARE,
)
EXPIRED = Figure("expired", "Expired", "Paid subscriptions that expired on the day, whatever the reason.")
RESUBSCRIBED = Figure(
    "resubscribed",
    "Resubscribed",
    "Paid subscriptions that began on the day for a customer who had let one expire before.",
)
TRIALS_STARTED = Figure("trials_started", "Trials started", "Free trials that began on the day.")
TRIALS_CONVERTED = Figure(
    "trials_converted", "Trials converted", "Trials whose first payment was made on the day, whenever they began."
)
REFUNDS = Figure("refunds", "Refunds", "Payments of the day that were refunded, whenever that happened.")
REFUNDED = Figure(
    "refunded", "Refunded", "Money of the day's payments that was given back, whenever that happened.", Unit.MONEY
)

CARDS = (
    ACTIVE_SUBSCRIPTIONS,
    ACTIVE_TRIALS,
    MRR,
    ARR,
    REVENUE,
    NEW_CUSTOMERS,
    CHURN,
    TRIAL_CONVERSION,
    REFUND_RATE,
)
SERIES = (
    ACTIVE_SUBSCRIPTIONS,
    ACTIVE_TRIALS,
    MRR,
    REVENUE,
    NEW_CUSTOMERS,
    EXPIRED,
    RESUBSCRIBED,
    TRIALS_STARTED,
    TRIALS_CONVERTED,
    REFUNDS,
    REFUNDED,
)
