"""The files of charts are a cache: whether there is one, which process built it and when changes no answer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from latchkey.domain.customers.customer import Attribute
from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.instants import DAY
from latchkey.subjects.charts.rules.facts import Kind, Question, Resolution
from latchkey.subjects.charts.storage import fact_cache as module
from latchkey.subjects.charts.storage import project_facts
from latchkey.subjects.charts.storage.fact_cache import FactCache, Reading, default_folder
from latchkey.subjects.charts.usecases import choose_attributes, read_values
from latchkey.subjects.customers.usecases.edits import erase, set_attributes
from latchkey.subjects.database_restore.usecases import RestoreOptions, after_restore
from latchkey.subjects.experiments.usecases import create_experiment, enroll_customer
from tests.cli.running import typed
from tests.engine.fixtures import Core


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


async def paid(books: FactCache | Reading, core: Core) -> int:
    today = core.time // DAY
    asked = Question("SANDBOX", (Kind.PAYMENT,), today - 28, today, Resolution.DAY)
    book = await books.facts(core.project_id, core.time)
    return sum(sum(run.quantities) for run in book.ask(asked, core.time).runs())


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


async def test_a_small_project_has_no_file(core: Core, tmp_path: Path) -> None:
    books = FactCache(core.database, tmp_path)
    assert await paid(books, core) == 0
    await core.act("purchase", "ann", product="pro_monthly")
    assert await paid(books, core) == 1
    assert files(tmp_path) == []


async def test_a_request_reads_what_has_changed_once_and_the_next_one_again(core: Core, tmp_path: Path) -> None:
    books = FactCache(core.database, tmp_path)
    request = Reading(books, monotonic())
    await core.act("purchase", "ann", product="pro_monthly")
    assert await paid(request, core) == 1
    await core.act("purchase", "ben", product="pro_monthly")
    assert await paid(request, core) == 1
    assert await paid(Reading(books, monotonic()), core) == 2


async def test_rows_that_were_replaced_do_not_fill_the_memory(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_facts, "_LOOSE_ROWS", 100)
    books = FactCache(core.database, tmp_path)
    sizes: list[int] = []
    rows = (
        "select sum(count) from pragma_storage_info('recent.tail')"
        " where column_name = 'weight' and segment_type <> 'VALIDITY'"
    )
    await core.act("purchase", "ann", product="pro_monthly")
    for number in range(50):
        await core.act("cancel" if number % 2 else "uncancel", "ann") if number else None
        assert await paid(books, core) == 1
        facts = await books.facts(core.project_id, core.time)
        [(size,)] = facts._duck.execute(rows).fetchall()
        sizes.append(size)
    assert max(sizes) < len(sizes) * sizes[0] / 2


@pytest.mark.usefixtures("few")
async def test_every_purchase_counts_at_once_with_a_file_and_without(core: Core, tmp_path: Path) -> None:
    books, others = FactCache(core.database, tmp_path), FactCache(core.database, tmp_path)
    await core.act("purchase", "ann", product="pro_monthly")
    assert await paid(books, core) == 1
    for number in range(3):
        await core.act("purchase", f"user{number}", product="pro_monthly")
    assert await paid(books, core) == 4
    first = await built(books, tmp_path)
    # Another process reads the same file.
    assert await paid(others, core) == 4
    await core.act("purchase", "ben", product="pro_monthly")
    await core.act("purchase", "ann", product="coins_100")
    assert (await paid(books, core), await paid(others, core)) == (6, 6)
    await core.act("refund", "ann", product="coins_100")
    assert await paid(books, core) == 6
    # Two customers have changed since: a new file takes the place of the old one, which others still read.
    assert await built(books, tmp_path) != first
    assert (await paid(books, core), await paid(others, core)) == (6, 6)


@pytest.mark.usefixtures("few")
async def test_the_file_that_another_process_has_built_meanwhile_is_not_built_again(core: Core, tmp_path: Path) -> None:
    books, others = FactCache(core.database, tmp_path), FactCache(core.database, tmp_path)
    for number in range(3):
        await core.act("purchase", f"user{number}", product="pro_monthly")
    assert await paid(books, core) == 3
    await built(books, tmp_path)
    assert await paid(others, core) == 3
    await core.act("purchase", "ann", product="pro_monthly")
    await core.act("purchase", "ben", product="pro_monthly")
    facts, begun, goes_on = others._opened[core.project_id].facts, Event(), Event()
    replace = facts.replace

    def replace_later(customers: Sequence[int], periods: Path, people: Path) -> None:
        begun.set()
        goes_on.wait()
        replace(customers, periods, people)

    facts.replace = replace_later  # type: ignore[method-assign]
    asked = asyncio.create_task(paid(others, core))
    await asyncio.to_thread(begun.wait)
    assert await paid(books, core) == 5
    known = (await built(books, tmp_path)).stat().st_ino
    goes_on.set()
    assert await asked == 5
    assert (await built(others, tmp_path)).stat().st_ino == known
    assert others._opened[core.project_id].facts is facts
    assert await paid(others, core) == 5
    assert others._opened[core.project_id].facts is not facts


@pytest.mark.usefixtures("few")
async def test_a_file_can_be_deleted_at_any_time(core: Core, tmp_path: Path) -> None:
    for number in range(3):
        await core.act("purchase", f"user{number}", product="pro_monthly")
    books = FactCache(core.database, tmp_path)
    assert await paid(books, core) == 3
    (await built(books, tmp_path)).unlink()
    await core.act("purchase", "ann", product="pro_monthly")
    assert await paid(books, core) == 4
    assert await paid(FactCache(core.database, tmp_path), core) == 4


@pytest.mark.usefixtures("few")
async def test_what_a_killed_process_or_a_bad_disk_has_left_is_no_obstacle(core: Core, tmp_path: Path) -> None:
    for number in range(3):
        await core.act("purchase", f"user{number}", product="pro_monthly")
    (left := tmp_path / f"{core.project_id}.abc").mkdir()
    books = FactCache(core.database, tmp_path)
    assert await paid(books, core) == 3
    file = await built(books, tmp_path)
    assert not left.exists()
    file.write_bytes(b"not a database")
    assert await paid(FactCache(core.database, tmp_path), core) == 3


@pytest.mark.usefixtures("few")
async def test_ids_of_experiments_have_any_sign_with_a_file_and_without(core: Core, tmp_path: Path) -> None:
    books, variants = FactCache(core.database, tmp_path), (Variant("b:c", 1), Variant("c", 1))
    expected: dict[str, set[str]] = {"experiment:a": set(), "experiment:a:b": set()}
    for number, id in enumerate(("a:b", "a", "a", "a:b")):
        await core.act("purchase", user := f"user{number}", product="pro_monthly")
        if number < len(expected):
            await create_experiment(core.database, core.project_id, id, variants, core.time, experiment_id=id)
        enrollment = await enroll_customer(core.changes, core.project_id, id, user)
        expected[f"experiment:{id}"].add(enrollment.variant_id)
        # The rows of who is erased are written in another place.
        await erase(core.changes, core.project_id, user) if number == 2 else None
        found = await read_values(books, core.project_id, "SANDBOX", expected, core.time)
        assert {dimension: set(values) for dimension, values in found.items()} == expected
    await built(books, tmp_path)


@pytest.mark.one_server("a table that is spread over nodes cannot be made anew like this")
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("is_dump", [True, False])
async def test_an_older_state_of_the_same_database_is_noticed(core: Core, tmp_path: Path, is_dump: bool) -> None:
    for number in range(3):
        await core.act("purchase", f"user{number}", product="pro_monthly")
    books = FactCache(core.database, tmp_path)
    assert await paid(books, core) == 3
    first = await built(books, tmp_path)
    # The dump, or the disk that was put back, does not have the last purchase, and no transaction says so.
    await core.database.pool.execute("delete from chart_periods where customer_id = (select max(id) from customers)")
    if is_dump:
        await core.make_anew("feeds")
    else:
        await after_restore(core.database, RestoreOptions(), core.time, actor="a test")
    assert await paid(books, core) == 2
    assert await built(books, tmp_path) != first


@pytest.mark.usefixtures("few")
async def test_a_file_without_the_chosen_attributes_is_not_used(core: Core, tmp_path: Path) -> None:
    for number in range(3):
        await core.act("purchase", f"user{number}", product="pro_monthly")
    await set_attributes(core.changes, core.project_id, "user1", {"plan": Attribute("gold", core.time)}, create=False)
    books = FactCache(core.database, tmp_path)
    assert await paid(books, core) == 3
    await choose_attributes(core.database, core.project_id, ["plan"])
    found = await read_values(books, core.project_id, "SANDBOX", ["attribute:plan"], core.time)
    assert found == {"attribute:plan": ["gold"]}


@pytest.mark.usefixtures("few")
async def test_attributes_whose_names_differ_only_in_case_and_any_of_their_values_are_told_apart(
    core: Core, tmp_path: Path
) -> None:
    values = {"plan": ("gold", "GOLD", "a\x1fPLAN=b", "x\r\n\x1fPLAN=y"), "Plan": ("it's", "", "a\x1fb", "x")}
    for number in range(4):
        await core.act("purchase", user := f"user{number}", product="pro_monthly")
        changes = {name: Attribute(of[number], core.time) for name, of in values.items()}
        await set_attributes(core.changes, core.project_id, user, changes, create=False)
    await choose_attributes(core.database, core.project_id, list(values))
    # The rows of who is erased are written in another place.
    await erase(core.changes, core.project_id, "user2")
    books = FactCache(core.database, tmp_path)
    found = await read_values(books, core.project_id, "SANDBOX", ("attribute:plan", "attribute:Plan"), core.time)
    assert sorted(found["attribute:plan"]) == ["GOLD", "a PLAN=b", "gold", "x\r\n PLAN=y"]
    assert sorted(found["attribute:Plan"]) == ["a b", "it's", "x"]
    await built(books, tmp_path)


async def test_attributes_are_chosen(core: Core) -> None:
    where = {"LATCHKEY_DATABASE_URL": core.database.url}
    chosen = await asyncio.to_thread(typed, "charts", "attributes", "--project", core.project_id, "plan", **where)
    assert "broken down by: plan" in chosen.stdout, chosen.stderr
