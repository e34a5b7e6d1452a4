"""The files of charts are a cache: whether there is one, which process built it and when changes no answer."""

import asyncio
from pathlib import Path

import pytest

from latchkey.domain.customers.customer import Attribute
from latchkey.domain.instants import DAY
from latchkey.subjects.charts.rules.facts import Kind, Question, Resolution
from latchkey.subjects.charts.storage import fact_cache as module
from latchkey.subjects.charts.storage.fact_cache import FactCache, default_folder
from latchkey.subjects.charts.usecases import choose_attributes, read_values
from latchkey.subjects.customers.usecases.edits import set_attributes
from tests.cli.running import typed
from tests.usecases.conftest import Shop


def test_a_folder_that_others_can_read_or_have_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = default_folder()
    assert (ours.stat().st_mode & 0o077, default_folder()) == (0, ours)
    ours.rename(tmp_path / "elsewhere")
    ours.symlink_to(tmp_path / "elsewhere")
    assert default_folder() != ours
    ours.unlink()
    ours.mkdir(mode=0o755)
    assert default_folder() != ours


async def paid(books: FactCache, shop: Shop) -> int:
    today = shop.time // DAY
    asked = Question("SANDBOX", (Kind.PAYMENT,), today - 28, today, Resolution.DAY)
    book = await books.facts(shop.project_id, shop.time)
    return sum(sum(run.quantities) for run in book.ask(asked, shop.time).runs())


def files(folder: Path) -> list[Path]:
    return list(folder.glob("*.duckdb"))


async def built(books: FactCache, folder: Path) -> Path:
    """Files are built in the background."""
    await asyncio.gather(*books._building.values())
    [file] = files(folder)
    return file


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one customer are many."""
    monkeypatch.setattr(module, "FEW_CUSTOMERS", 1)
    monkeypatch.setattr(module, "MOST_CHANGED", 1)


async def test_a_small_project_has_no_file(shop: Shop, tmp_path: Path) -> None:
    books = FactCache(shop.database, tmp_path)
    assert await paid(books, shop) == 0
    await shop.act("purchase", "ann", product="pro_monthly")
    assert await paid(books, shop) == 1
    assert files(tmp_path) == []


@pytest.mark.usefixtures("few")
async def test_every_purchase_counts_at_once_with_a_file_and_without(shop: Shop, tmp_path: Path) -> None:
    books, others = FactCache(shop.database, tmp_path), FactCache(shop.database, tmp_path)
    await shop.act("purchase", "ann", product="pro_monthly")
    assert await paid(books, shop) == 1
    for number in range(3):
        await shop.act("purchase", f"user{number}", product="pro_monthly")
    assert await paid(books, shop) == 4
    first = await built(books, tmp_path)
    # Another process reads the same file.
    assert await paid(others, shop) == 4
    await shop.act("purchase", "ben", product="pro_monthly")
    await shop.act("purchase", "ann", product="coins_100")
    assert (await paid(books, shop), await paid(others, shop)) == (6, 6)
    await shop.act("refund", "ann", product="coins_100")
    assert await paid(books, shop) == 6
    # Two customers have changed since: a new file takes the place of the old one, which others still read.
    assert await built(books, tmp_path) != first
    assert (await paid(books, shop), await paid(others, shop)) == (6, 6)


@pytest.mark.usefixtures("few")
async def test_a_file_can_be_deleted_at_any_time(shop: Shop, tmp_path: Path) -> None:
    for number in range(3):
        await shop.act("purchase", f"user{number}", product="pro_monthly")
    books = FactCache(shop.database, tmp_path)
    assert await paid(books, shop) == 3
    (await built(books, tmp_path)).unlink()
    await shop.act("purchase", "ann", product="pro_monthly")
    assert await paid(books, shop) == 4
    assert await paid(FactCache(shop.database, tmp_path), shop) == 4


@pytest.mark.usefixtures("few")
async def test_what_a_killed_process_or_a_bad_disk_has_left_is_no_obstacle(shop: Shop, tmp_path: Path) -> None:
    for number in range(3):
        await shop.act("purchase", f"user{number}", product="pro_monthly")
    (left := tmp_path / f"{shop.project_id}.abc").mkdir()
    books = FactCache(shop.database, tmp_path)
    assert await paid(books, shop) == 3
    file = await built(books, tmp_path)
    assert not left.exists()
    file.write_bytes(b"not a database")
    assert await paid(FactCache(shop.database, tmp_path), shop) == 3


@pytest.mark.usefixtures("few")
async def test_a_file_without_the_chosen_attributes_is_not_used(shop: Shop, tmp_path: Path) -> None:
    for number in range(3):
        await shop.act("purchase", f"user{number}", product="pro_monthly")
    await set_attributes(shop.changes, shop.project_id, "user1", {"plan": Attribute("gold", shop.time)}, create=False)
    books = FactCache(shop.database, tmp_path)
    assert await paid(books, shop) == 3
    await choose_attributes(shop.database, shop.project_id, ["plan"])
    found = await read_values(books, shop.project_id, "SANDBOX", ["attribute:plan"], shop.time)
    assert found == {"attribute:plan": ["gold"]}


async def test_attributes_are_chosen(shop: Shop) -> None:
    where = {"LATCHKEY_DATABASE_URL": shop.database.url}
    chosen = await asyncio.to_thread(typed, "charts", "attributes", "--project", shop.project_id, "plan", **where)
    assert "broken down by: plan" in chosen.stdout, chosen.stderr
