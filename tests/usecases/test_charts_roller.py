"""The roller of the charts: whatever happens, in whatever order, the stored facts equal those computed from scratch,
and every question gets their plain sum."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.charts.fact import Kind
from latchkey.domain.charts.sums import Question, Resolution
from latchkey.domain.instants import DAY
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.charts.numbers import Numbers
from latchkey.usecases.charts.reading import read_sums
from latchkey.usecases.charts.roller import Work, catch_up, roll
from tests.usecases.charts_books import Books, agree, kept
from tests.usecases.charts_facts import expected, in_order
from tests.usecases.conftest import Shop
from tests.usecases.test_figures_roller import ANONYMOUS, NAMED, PRODUCTS, new_shop, something

MONTH = 30
DIMENSIONS = ("product", "store", "country", "platform", "offering")


def new_work() -> Work:
    return Work(Catalogs(), Numbers())


def question(shop: Shop, *kinds: Kind, environment: str = "PRODUCTION", segment: str | None = None) -> Question:
    today = shop.time // DAY
    return Question(environment, kinds or tuple(Kind), today - 400, today, Resolution.MONTH, segment=segment)


async def answers_agree(shop: Shop, books: Books, chance: Random) -> None:
    for environment in ("PRODUCTION", "SANDBOX"):
        for segment in (None, chance.choice(DIMENSIONS)):
            asked = question(shop, environment=environment, segment=segment)
            found = await read_sums(shop.database, shop.project_id, asked, shop.time)
            assert in_order(found.sums) == expected(books, asked, shop.time)
            assert found.behind == 0


@settings(
    max_examples=12, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_whatever_happens_the_facts_are_those_one_would_work_out_anew(database: Database, seed: int) -> None:
    chance = Random(seed)
    shop = await new_shop(database)
    work = new_work()
    for user in (*NAMED, *ANONYMOUS):
        await shop.act("purchase", user, chance.choice(PRODUCTS))
    for _ in range(chance.randrange(10, 40)):
        await something(shop, chance)
        if chance.random() < 0.3:
            await roll(database, work, shop.project_id, shop.time)
    assert await catch_up(database, shop.project_id, shop.time)
    books = await agree(database, shop.project_id)
    await answers_agree(shop, books, chance)
    assert not (await roll(database, work, shop.project_id, shop.time)).more
    assert await kept(database, shop.project_id) == books


async def test_a_grace_period_stays_in_the_past_when_the_customer_comes_back_after_it(database: Database) -> None:
    shop = await new_shop(database)
    await shop.act("purchase", "ann", "pro_monthly")
    await shop.act("fail_billing", "ann", grace_days=6)

    async def active() -> list[tuple[int, int]]:
        """The changes by day: when it began, ended, and began again."""
        assert await catch_up(database, shop.project_id, shop.time)
        today = shop.time // DAY
        asked = Question("SANDBOX", (Kind.ACTIVE,), today - 90, today, Resolution.DAY)
        found = await read_sums(database, shop.project_id, asked, shop.time)
        return [(one.period, one.quantity) for one in found.sums if one.period is not None]

    await shop.wait(50 * DAY)
    before = await active()
    assert [quantity for _, quantity in before] == [1, -1]
    await shop.act("recover_billing", "ann")
    assert await active() == [*before, (shop.time // DAY, 1)]
    await agree(database, shop.project_id)
