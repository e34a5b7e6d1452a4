"""Facts: what one purchase or one customer adds to the charts, and on which day; and their sums."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from latchkey.domain.purchases.purchase import USD


class Kind(StrEnum):
    # Payments, on their own day. n: 0 the customer's first payment ever, 1 any other.
    PAYMENT = "payment"
    # Money given back, on the day it was given back; a reversed refund counts -1 on the day of the reversal. `quantity`
    # counts whole refunds only; the money of partial refunds is in the amounts. n as of the payment.
    REFUND = "refund"
    # Payments that were refunded in full at any time, on the day of the payment: for the refund rate.
    REFUNDED_PAYMENT = "refunded_payment"

    # Paid subscriptions that run (level): +1 where access begins, -1 where it ends. Amounts are monthly revenue.
    ACTIVE = "active"
    # What moves ACTIVE. In quantity and in money, in every currency and for every product, country and so on:
    # NEW + RETURN + EXPANSION - CONTRACTION - CHURN = change of ACTIVE.
    # n of NEW and RETURN: 0 bought directly, 1 with a paid introductory offer, 2 converted from a trial.
    NEW = "new"
    # A customer who had let a subscription expire has one again.
    RETURN = "return"
    # A price or product change without a gap: what is more now is EXPANSION, what is less is CONTRACTION. Each amount
    # for itself (in the currency paid, in USD, after tax, after commission), so none of them is ever negative.
    # n of EXPANSION: MOVED is what went from the old product to the new one; over all products it adds up to 0.
    # Where the currency changes, the old amount is CONTRACTION in its currency and the new one EXPANSION in its own.
    EXPANSION = "expansion"
    CONTRACTION = "contraction"
    CHURN = "churn"

    # Free trials that run (level), and what moves them.
    TRIAL = "trial"
    # On the day the trial began. n is what became of it so far: 0 still running, 1 converted, 2 ended without a
    # payment, 3 converted and that payment was refunded.
    TRIAL_STARTED = "trial_started"
    # On the day the trial ended. n: 1 converted, 2 not.
    TRIAL_ENDED = "trial_ended"

    # Renewals that were due, on the due day. n is the number of the renewal (1 is the first), at most 12.
    RENEWAL_DUE = "renewal_due"
    # Those of them that were paid (within the grace period too), on the same due day, with the same n.
    RENEWED = "renewed"

    # What becomes of running subscriptions as things stand now (level; only its value now means anything).
    # n: 0 set to renew, 1 set to cancel, 2 billing issue; 3, 4, 5 the same for trials. Amounts: monthly revenue.
    STATUS = "status"

    # Failed payments, on the day of the failure. n is what became of it: 0 open, 1 recovered while access was kept,
    # 2 recovered later, 3 lost. Amounts: the price that was to be paid.
    BILLING_ISSUE = "billing_issue"

    # Customers, on the day they were first seen (the earlier of first contact and first purchase). quantity 1.
    CUSTOMER = "customer"
    # Customers, on the day of their first payment. quantity 1.
    PAYING_CUSTOMER = "paying_customer"
    # By the day the customer was first seen; n is a place in LIFETIMES, the first window the fact falls into, so a
    # window is the sum over n up to its own. A refund takes away from the window its own day falls into.
    # Payments less refunds.
    SEEN_REVENUE = "seen_revenue"
    # Customers who have paid (+1 at the first payment, -1 once all payments are refunded).
    SEEN_PAYER = "seen_payer"
    # Customers who have bought anything or started a trial.
    SEEN_CONVERTED = "seen_converted"

    # By the day of the first standard paid period of a subscription (trial and introductory periods left out), one
    # product, without a gap. n is the number of the period; 0 is the cohort itself. Paid periods only; refunded ones
    # are left out, except that the cohort keeps its size.
    RETAINED = "retained"
    # The next period of those that run and are set to renew, with its number: shown as provisional.
    RETAINED_SOON = "retained_soon"

    # By the day that a customer was enrolled in an experiment, one fact for each enrollment, with that variant alone in
    # `variants`. Only what happened after the enrollment counts; n is a place in LIFETIMES, counted from it.
    ENROLLED = "enrolled"
    ENROLLED_CONVERTED = "enrolled_converted"
    ENROLLED_PAYER = "enrolled_payer"
    ENROLLED_REVENUE = "enrolled_revenue"
    # The square of what a customer has paid, in USD cents, as `quantity`; over all n up to a window it is the square
    # within that window. The spread of revenue per customer needs it.
    ENROLLED_SQUARE = "enrolled_square"


# How long after the first seen day a fact still counts, in days; day 0 is the first. The last one has no end.
LIFETIMES: tuple[int | None, ...] = (0, 7, 14, 30, 90, 180, 365, 730, None)

# n of EXPANSION, see there.
MOVED = 1

LEVELS = frozenset({Kind.ACTIVE, Kind.TRIAL, Kind.STATUS})


# Days since 1970-01-01, UTC.
Day: TypeAlias = int

_EPOCH = date(1970, 1, 1).toordinal()


class Resolution(StrEnum):
    DAY = "day"
    # Sunday to Saturday.
    WEEK = "week"
    MONTH = "month"


def day_of(when: date) -> Day:
    return when.toordinal() - _EPOCH


def date_of(day: Day) -> date:
    return date.fromordinal(day + _EPOCH)


def period_of(day: Day, resolution: Resolution) -> Day:
    """The first day of the period that a day belongs to."""
    if resolution is Resolution.WEEK:
        # 1970-01-01 was a Thursday.
        return day - (day + 4) % 7
    return day if resolution is Resolution.DAY else day_of(date_of(day).replace(day=1))


# The segment of everything that is in no segment of its own. No value of a dimension has this character.
REST = "\0"


class Filter(NamedTuple):
    """Facts with one of these values. `dimension` is a field of `Dimensions`, or "experiment:<id>" with variants as
    values, or "attribute:<name>". The value "" is "not known"."""

    dimension: str
    values: tuple[str, ...]


class Amounts(StrEnum):
    """Which amounts are wanted. The fewer, the fewer sums there are, and the quicker they are read."""

    # By currency.
    ALL = "all"
    # In USD. The currency of sums is USD; facts without an exchange rate keep their own, facts without money have none.
    USD = "usd"
    # The same without tax and commission.
    GROSS_USD = "gross_usd"
    # Those in `Question.currency` as they were paid, all others in USD as above. The fields for USD have the same
    # amounts as the fields beside them.
    DISPLAY = "display"
    # No money, and no currencies.
    NONE = "none"


class Question(NamedTuple):
    # PRODUCTION, SANDBOX, or the id of a test clock.
    environment: str
    kinds: tuple[Kind, ...]
    # Both included. Facts after now are never counted, whatever the last day is; neither are those of later today.
    first: Day
    last: Day
    resolution: Resolution
    # All of them must match.
    filters: tuple[Filter, ...] = ()
    # The dimension to break down by, named as in `Filter`.
    segment: str | None = None
    amounts: Amounts = Amounts.ALL
    # Kinds whose facts are added up whatever their n, as n 0. With a number: only those whose n is at most that.
    any_n: tuple[tuple[Kind, int | None], ...] = ()
    # Of `Amounts.DISPLAY`.
    currency: str = USD


class Run(NamedTuple):
    """Sums that differ in their periods only, as columns of equal length: a breakdown by day has tens of thousands of
    sums, and a Python object for each costs more than reading them. Columns are shared: do not change one."""

    kind: Kind
    n: int
    # The value of the dimension asked for; "" without one.
    segment: str
    currency: str
    # The first days of periods, in any order, none of them twice; the first one may lie before `Question.first`. None:
    # everything before `Question.first`; only levels have it.
    periods: Sequence[Day | None]
    quantities: list[int]
    # In the order of the fields of `Money`. Empty: there is none.
    money: Sequence[list[int]] = ()
