"""The facts of customers as charts have them: the rows of their periods, and DuckDB's SQL over these."""

import atexit
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from msgspec import json, structs

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.period_amounts import PeriodMoney
from latchkey.domain.charts.period_rows import (
    PeriodRow,
    attributes_of,
    enrollments_of,
    period_pseudonym,
    purchase_pseudonym,
    rows_of,
)
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.subjects.charts.rules.facts import Kind
from latchkey.subjects.charts.storage.project_facts import CUSTOMERS, PERIODS, Duck, connect, derive
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG
from tests.subjects.charts.fact import Dimensions, Fact

# Store and id.
PurchaseKey: TypeAlias = tuple[str, str]

# To derive facts takes a tenth of a second, of one customer or of a thousand.
AT_ONCE = 20
many_lives = st.lists(lives(), min_size=1, max_size=AT_ONCE)
fewer = settings(max_examples=max(5, (settings.default or settings()).max_examples // AT_ONCE))


class Issue(NamedTuple):
    """A BILLING_ISSUE event, about the period whose renewal failed."""

    at: Ms
    transaction_id: str
    grace_ends_at: Ms | None = None


class Origin(NamedTuple):
    platform: str | None = None
    app_version: str | None = None
    country: str | None = None


class Person(NamedTuple):
    customer: Customer
    catalog: Catalog = CATALOG
    issues: Mapping[PurchaseKey, Sequence[Issue]] = {}
    # Where the customer and all purchases came from.
    origin: Origin = Origin()
    attributes: Sequence[str] = ()


def facts_of_each(people: Sequence[Person]) -> list[list[Fact]]:
    """In the order given. Facts that differ only in quantity and money are added up."""
    duck = _duck()
    _load(
        duck,
        "periods",
        {**PERIODS, "purchase": "VARCHAR"},
        [row for key, one in enumerate(people) for row in _periods(key, one)],
    )
    _load(duck, "customers", CUSTOMERS, [_person(key, one) for key, one in enumerate(people)])
    derive(duck)
    found: list[list[Fact]] = [[] for _ in people]
    for customer, kind, at, n, currency, quantity, *rest in duck.execute(
        "select customer, kind, moment, n, currency, sum(quantity)::bigint, sum(micros)::bigint, sum(tax)::bigint,"
        " sum(commission)::bigint, sum(usd)::bigint, sum(tax_usd)::bigint, sum(commission_usd)::bigint,"
        f" sum(unconverted)::bigint, {', '.join(Dimensions._fields)} from facts group by all order by all"
    ).fetchall():
        money, of = PeriodMoney._make(rest[:7]), rest[7:]
        if quantity or any(money):
            dimensions = Dimensions(*of[:7], *(tuple(one.split("\x1f")) if one else () for one in of[7:]))
            found[customer].append(Fact(Kind(kind), at, n, currency, quantity, money, dimensions))
    return found


def facts_of_lives(told: Sequence[Life]) -> Iterator[tuple[Life, list[Fact]]]:
    yield from zip(told, facts_of_each([Person(one.book.customer) for one in told]), strict=True)


@cache
def _duck() -> Duck:
    duck = connect()
    atexit.register(duck.close)
    return duck


def _load(duck: Duck, table: str, columns: Mapping[str, str], rows: list[dict[str, Any]]) -> None:
    shape = json.encode([dict(columns)]).decode()
    text = json.encode([{name: row.get(name) for name in columns} for row in rows]).decode()
    duck.execute(
        f"create or replace temp table {table} as select r.* from (select unnest(from_json($1, '{shape}')) as r)",
        [text],
    )


def _periods(key: int, person: Person) -> Iterator[dict[str, Any]]:
    customer = person.customer
    # In the order of the stores' ids, which a pseudonym would not keep: it decides between payments of one millisecond.
    bought = [
        *((one.store, one.id) for one in customer.subscriptions),
        *((one.store, one.id) for one in customer.purchases),
    ]
    names = {purchase_pseudonym(store, id): f"{key:09}:{id}:{store}" for store, id in bought}
    failed = {
        (purchase_pseudonym(*purchase), period_pseudonym(one.transaction_id)): purchase
        for purchase, told in person.issues.items()
        for one in told
    }
    for row in rows_of(key, customer, person.catalog):
        purchase = failed.get((row.purchase, row.period))
        told = [
            one
            for one in (() if purchase is None else person.issues[purchase])
            if period_pseudonym(one.transaction_id) == row.period
        ]
        yield (
            _fields(row)
            | person.origin._asdict()
            | {
                "customer": key,
                "purchase": names[row.purchase],
                "country": row.country,
                "seen_country": person.origin.country,
                "failed_at": min((one.at for one in told), default=None),
                "grace_ends_at": max(
                    (one.grace_ends_at for one in told if one.grace_ends_at is not None), default=None
                ),
                "side": 0,
            }
        )


def _fields(row: PeriodRow) -> dict[str, Any]:
    return structs.asdict(row) | {"back": None if row.back is None else json.encode(row.back).decode()}


def _person(key: int, person: Person) -> dict[str, Any]:
    customer = person.customer
    return person.origin._asdict() | {
        "customer": key,
        "first_seen_at": customer.first_seen_at,
        "clock": customer.test_clock_id,
        "enrollments": enrollments_of(customer),
        "attributes": attributes_of(customer, person.attributes),
    }
