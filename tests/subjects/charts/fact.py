"""Facts as Python objects, one for each row that DuckDB derives, and sums of them."""

from typing import NamedTuple

from latchkey.domain.charts.period_amounts import NO_MONEY, PeriodMoney
from latchkey.domain.instants import Ms
from latchkey.subjects.charts.rules.facts import Day, Kind


def plus(one: PeriodMoney, other: PeriodMoney) -> PeriodMoney:
    return PeriodMoney(*(a + b for a, b in zip(one, other, strict=True)))


class Dimensions(NamedTuple):
    """What facts can be filtered and broken down by. Empty: not known, or not of this fact (a customer has no
    product)."""

    product: str = ""
    # ISO 8601, such as "P1M".
    duration: str = ""
    store: str = ""
    # ISO 3166, two letters: of the purchase; else where the customer was seen first.
    country: str = ""
    # What the app said when the purchase (or the customer) was first counted. Kept when facts are rebuilt.
    platform: str = ""
    app_version: str = ""
    # The offering that the product was bought from.
    offering: str = ""
    # "experiment id=variant id" of every enrollment, sorted. A fact counts for each of them. Of a purchase: only those
    # that came before it.
    variants: tuple[str, ...] = ()
    # "name=value" of the attributes that the project has chosen for charts, sorted. The latest values.
    attributes: tuple[str, ...] = ()


NO_DIMENSIONS = Dimensions()


class Fact(NamedTuple):
    kind: Kind
    at: Ms
    n: int = 0
    # "" for facts without money.
    currency: str = ""
    quantity: int = 0
    money: PeriodMoney = NO_MONEY
    dimensions: Dimensions = NO_DIMENSIONS


class Sum(NamedTuple):
    kind: Kind
    n: int
    # The first day of the period, which may lie before `Question.first`. None: everything before `Question.first`; such
    # rows exist for levels only.
    period: Day | None
    # The value of the dimension asked for; "" without one.
    segment: str
    currency: str
    quantity: int
    money: PeriodMoney = NO_MONEY
