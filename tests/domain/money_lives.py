"""Customers who pay, are refunded and get parts back, in currencies with 0, 2 and 3 decimals; told late, repeatedly and
in any order, while exchange rates arrive. And the check that all sums of them agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.period_rows import PeriodRow
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.exchange_rates import DayRate
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Purchase, PurchaseKind
from latchkey.domain.purchases.revenue import Payment, payment_of, revenue
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.subjects.exports.render import transactions
from latchkey.wire.event import Event
from tests.domain.shop import NOON

# Decimals of each: what a store can charge.
CURRENCIES = {"USD": 2, "EUR": 2, "JPY": 0, "KWD": 3, "TND": 3}
RATES = ("1.0834", "0.00646767357172706", "3.2497", "0.333333333333333", "0.5", "1.15")
MONTH: Ms = 30 * DAY
# After everything in these lives was paid.
LATE: Ms = NOON + 200 * DAY

Report: TypeAlias = Subscription | Purchase
# What arrives, in order: rates, or a store's report.
Arrival: TypeAlias = tuple[DayRate, ...] | Report

STARTS = {"INITIAL_PURCHASE", "RENEWAL", "PRODUCT_CHANGE", "NON_RENEWING_PURCHASE"}


@st.composite
def _price(draw: st.DrawFn) -> Price:
    currency = draw(st.sampled_from(sorted(CURRENCIES)))
    return Price(draw(st.integers(1, 2_000_000)) * 10 ** (6 - CURRENCIES[currency]), currency)


@dataclass(frozen=True)
class _Fate:
    """What becomes of a payment: the days after it on which it is refunded and that is reversed, and what goes back."""

    back_after: int | None = None
    reversed_after: int | None = None
    part: int = 0

    def facts(self, at: Ms) -> tuple[MoneyBack, ...]:
        found = [MoneyBack(at + self.back_after * DAY)] if self.back_after is not None else []
        if self.back_after is not None and self.reversed_after is not None:
            found.append(MoneyBack(at + (self.back_after + self.reversed_after) * DAY, 1, reversal=True))
        return tuple(found)


_FATES = st.one_of(
    st.just(_Fate()),
    st.builds(_Fate, back_after=st.integers(1, 40)),
    st.builds(_Fate, back_after=st.integers(1, 40), reversed_after=st.integers(1, 5)),
    st.builds(_Fate, part=st.integers(1, 3_000_000_000)),
)


@st.composite
def _subscription(draw: st.DrawFn, number: int) -> list[Report]:
    """Its reports: as each period is paid, and at the end as everything stands."""
    id, start = f"sub{number}", NOON + draw(st.integers(0, 40)) * DAY
    price = draw(_price())
    plain: list[Period] = []
    whole: list[Period] = []
    for place in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 3)) == 3:
            price = draw(_price())
        at = start + place * MONTH
        one = Period(
            id=f"{id}.{place}",
            number=place,
            cause=Cause.RENEWAL if place else Cause.PURCHASE,
            product_id="pro_monthly",
            period_type=PeriodType.NORMAL,
            purchased_at=at,
            ends_at=at + MONTH,
            as_of=Moment(at),
            price=price,
            country=draw(st.sampled_from([None, "DE", "JP"])),
        )
        fate = draw(_FATES)
        facts = fate.facts(at)
        told_at = max((at, *(fact.at for fact in facts)))
        plain.append(one)
        whole.append(
            replace(one, money_back=facts, given_back=min(fate.part, price.micros), as_of=Moment(told_at, revision=1))
        )

    def as_told(periods: list[Period], at: Ms) -> Subscription:
        return Subscription(
            store="app_store",
            id=id,
            environment=Environment.PRODUCTION,
            periods=tuple(periods),
            status=Status(as_of=Moment(at)),
        )

    return [
        *(as_told(plain[: place + 1], one.purchased_at) for place, one in enumerate(plain)),
        as_told(whole, max(one.as_of.at for one in whole)),
    ]


@st.composite
def _purchase(draw: st.DrawFn, number: int) -> list[Report]:
    at, price, fate = NOON + draw(st.integers(0, 40)) * DAY, draw(_price()), draw(_FATES)
    first = Purchase(
        kind=PurchaseKind.ONE_TIME,
        store="play_store",
        id=f"once{number}",
        product_id="pro_lifetime",
        environment=Environment.PRODUCTION,
        purchased_at=at,
        price=price,
        told_at=at,
    )
    facts = fate.facts(at)
    told_at = max((at, *(fact.at for fact in facts))) + 1
    return [first, replace(first, money_back=facts, given_back=min(fate.part, price.micros), told_at=told_at)]


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Reports in any order, some of them twice, with rates between them. The last word of each store comes last."""
    told = [draw(_subscription(number)) for number in range(draw(st.integers(0, 2)))]
    told += [draw(_purchase(number)) for number in range(draw(st.integers(0, 2)))]
    early = [one for reports in told for one in reports[:-1]]
    early += draw(st.lists(st.sampled_from(early), max_size=4)) if early else []
    rates = draw(
        st.lists(
            st.lists(
                st.builds(
                    DayRate,
                    st.sampled_from([one for one in sorted(CURRENCIES) if one != "USD"]),
                    st.integers(-5, 140).map(lambda day: NOON // DAY + day),
                    st.sampled_from(RATES),
                ),
                max_size=12,
            ).map(lambda found: tuple({(one.currency, one.day): one for one in found}.values())),
            max_size=3,
        )
    )
    last = [reports[-1] for reports in told]
    return [
        *draw(st.permutations([*early, *rates])),
        *draw(st.permutations([*last, *(draw(st.lists(st.sampled_from(last), max_size=2)) if last else [])])),
    ]


def moment(place: int) -> Ms:
    """When the arrival at this place is processed."""
    return LATE + place * HOUR


def micros(amount: float | None) -> int | None:
    return None if amount is None else int((Decimal(str(amount)) * 1_000_000).to_integral_exact())


def payments(customer: Customer) -> dict[str, Payment]:
    """By the store's id."""
    bought: list[Period | Purchase] = [period for one in customer.subscriptions for period in one.periods]
    bought += customer.purchases
    return {one.id: payment for one in bought if (payment := payment_of(one)) is not None}


def check_events(customer: Customer, events: Iterable[Event]) -> None:
    """Each payment is told once, with its amounts; its refunds have the same ones; what is told adds up to what was
    kept, apart from parts that were given back, which no event tells."""
    paid = payments(customer)
    starts: Counter[str] = Counter()
    net: defaultdict[str, int] = defaultdict(int)
    net_usd: defaultdict[str, int] = defaultdict(int)
    refunds: Counter[str] = Counter()
    for event in events:
        if not event.price_in_purchased_currency or not isinstance(event.transaction_id, str):
            continue
        payment = paid[event.transaction_id]
        assert micros(event.price_in_purchased_currency) == payment.price.micros
        assert event.currency == payment.price.currency
        assert micros(event.price) == payment.usd
        sign = 0
        if event.type in STARTS:
            starts[event.transaction_id] += 1
            sign = 1
        elif event.type in ("REFUND", "REFUND_REVERSED"):
            refunds[event.transaction_id] += 1
            sign = -1 if event.type == "REFUND" else 1
        net[event.transaction_id] += sign * payment.price.micros
        net_usd[event.transaction_id] += sign * (payment.usd or 0)
    assert starts == Counter(dict.fromkeys(paid, 1))
    facts = {one.id: len(one.money_back) for sub in customer.subscriptions for one in sub.periods}
    facts |= {one.id: len(one.money_back) for one in customer.purchases}
    for id, payment in paid.items():
        if refunds[id] == facts[id]:
            # The refund of a period that others followed is not told; all others are.
            assert net[id] - (0 if payment.refunded else payment.returned) == payment.kept
            if payment.kept_usd is not None:
                assert payment.returned_usd is not None
                assert net_usd[id] - (0 if payment.refunded else payment.returned_usd) == payment.kept_usd


class Sums(NamedTuple):
    """The money of one currency."""

    payments: int = 0
    paid: int = 0
    refunds: int = 0
    refunded: int = 0
    paid_usd: int = 0
    refunded_usd: int = 0
    unconverted: int = 0

    def plus(self, other: Sums) -> Sums:
        return Sums._make(map(sum, zip(self, other, strict=True)))


def sums_of(found: Iterable[Payment]) -> dict[str, Sums]:
    """By currency, worked out from the payments alone."""
    sums: dict[str, Sums] = {}
    for one in found:
        more = Sums(
            payments=1,
            paid=one.price.micros,
            refunds=int(one.refunded),
            refunded=one.returned,
            paid_usd=one.usd or 0,
            refunded_usd=one.returned_usd or 0,
            unconverted=int(one.usd is None),
        )
        sums[one.price.currency] = sums.get(one.price.currency, Sums()).plus(more)
    return sums


def sums_of_rows(rows: Iterable[PeriodRow]) -> dict[str, Sums]:
    """By currency, as the charts sum them."""
    sums: dict[str, Sums] = {}
    for one in rows:
        if one.currency is None or not one.micros:
            continue
        more = Sums(1, one.micros, paid_usd=one.usd or 0, unconverted=int(one.usd is None))
        for _, whole, micros, _, _, usd, *_ in one.back or ():
            more = more.plus(Sums(refunds=whole, refunded=micros, refunded_usd=usd))
        sums[one.currency] = sums.get(one.currency, Sums()).plus(more)
    return sums


def check_rows(customer: Customer, catalog: Catalog) -> None:
    """The rows of an export, one for each payment."""
    paid = payments(customer)
    rows = {row.transaction_id: row for row in transactions(customer, catalog, 1)}
    for id, payment in paid.items():
        row = rows[id]
        assert (row.price, row.currency, row.usd_price) == (payment.price.micros, payment.price.currency, payment.usd)
        assert (row.refunded_amount, row.refunded_usd) == (payment.returned, payment.returned_usd)


def check_revenue(customer: Customer) -> None:
    """V2's sums of each purchase."""
    everything: list[Report] = [*customer.subscriptions, *customer.purchases]
    for one in everything:
        bought: Iterable[Period | Purchase] = one.periods if isinstance(one, Subscription) else (one,)
        paid = [payment for part in bought if (payment := payment_of(part)) is not None]
        earned = revenue(one)
        by_currency = {amount.currency: amount.gross for amount in earned.by_currency}
        for currency, sums in sums_of(paid).items():
            assert by_currency.get(currency, 0) == sums.paid - sums.refunded
        assert earned.usd.gross == sum(payment.kept_usd or 0 for payment in paid)
        assert earned.unconverted == sum(payment.kept_usd is None for payment in paid if payment.kept)
