"""Synthetic periods for the benchmark of the charts, made by DuckDB and written to PostgreSQL by COPY.

`MILLIONS` payments of subscribers who came over three years. Dimensions are believable: 8 products with 4 durations, 4
stores on 3 platforms, 60 countries by Zipf's law, 40 app versions one after the other, 4 offerings, 2 experiments.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from bench.table import say
from latchkey.database.pool import Database
from latchkey.domain.instants import DAY
from latchkey.subjects.charts.rules.facts import Day

if TYPE_CHECKING:
    import duckdb

DAYS = 1095
COUNTRIES = 60

_STORE = "(['app_store', 'play_store', 'stripe', 'amazon'])[store + 1]"
_PLATFORM = "(['ios', 'android', 'web', 'android'])[store + 1]"
_VERSION = "(version // 10) || '.' || (version % 10)"
# An instant on a day, at the subscriber's own time.
_AT = f"(({{day}}) * {DAY}::bigint + i % 80000 * 1000)"


def _at(day: str) -> str:
    return _AT.format(day=day)


_DUE = "start + k * length"
_REFUNDED = f"case when (i + k) % 50 = 0 then {_at(_DUE + ' + 3')} end"
# The columns of `chart_periods`, as SQL over a subscriber and the number `k` of a payment.
_PERIOD = {
    "project_id": "$1",
    "purchase": "md5(i::varchar)::uuid",
    "period": "k",
    "customer_id": "i + 1",
    "place": "k",
    "type": "'normal'",
    "sandbox": "false",
    "purchased_at": _at(_DUE),
    "starts_at": _at(_DUE),
    "ends_at": _at(_DUE + " + length"),
    "access_ends_at": _at(_DUE + " + length"),
    "refunded_at": _REFUNDED,
    "told_at": f"case when k = payments - 1 then {_at(_DUE)} end",
    "micros": "price::bigint",
    "usd": "price::bigint",
    "monthly_micros": "(price * 30 / length)::bigint",
    "monthly_usd": "(price * 30 / length)::bigint",
    "tax": "0.19",
    "commission": "0.15",
    "standing": "case when k = payments - 1 then 1 end",
    "cause": "case when k = 0 then 'purchase' else 'renewal' end",
    "store": _STORE,
    "product": "'product_' || product",
    "duration": "(['P1M', 'P1M', 'P1Y', 'P1M', 'P1W', 'P6M', 'P1M', 'P1Y'])[product + 1]",
    "currency": "(['USD', 'EUR', 'GBP', 'JPY', 'BRL'])[1 + country % 5]",
    "country": "'C' || country",
    "offering": "'offering_' || offering",
    "back": f"case when (i + k) % 50 = 0 then '[[' || {_at(_DUE + ' + 3')} || ',1,' || price::bigint || ',0,0,'"
    " || price::bigint || ',0,0,0]]' end",
    "failed_at": f"case when k > 0 and (i + k) % 20 = 0 then {_at(_DUE)} end",
    "platform": f"case when k = 0 then {_PLATFORM} end",
    "app_version": f"case when k = 0 then {_VERSION} end",
    "seen_country": "case when k = 0 then 'C' || country end",
}
_CUSTOMER = {
    "project_id": "$1",
    "id": "i + 1",
    "app_user_id": "'user' || i",
    "state": f"""case when a > 0 then '{{"enrollments":[{{"experiment_id":"paywall","variant_id":"' || a
        || '","enrolled_at":' || {_at("start")} || '}}]}}' else '{{}}' end""",
    "first_seen_at": _at("start"),
    "last_seen_at": _at("start"),
    "first_platform": _PLATFORM,
    "first_app_version": _VERSION,
    "first_country": "'C' || country",
}


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


async def fill(database: Database, project_id: str, payments: int, today: Day, folder: Path) -> None:
    duck = subscribers(payments, today)
    tables = {
        "customers": (_CUSTOMER, "subscribers"),
        "chart_periods": (_PERIOD, "(select *, unnest(range(0, payments)) as k from subscribers)"),
    }
    for table, (columns, source) in tables.items():
        say(table)
        file = folder / f"{table}.csv"
        chosen = ", ".join(sql.replace("$1", f"'{project_id}'") for sql in columns.values())
        duck.execute(f"copy (select {chosen} from {source} order by i) to '{file}' (header false)")
        async with database.transaction(statement_timeout_ms=3_600_000) as connection:
            await connection.copy_to_table(table, source=file, columns=list(columns), format="csv")
        file.unlink()
    duck.close()


async def buy(database: Database, project_id: str, customers: int) -> None:
    """The newest subscriptions of so many customers are renewed."""
    kept = set(_PERIOD) - {"place", "period", "cause", "back", "refunded_at", "failed_at"}
    moved = {"purchased_at": "ends_at", "starts_at": "ends_at", "told_at": "ends_at"}
    moved |= {"ends_at": "2 * ends_at - starts_at", "access_ends_at": "2 * ends_at - starts_at"}
    async with database.transaction() as connection:
        await connection.execute(
            "with chosen as ("
            " update customers set changed_xid = default"
            " where project_id = $1 and id % 100 = 1 and id <= $2 returning id"
            "), newest as ("
            " update chart_periods p set standing = null, told_at = null from chosen c"
            " where p.project_id = $1 and p.customer_id = c.id and p.standing is not null returning p.*"
            f") insert into chart_periods (place, period, cause, {', '.join(sorted(kept))})"
            " select place + 1, period + 1, 'renewal',"
            f" {', '.join('1' if one == 'standing' else moved.get(one, one) for one in sorted(kept))} from newest",
            project_id,
            100 * customers,
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
