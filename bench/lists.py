"""Customer lists of a big project: every filter, combinations, orders, the last page, the count and the CSV.

Only when it is named: `MILLIONS=1 python -m bench lists`. Facets are written as the roller would, from made-up numbers.
"""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from statistics import median

from bench.charts import spent
from bench.ground import Ground
from bench.population import settle, subscriber
from bench.table import Row, say
from latchkey.domain.instants import DAY, Ms
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.garbage import collect_seldom
from latchkey.now import real_now
from latchkey.subjects.segments.rules.filter import EVERYBODY, CustomerFilter, Sort, parse
from latchkey.subjects.segments.usecases.customer_lists import (
    DEFAULT,
    ON_A_PAGE_MS,
    active_customers,
    count,
    csv_pieces,
    list_page,
    needs_customer,
)

BAR_MS, ACTIVE_BAR_MS = 300, 100
# Of the CSV of everybody: a million customers in a minute.
CSV_BAR = 1_000_000 / 60
TIMES = 5
ON_A_PAGE = 50

# Of 1,000: 300 have a running subscription (40 of them cancelled, 60 on trial, 10 with a failed payment), 400 had one,
# 5 own something for ever, 10 have a grant, the rest has never bought. One store, country and product are rare.
FACETS = """
insert into customer_facets (
    project_id, customer_id, environment, first_seen_at, last_seen_at, country, runs_until, renews_until, trial_until,
    grace_from, grace_until, billing_issue_until, granted_until, bought, owns, spent_usd, refunded_usd, products,
    product_untils, stores
)
select c.project_id, c.id, case when n % 50 = 0 then 'SANDBOX' else 'PRODUCTION' end,
    $2 - (n % 730) * 86400000 - n % 86400000, $2 - (n * 7919 % 400) * 3600000 * (1 + n % 24),
    case when n % 10000 = 17 then 'LI' else (array['US', 'DE', 'FR', 'GB', 'JP', 'BR', 'IN'])[1 + n % 7] end,
    case when n % 1000 < 300 then $2 + (n % 30 + 1) * 86400000
        when n % 1000 < 700 then $2 - (n % 600 + 1) * 86400000 end,
    case when n % 1000 between 40 and 299 then $2 + (n % 30 + 1) * 86400000 end,
    case when n % 1000 between 40 and 99 then $2 + (n % 14 + 1) * 86400000
        when n % 1000 < 700 and n % 3 = 0 then $2 - (n % 500) * 86400000 end,
    case when n % 1000 between 100 and 104 then $2 - 86400000 end,
    case when n % 1000 between 100 and 104 then $2 + 5 * 86400000 end,
    case when n % 1000 between 100 and 109 then $2 + 50::bigint * 86400000 end,
    case when n % 1000 between 705 and 714 then $2 + 90::bigint * 86400000 end,
    n % 1000 < 705, n % 1000 between 700 and 704, case when n % 1000 < 700 then n % 400 * 990000 else 0 end,
    case when n % 200 = 0 then 9990000 else 0 end,
    case when n % 10000 = 3 then array['rare']
        when n % 1000 < 700 then array[(array['pro_monthly', 'pro_yearly', 'team'])[1 + n % 3]] else '{}' end,
    case when n % 10000 = 3 or n % 1000 < 700 then array[$2 + (n % 600 - 300) * 86400000] else '{}'::bigint[] end,
    case when n % 10000 = 3 then array['amazon']
        when n % 1000 < 705 then array[(array['app_store', 'play_store', 'stripe'])[1 + n % 3]] else '{}' end
from (select project_id, id, row_number() over (order by id) as n from customers where project_id = $1) as c
"""

FILTERS = {
    "everybody": "",
    "active": "status=active",
    "on trial": "status=trial",
    "in grace": "status=in_grace_period",
    "billing issue": "status=billing_issue",
    "cancelled": "status=cancelled",
    "expired": "status=expired",
    "one-time purchase": "status=one_time_purchase",
    "never bought": "status=never_bought",
    "granted": "status=granted",
    "trial or grace": "status=trial,in_grace_period",
    "product": "product_id=pro_yearly",
    "product runs now": "product_id=pro_yearly&product_active=true",
    "rare product": "product_id=rare",
    "spent from 300": "spent_from=300",
    "spent exactly": "spent_from=99&spent_to=99",
    "country": "country=DE",
    "rare country": "country=LI",
    "store": "store=stripe",
    "rare store": "store=amazon",
    "sandbox": "environment=sandbox",
    "seen lately": "last_seen_after=2d",
    "not seen for a year": "last_seen_before=365d",
    "new this week": "first_seen_after=7d",
    "trial ends in 3 days": "trial_ends_within=3",
    "expired, DE, spent": "status=expired&country=DE&spent_from=100",
    "billing issue, DE": "billing_issue=true&country=DE",
    "never bought, seen lately": "status=never_bought&last_seen_after=7d",
    "nobody": "status=one_time_purchase&store=amazon",
    "cancelled, rare store": "status=cancelled&store=amazon",
}


