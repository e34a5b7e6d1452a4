"""Synthetic facts for the benchmark of the charts, made by DuckDB, stored as the roller stores them.

`MILLIONS` payments of subscribers who came over three years. Dimensions are believable: 8 products with 4 durations, 4
stores on 3 platforms, 60 countries by Zipf's law, 40 app versions one after the other, 4 offerings, 2 experiments.
Facts come in the order in which the roller would have met them, a month at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bench.table import say
from latchkey.domain.charts.fact import Day, Kind
from latchkey.domain.charts.merging import MOST_ROWS
from latchkey.storage.charts import blocks, columns
from latchkey.storage.charts.blocks import FRESH, New
from latchkey.storage.charts.kinds import CODES
from latchkey.storage.charts.packing import pack
from latchkey.storage.database import Database
from latchkey.usecases.charts import folding

if TYPE_CHECKING:
    import duckdb

DAYS = 1095
COUNTRIES = 60
PRODUCTION = "PRODUCTION"
# Facts that are in no block yet, as there usually are some.
IN_TAIL = 10_000


class Of(NamedTuple):
    """Facts of one kind: one for each `k` of a subscriber for which `where` holds. SQL over the subscriber and `k`."""

    kind: Kind
    day: str = "start"
    n: str = "0"
    quantity: str = "1"
    # The price, as a factor; none: the fact has no money.
    money: str | None = None
    where: str = "k = 0"
    # When the roller learns of it.
    known: str | None = None


_DUE, _END, _MONTHLY = "start + k * length", "start + payments * length", "30.0 / length"
_WINDOW = (
    "case when k * length <= 0 then 0 when k * length <= 7 then 1 when k * length <= 14 then 2"
    " when k * length <= 30 then 3 when k * length <= 90 then 4 when k * length <= 180 then 5"
    " when k * length <= 365 then 6"
    " when k * length <= 730 then 7 else 8 end"
)
_PAID = "k < payments"

FACTS = (
    Of(Kind.PAYMENT, _DUE, "(k > 0)::int", money="1", where=_PAID),
    Of(Kind.REFUND, f"{_DUE} + 3", "(k > 0)::int", money="1", where=f"{_PAID} and (i + k) % 50 = 0"),
    Of(Kind.REFUNDED_PAYMENT, _DUE, "(k > 0)::int", money="1", where=f"{_PAID} and (i + k) % 50 = 0"),
    Of(Kind.RENEWAL_DUE, _DUE, "least(k, 12)", where="k between 1 and payments"),
    Of(Kind.RENEWED, _DUE, "least(k, 12)", where=f"k >= 1 and {_PAID}"),
    Of(Kind.RETAINED, "start", "k", where=_PAID, known=_DUE),
    Of(Kind.SEEN_REVENUE, "start", _WINDOW, money="1", where=_PAID, known=_DUE),
    Of(Kind.ACTIVE, "start", money=_MONTHLY),
    Of(Kind.ACTIVE, _END, quantity="-1", money=f"-{_MONTHLY}"),
    Of(Kind.STATUS, "start", "i % 3", money=_MONTHLY),
    Of(Kind.STATUS, _END, "i % 3", quantity="-1", money=f"-{_MONTHLY}"),
    Of(Kind.NEW, "start", "i % 3", money=_MONTHLY, where="k = 0 and i % 8 > 0"),
    Of(Kind.RETURN, "start", "i % 3", money=_MONTHLY, where="k = 0 and i % 8 = 0"),
    Of(Kind.EXPANSION, "start + length", money="0.5", where="k = 0 and i % 20 = 0 and payments > 1"),
    Of(Kind.CONTRACTION, "start + length", money="0.5", where="k = 0 and i % 40 = 1 and payments > 1"),
    Of(Kind.CHURN, _END, money=_MONTHLY),
    Of(Kind.TRIAL, "start - 7", where="k = 0 and i % 3 = 0"),
    Of(Kind.TRIAL, "start", quantity="-1", where="k = 0 and i % 3 = 0"),
    Of(Kind.TRIAL_STARTED, "start - 7", "1 + (i % 6 = 0)::int", where="k = 0 and i % 3 = 0"),
    Of(Kind.TRIAL_ENDED, "start", "1 + (i % 6 = 0)::int", where="k = 0 and i % 3 = 0"),
    Of(Kind.BILLING_ISSUE, _DUE, "i % 4", money="1", where="k >= 1 and k < payments and (i + k) % 20 = 0"),
    Of(Kind.CUSTOMER),
    Of(Kind.PAYING_CUSTOMER),
    Of(Kind.SEEN_PAYER),
    Of(Kind.SEEN_CONVERTED),
    Of(Kind.ENROLLED, where="k = 0 and a + b > 0"),
    Of(Kind.ENROLLED_CONVERTED, where="k = 0 and a + b > 0"),
    Of(Kind.ENROLLED_PAYER, where="k = 0 and a + b > 0"),
    Of(Kind.ENROLLED_REVENUE, "start", _WINDOW, money="1", where=f"{_PAID} and a + b > 0", known=_DUE),
    Of(Kind.ENROLLED_SQUARE, "start", quantity="10000", where="k = 0 and a + b > 0"),
)

_DIMENSIONS = """
    'product_' || product as product,
    (['P1M', 'P1M', 'P1Y', 'P1M', 'P1W', 'P6M', 'P1M', 'P1Y'])[product + 1] as duration,
    (['app_store', 'play_store', 'stripe', 'amazon'])[store + 1] as store, 'C' || country as country,
    (['ios', 'android', 'web', 'android'])[store + 1] as platform,
    (version // 10) || '.' || (version % 10) as app_version, 'offering_' || offering as offering,
    case when a > 0 and b > 0 then 'paywall:' || a || chr(31) || 'price:' || b when a > 0 then 'paywall:' || a
        when b > 0 then 'price:' || b else '' end as variants,
    '' as attributes
"""
_CURRENCY = "(['USD', 'EUR', 'GBP', 'JPY', 'BRL'])[1 + country % 5]"
_RATE = "([1.0, 0.9, 0.8, 150, 5])[1 + country % 5]"
_SHARES = {"micros": _RATE, "tax": f"0.19 * {_RATE}", "commission": f"0.15 * {_RATE}", "usd": "1", "tax_usd": "0.19",
           "commission_usd": "0.15"}  # fmt: skip


def subscribers(payments: int, today: Day) -> duckdb.DuckDBPyConnection:
    """A database with the subscribers who made about so many payments."""
    # Only here: it is needed for nothing else, and prints warnings when Python ends.
    import duckdb

    duck = duckdb.connect(config={"threads": 2})
    weights = [1 / (n + 1) for n in range(COUNTRIES)]
    shares = [round(one / sum(weights), 6) for one in accumulate(weights)][:-1]
    # 40 % monthly and yearly ones run on; a month is survived by 92 of 100.
    duck.execute(f"""
        select setseed(0.17);
        create table subscribers as
        select *, 1 + least(({today} - start) // length,
            floor(ln(stay) / ln(case when length > 100 then 0.6 else 0.92 end))::int) as payments
        from (
            select *, greatest(0, (start - {today - DAYS}) * 40 // {DAYS} - lag) as version,
                ([30, 30, 365, 30, 7, 180, 30, 365])[product + 1] as length,
                ([9.99, 4.99, 59.99, 14.99, 2.99, 39.99, 19.99, 99.99])[product + 1] * 1000000 as price
            from (
                select i, {today - DAYS} + (sqrt(random()) * {DAYS})::int as start,
                    {_bucket("p", [0.35, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98])} as product,
                    {_bucket("s", [0.5, 0.8, 0.95])} as store, {_bucket("c", shares)} as country,
                    least(5, floor(-ln(1 - random())))::int as lag, {_bucket("o", [0.6, 0.8, 0.95])} as offering,
                    {_bucket("e", [0.7, 0.85])} as a, {_bucket("f", [0.8, 0.9])} as b, 1 - random() as stay
                from (
                    select i, random() as p, random() as s, random() as c, random() as o, random() as e, random() as f
                    from range({payments // 6}) as r (i)
                )
            )
        )
        where start < {today};
    """)
    made = duck.execute("select sum(payments)::bigint, count(*) from subscribers").fetchone()
    assert made is not None
    say(f"{made[0]:,} payments; {made[1]:,} subscribers")
    return duck


def _bucket(value: str, bounds: list[float]) -> str:
    cases = " ".join(f"when {value} < {bound} then {place}" for place, bound in enumerate(bounds))
    return f"case {cases} else {len(bounds)} end"


def facts_sql(of: Of, today: Day) -> str:
    """Facts of a kind, and the day they are known since."""
    money = ", ".join(
        f"({of.money} * price * {share})::bigint as {name}" if of.money else f"0 as {name}"
        for name, share in _SHARES.items()
    )
    return f"""
        select {_DIMENSIONS}, ({of.day})::int as day, ({of.n})::int as n,
            {_CURRENCY if of.money else "''"} as currency, {of.quantity} as quantity, {money},
            greatest({of.known or of.day}, start) as known
        from (select *, unnest(range(0, {"1" if "k = 0" in of.where else "payments + 1"})) as k from subscribers)
        where {of.where} and {of.day} <= {today} and {of.known or of.day} <= {today}
    """


async def filled(database: Database, project_id: str) -> Day | None:
    """The day on which the database was filled. None: it was not."""
    day: Day | None = await database.pool.fetchval(
        "select max(last_day) from chart_blocks where project_id = $1 and cuboid = 1", project_id
    )
    return day


async def fill(database: Database, project_id: str, duck: duckdb.DuckDBPyConnection, today: Day) -> None:
    for kind in dict.fromkeys(one.kind for one in FACTS):
        union = " union all ".join(facts_sql(one, today) for one in FACTS if one.kind is kind)
        duck.execute(f"create or replace table of_kind as {union}")
        rows = 0
        for table in _in_order(duck, today):
            rows += table.num_rows
            await _store(database, project_id, kind, table)
        say(f"{kind.value}: {rows:,} sums")


def _in_order(duck: duckdb.DuckDBPyConnection, today: Day) -> Iterator[Any]:
    """The sums by all dimensions of the facts that became known in each month."""
    keys = ", ".join((*columns.DIMENSIONS, "day", "n", "currency"))
    amounts = ", ".join(f"sum({name})::bigint as {name}" for name in columns.AMOUNTS[:-1])
    for first in range(today - DAYS, today + 1, 30):
        last = first + 29
        found: Any = duck.sql(
            f"select {keys}, {amounts} from of_kind where known between {first} and {last} group by all"
        ).to_arrow_table()
        for place in range(0, found.num_rows, MOST_ROWS // 2):
            yield _table(found.slice(place, MOST_ROWS // 2))


def _table(found: Any) -> Any:
    texts = (*columns.DIMENSIONS, "currency")
    made = {
        name: found[name].combine_chunks().dictionary_encode() if name in texts else found[name]
        for name in found.column_names
    }
    return columns.added([pa.table(made)])


async def _store(database: Database, project_id: str, kind: Kind, table: Any) -> None:
    if not table.num_rows:
        return
    part = PRODUCTION, CODES[kind]
    new = New(*part, FRESH, table.num_rows, *columns.span(table), columns.quantity(table), *pack(table))
    async with database.transaction(statement_timeout_ms=600_000) as connection:
        await blocks.replace(connection, project_id, [], [new])
        waiting = await blocks.listed(connection, project_id, cuboid=FRESH, kind=CODES[kind])
        if sum(one.rows for one in waiting) >= folding.FRESH_ROWS:
            await folding.put(connection, project_id, await folding.cubed(connection, project_id, part))


async def fill_tail(database: Database, project_id: str, today: Day) -> None:
    chance = random.Random(17)
    async with database.transaction() as connection:
        await connection.execute(
            "insert into chart_dimensions (project_id, id, digest, environment, cuboid, product, duration, store,"
            " country, platform, app_version, offering, variants, attributes)"
            " select $1, i, gen_random_uuid(), 'PRODUCTION', 0, 'product_' || i % 8, 'P1M', 'app_store', 'C' || i % 60,"
            " 'ios', '3.9', 'offering_0', '{}', '{}' from generate_series(1, 2000) as i on conflict do nothing",
            project_id,
        )
        kinds = [CODES[one.kind] for one in FACTS]
        rows = [(chance.choice(kinds), place, 1 + chance.randrange(2000)) for place in range(IN_TAIL)]
        await connection.execute(
            "insert into chart_tail (project_id, kind, batch, place, dimension, n, currency, day, quantity, usd)"
            " select $1, t.kind, 1, t.place, t.dimension, 0, 'USD', $5, 1, 1000000"
            " from unnest($2::smallint[], $3::integer[], $4::integer[]) as t (kind, place, dimension)",
            project_id,
            *zip(*rows, strict=True),
            today,
        )


async def fill_rates(database: Database, today: Day) -> None:
    """A euro in US dollars on each day that a chart can be about."""
    await database.pool.execute(
        "insert into exchange_rates (currency, day, usd, source, learned_at, version)"
        " select 'EUR', day, 1.05 + day % 97 * 0.0013, 'bench', 0, 1 from generate_series($1::integer, $2) as day"
        " on conflict do nothing",
        today - 3 * DAYS,
        today,
    )
