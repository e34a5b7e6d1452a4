"""A project with a few months of history, for pictures: daily sales, some failures, one customer with a full
profile."""

import contextlib
import random

from latchkey.domain.refusal import Refusal
from latchkey.engine.clock import pass_time
from latchkey.engine.storage.catalog.catalogs import Catalogs
from tests.dashboard.site import Site
from tests.http.client import DAY
from tests.http.doings import advance, clock_with

DAYS = 100
WARES = ["pro_monthly"] * 5 + ["pro_yearly", "team_monthly", "coins_100"]
GRACE = "grace.hopper@example.com"


async def fill(site: Site) -> None:
    """Fill the project. Afterwards the site's clock is where it was before."""
    chance = random.Random(11)
    catalogs = Catalogs()
    site.clock.now -= DAYS * DAY
    count = 0
    for day in range(DAYS):
        if day == 3:
            await _begin(site)
        if day == DAYS - 40:
            await site.act("fail_billing", "grace", "pro_monthly", grace_days=6)
        if day == DAYS - 37:
            await site.act("recover_billing", "grace", "pro_monthly")
        for _ in range(chance.randint(0, 2 + day // 12)):
            count += 1
            ware = chance.choice(WARES)
            trial = ware == "pro_monthly" and chance.random() < 0.6
            await site.act("purchase", f"user-{count:04}", ware, environment="PRODUCTION", trial=trial)
        for action in ("cancel", "refund"):
            if count and chance.random() < (0.6 if action == "cancel" else 0.1):
                who = f"user-{chance.randint(1, count):04}"
                with contextlib.suppress(Refusal):
                    await site.act("cancel" if action == "cancel" else "refund", who, "pro_monthly")
        site.clock.now += DAY
        while await pass_time(site.database, catalogs, site.clock.now):
            pass
    await _receivers(site)


async def _begin(site: Site) -> None:
    await site.act("purchase", "grace", "pro_monthly", environment="PRODUCTION", trial=True)
    await site.act("purchase", "grace", "coins_100", environment="PRODUCTION")
    await site.note("grace", __email=GRACE, __displayName="Grace Hopper", favourite="compilers")


async def _receivers(site: Site) -> None:
    """A webhook that works, one that fails, and their deliveries."""
    good = await site.hook("/", name="App server", environment="production")
    bad = await site.hook("/status/503", name="Data warehouse")
    for who in ("user-0001", "grace", "mia"):
        await site.act("purchase", who, "team_monthly", environment="PRODUCTION")
    await site.settled(good["id"], "delivered", 3)
    await site.settled(bad["id"], "waiting", 3, attempts=1)
    clock = await clock_with(site, "ada", site.clock.now, "A year of Ada")
    await site.act("purchase", "ada", "pro_monthly", trial=True)
    await advance(site, clock, by="P3M")