async def run(ground: Ground) -> list[Row]:
    customers = int(float(os.environ.get("MILLIONS", "1")) * 1_000_000)
    now = real_now()
    # As in the service.
    collect_seldom()
    await settle(ground.database, "somebody", subscriber(now - 10 * DAY), customers)
    async with ground.database.acquire() as connection:
        await connection.execute("set synchronous_commit = off; set statement_timeout = 0")
        await connection.execute(FACETS, ground.project_id, now, timeout=3600)
        await connection.execute(
            "insert into facet_rolls (project_id, counted) select $1, max(id) from customers where project_id = $1"
            " on conflict (project_id) do update set counted = excluded.counted",
            ground.project_id,
        )
        await connection.execute("vacuum analyze customer_facets", timeout=3600)
        await connection.execute("reset statement_timeout; reset synchronous_commit")
    return [row async for row in _rows(ground, now)]


async def _rows(ground: Ground, now: Ms) -> AsyncIterator[Row]:
    for name, query in FILTERS.items():
        wanted = parse(dict(one.split("=") for one in query.split("&") if one))
        for sort in Sort if name in ("everybody", "expired", "rare store") else (Sort.LAST_SEEN,):
            yield await _measured(ground, f"{name}, by {sort}", partial(_page, ground, wanted, sort, now))
        counting = partial(count, ground.database, ground.project_id, wanted, now, within_ms=ON_A_PAGE_MS)
        yield await _measured(ground, f"{name}, counted", counting)
    last = partial(_page, ground, EVERYBODY, Sort.LAST_SEEN, now, f"{now - 380 * DAY}.1")
    yield await _measured(ground, "last page", last)
    active = partial(active_customers, ground.database, ground.project_id, "PRODUCTION", now)
    yield await _measured(ground, "active users of the overview, counted", active, ACTIVE_BAR_MS)
    for name, wanted in (
        ("CSV of a rare country", CustomerFilter(country=frozenset({"LI"}))),
        ("CSV of everybody", EVERYBODY),
    ):
        pieces = csv_pieces(ground.database, Catalogs(), ground.project_id, wanted, DEFAULT, now)
        start, lines, first = time.perf_counter(), 0, 0.0
        async for piece in pieces:
            lines += piece.count(b"\n")
            first = first or (time.perf_counter() - start if lines > 1 else 0.0)
        whole = time.perf_counter() - start
        yield Row(f"{name}, first rows", first * 1000, "ms", bar=f"≤ {BAR_MS} ms", holds=first * 1000 <= BAR_MS)
        say(f"{name}: {lines - 1:,} rows in {whole:.0f} s")
    yield Row("CSV of everybody", lines / whole, "rows/s", bar=f"≥ {CSV_BAR:,.0f}", holds=lines / whole >= CSV_BAR)


async def _page(ground: Ground, wanted: CustomerFilter, sort: Sort, now: Ms, after: str | None = None) -> object:
    return await list_page(
        ground.database,
        ground.project_id,
        wanted,
        now,
        sort=sort,
        after=after,
        limit=ON_A_PAGE,
        whole=needs_customer(DEFAULT),
    )


async def _measured(ground: Ground, name: str, ask: Callable[[], Awaitable[object]], bar_ms: int = BAR_MS) -> Row:
    """The median of some times, and the processor time of the database beside it."""
    walls, theirs = [], []
    for _ in range(TIMES):
        start, before = time.perf_counter(), spent(ground)
        await ask()
        walls.append((time.perf_counter() - start) * 1000)
        theirs.append(spent(ground) - before)
    bar = f"≤ {bar_ms} ms, max {max(walls):.0f}; database CPU {median(theirs):.0f}"
    say(f"{name}: {median(walls):.0f} ms, {bar}")
    return Row(name, median(walls), "ms", bar=bar, holds=median(walls) <= bar_ms)
