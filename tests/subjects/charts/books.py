"""Customers made by hand, and short questions about the sums of their facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.customers.customer import Customer, newcomer
from latchkey.domain.instants import DAY, Ms, parse_duration
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Purchase, PurchaseKind, Terms
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.subjects.charts.rules.facts import Filter, Kind, Question, Resolution
from tests.subjects.charts.derived import Issue, Origin, Person, PurchaseKey, facts_of_each
from tests.subjects.charts.fact import Fact, Sum
from tests.subjects.charts.summing import sum_facts

TRIAL, INTRO, NORMAL = PeriodType.TRIAL, PeriodType.INTRO, PeriodType.NORMAL


def at(text: str) -> Ms:
    """Of this year where the text has none: 02-10, 2025-02-10, 02-10T18:00."""
    whole = text if len(text.split("T")[0]) == 10 else f"2026-{text}"
    return int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() * 1000)


def money(amount: float | str, currency: str = "USD") -> Price:
    return Price(int(Decimal(str(amount)) * 1_000_000), currency)


def catalog(**durations: str) -> Catalog:
    return Catalog(
        {
            id: Product(id=id, kind=ProductKind.SUBSCRIPTION, price=money(1), duration=parse_duration(length))
            for id, length in durations.items()
        }
    )


SHOP = catalog(monthly="P1M", yearly="P1Y", weekly="P1W", quarterly="P3M", dearer="P1M", odd="P45D")


def period(
    start: str,
    end: str,
    price: float | Price = 10,
    *,
    type: PeriodType = NORMAL,
    product: str = "monthly",
    cause: Cause | None = None,
    refunded: str | None = None,
    reversed: str | None = None,
    terms: Terms | None = None,
    country: str | None = None,
    paid_from: str | None = None,
    part: float = 0,
    told: str | None = None,
) -> Period:
    back = [MoneyBack(at(refunded))] if refunded else []
    back += [MoneyBack(at(reversed), 1, reversal=True)] if reversed else []
    return Period(
        id=f"{start} {product}",
        number=0,
        cause=cause or (Cause.TRIAL if type is TRIAL else Cause.RENEWAL),
        product_id=product,
        period_type=type,
        purchased_at=at(start),
        ends_at=at(end),
        as_of=Moment(at(told or start)),
        price=Price(0, "USD") if type is TRIAL else price if isinstance(price, Price) else money(price),
        money_back=tuple(back),
        terms=terms,
        country=country,
        paid_from=at(paid_from) if paid_from else None,
        given_back=money(part).micros,
    )


def subscription(*periods: Period, id: str = "sub", store: str = "app_store", **status: object) -> Subscription:
    numbered = tuple(replace(one, id=f"{id} {one.id}", number=number) for number, one in enumerate(periods))
    return Subscription(
        store=store,
        id=id,
        environment=Environment.PRODUCTION,
        periods=numbered,
        status=Status(as_of=numbered[-1].as_of, **status),  # type: ignore[arg-type]  # the fields of a status
    )


def bought(
    when: str, price: float | Price, *, id: str = "once", product: str = "coins", refunded: str | None = None
) -> Purchase:
    return Purchase(
        kind=PurchaseKind.ONE_TIME,
        store="play_store",
        id=id,
        product_id=product,
        environment=Environment.PRODUCTION,
        purchased_at=at(when),
        price=price if isinstance(price, Price) else money(price),
        money_back=(MoneyBack(at(refunded)),) if refunded else (),
    )


def customer(*everything: Subscription | Purchase, seen: str = "01-01", id: str = "ann") -> Customer:
    return replace(
        newcomer("proj", id, at(seen)),
        subscriptions=tuple(one for one in everything if isinstance(one, Subscription)),
        purchases=tuple(one for one in everything if isinstance(one, Purchase)),
    )


def facts(
    *customers: Customer,
    shop: Catalog = SHOP,
    issues: Mapping[PurchaseKey, Sequence[Issue]] | None = None,
    origin: Origin = Origin(),  # noqa: B008 - a tuple
    attributes: Sequence[str] = (),
) -> list[Fact]:
    people = [Person(one, shop, issues or {}, origin, attributes) for one in customers]
    return [fact for found in facts_of_each(people) for fact in found]


class Answer(list[Sum]):
    """Rows of sums."""

    @property
    def quantity(self) -> int:
        return sum(one.quantity for one in self)

    @property
    def amount(self) -> float:
        return sum(one.money.micros for one in self) / 1_000_000

    @property
    def usd(self) -> float:
        return sum(one.money.usd for one in self) / 1_000_000

    def by_n(self) -> dict[int, int]:
        return {n: found for n in sorted({one.n for one in self}) if (found := self.of(n).quantity)}

    def of(self, n: int) -> Answer:
        return Answer(one for one in self if one.n == n)


def level(found: Iterable[Fact], kind: Kind, day: str, *filters: Filter) -> Answer:
    """At the end of a day."""
    last = at(day) // DAY
    question = Question("PRODUCTION", (kind,), last, last, Resolution.DAY, filters)
    return Answer(sum_facts(found, question, (last + 1) * DAY - 1))


def flow(found: Iterable[Fact], kind: Kind, first: str, last: str, *filters: Filter) -> Answer:
    """From the beginning of the first day to the end of the last one."""
    question = Question("PRODUCTION", (kind,), at(first) // DAY, at(last) // DAY, Resolution.DAY, filters)
    return Answer(sum_facts(found, question, at("2199-12-31")))
