"""What the charts count is what the API shows, over HTTP, customer by customer."""

from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY, HOUR, to_iso
from latchkey.engine.clock import pass_time
from latchkey.subjects.charts.rules.definition import METRICS
from latchkey.subjects.charts.rules.facts import Kind, Question, Resolution
from latchkey.subjects.charts.storage.fact_cache import FactCache
from latchkey.subjects.charts.usecases import read_chart, read_charts, read_last_days
from tests.http.client import Shop
from tests.http.doings import did, unhurried
from tests.http.fixtures import opened

USERS = [f"user{number}" for number in range(6)]
# Into the trials, past them, to the ends of months, through a grace period, and long after.
WAITS = [0, 6 * DAY + 20 * HOUR, 12 * HOUR, 24 * DAY, 3 * DAY, 5 * DAY, 31 * DAY]


async def test_charts_count_what_the_api_shows(database: Database, tmp_path: Path) -> None:
    async with opened(database) as shop:
        books = FactCache(database, tmp_path)
        await unhurried(shop)
        for number, user in enumerate(USERS):
            await did(shop, "purchase", user, "pro_monthly", trial=number % 2 == 0)
            await wait(shop, HOUR)
        await did(shop, "cancel", "user1")
        await did(shop, "fail_billing", "user3", grace_days=6)
        await did(shop, "pause", "user5", resume_at_ms=shop.clock.now + 60 * DAY)
        counts = set()
        for pause in WAITS:
            await wait(shop, pause)
            active, trials = await running(shop, books, Kind.ACTIVE), await running(shop, books, Kind.TRIAL)
            periods, entitled = await shown(shop)
            assert (active, trials) == (periods["normal"], periods["trial"])
            assert active + trials == entitled
            counts.add((active, trials))
        assert len(counts) >= 5, "the moments were chosen so that the numbers differ"
        for currency in ("USD", "EUR"):
            first = await read_last_days(books, shop.project_id, METRICS, "SANDBOX", 28, currency, shop.clock.now)
            asked = [replace(data.request, compare=True) for data in first.values()]
            overview = await read_charts(books, shop.project_id, asked, shop.clock.now)
            for name, data in overview.items():
                alone = await read_chart(books, shop.project_id, data.request, shop.clock.now)
                assert (data.series, data.previous) == (alone.series, alone.previous), name
            assert any(one.total for one in overview["revenue"].series)


async def running(shop: Shop, books: FactCache, kind: Kind) -> int:
    today = shop.clock.now // DAY
    asked = Question("SANDBOX", (kind,), today - 28, today, Resolution.DAY)
    book = await books.facts(shop.project_id, shop.clock.now)
    return sum(sum(run.quantities) for run in book.ask(asked, shop.clock.now).runs())


async def shown(shop: Shop) -> tuple[Counter[str], int]:
    """How many subscriptions of each period type run according to V1, and how many entitlements V2 holds active."""
    periods, entitled = Counter[str](), 0
    for user in USERS:
        entitled += len((await shop.v2(user, "/active_entitlements")).json()["items"])
        for one in (await shop.v1(user)).json()["subscriber"]["subscriptions"].values():
            ends = max(one["expires_date"], one["grace_period_expires_date"] or "")
            periods[one["period_type"]] += ends > to_iso(shop.clock.now)
    return periods, entitled


async def wait(shop: Shop, length: int) -> None:
    shop.clock.now += length
    while await pass_time(shop.database, shop.changes.catalogs, shop.clock.now):
        pass
