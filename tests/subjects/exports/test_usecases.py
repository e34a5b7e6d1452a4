"""Whole exports and increments: complete, of one moment, and never half."""

import asyncio
import random
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import json

from latchkey.domain.access.entitlements import Grant, Remapping
from latchkey.domain.customers.customer import Attribute
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.subjects.catalog.usecases.entitlement_catalog import load_grid, save_mapping
from latchkey.subjects.customers.usecases.edits import erase, grant, set_attributes
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from latchkey.subjects.database_restore.usecases import RestoreOptions, after_restore
from latchkey.subjects.exports import storage as reading
from latchkey.subjects.exports.usecases import destinations as destination
from latchkey.subjects.exports.usecases import writer as engine
from latchkey.subjects.exports.usecases.destinations import DestinationRefused, FolderDestination
from latchkey.subjects.exports.usecases.writer import ExportCursor, ExportOrder, PartLimits, parse, run
from latchkey.subjects.exports.wire import SCHEMA_VERSION, EventRow, columns
from tests.engine.fixtures import Core
from tests.subjects.exports.loading import Loaded, export, files_in, manifest_of, rows_of

USERS = ("ann", "bob", "cleo", "dan")


async def test_a_whole_export_has_every_row_and_a_manifest_that_names_its_files(core: Core, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    await core.act("purchase", user="bob", product="coins_100")
    await core.wait(40 * DAY)
    folder = await export(core, tmp_path)
    manifest = manifest_of(folder)
    assert (manifest.kind, manifest.since, manifest.unreadable) == ("whole", None, 0)
    assert manifest.schema_version == SCHEMA_VERSION
    assert {one.what: one.rows for one in manifest.files} == {
        "customers": 2,
        "entitlements": 1,
        "events": len(await core.events(None)),
        "transactions": 3,
    }
    for one in manifest.files:
        content = (folder / one.name).read_bytes()
        assert (one.bytes, one.sha256) == (len(content), sha256(content).hexdigest())
    bodies = [one["body"] for one in rows_of(folder, "events")]
    assert [one["id"] for one in bodies] == [one.id for one in await core.events(None)]
    assert not [path for path in files_in(tmp_path) if path.parent.name.startswith(".")]


async def test_a_refund_has_the_amount_that_was_given_back_as_its_column_says(core: Core, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="coins_100")
    await core.act("refund", user="ann", product="coins_100")
    found = {one["type"]: one for one in rows_of(await export(core, tmp_path, what=("events",)), "events")}
    paid, back = found["NON_RENEWING_PURCHASE"], found["REFUND"]
    assert (back["price_usd"], back["price"]) == (paid["price_usd"], paid["price"])
    assert float(back["price_usd"]) > 0
    (column,) = (one for one in columns(EventRow) if one.name == "price_usd")
    assert "Of a REFUND: what was given back, not negative" in column.doc


async def test_a_project_that_does_not_exist_is_refused(core: Core, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await run(
            core.database, ExportOrder("proj_none", ("events",), "csv"), FolderDestination(tmp_path), lambda: core.time
        )
    assert files_in(tmp_path) == []


async def test_a_change_that_commits_after_an_export_is_in_the_next_one_however_early_it_began(
    core: Core, tmp_path: Path
) -> None:
    """A cursor made of a time, or of the newest transaction id, would lose it."""
    await core.act("purchase", user="ann", product="pro_monthly")
    await core.act("purchase", user="bob", product="pro_monthly")
    async with core.database.acquire() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute("update customers set last_seen_country = 'AT' where app_user_id = 'ann'")
        # Others begin and commit meanwhile, with later transaction ids.
        await set_attributes(core.changes, core.project_id, "bob", {"a": Attribute("1", core.time)}, create=False)
        first = await export(core, tmp_path)
        await transaction.commit()
    second = await export(core, tmp_path, since=manifest_of(first).cursor)
    assert "AT" not in {one["last_seen_country"] for one in rows_of(first, "customers")}
    assert ("ann", "AT") in {(one["app_user_id"], one["last_seen_country"]) for one in rows_of(second, "customers")}


@pytest.mark.one_server("every export is a whole one there")
@pytest.mark.parametrize("seed", range(4))
async def test_increments_add_up_to_the_whole_export(
    core: Core, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small batches, so that these few customers and events need several.
    monkeypatch.setattr(engine, "AT_ONCE", 2)
    monkeypatch.setattr(engine, "STRETCH", 3)
    monkeypatch.setattr(engine, "EVENTS_AT_ONCE", 3)
    chance = random.Random(seed)
    loaded = Loaded()
    last = await export(core, tmp_path)
    loaded.take(last)
    for _ in range(6):
        changing = [asyncio.create_task(change(core, chance)) for _ in range(4)]
        # Some of the changes commit before it, some while it runs, some after it.
        last = await export(core, tmp_path, since=manifest_of(last).cursor)
        assert manifest_of(last).kind == "increment"
        await asyncio.gather(*changing)
        loaded.take(last)
    last = await export(core, tmp_path, since=manifest_of(last).cursor)
    loaded.take(last)
    whole = Loaded()
    whole.take(await export(core, tmp_path))
    assert loaded.sorted() == whole.sorted()
    assert len(whole.events) > 5


async def change(core: Core, chance: random.Random) -> None:
    """Something happens to somebody; it is no matter if it is refused."""
    user, other = chance.sample(USERS, 2)
    what = chance.randrange(12)
    try:
        match what:
            case 0 | 1 | 2:
                product = chance.choice(["pro_monthly", "team_monthly", "coins_100", "pro_lifetime"])
                await core.act("purchase", user=user, product=product)
            case 3:
                await core.act("cancel", user=user, product="pro_monthly")
            case 4:
                await core.act("refund", user=user, product=chance.choice(["pro_monthly", "coins_100"]))
            case 5:
                await set_attributes(
                    core.changes, core.project_id, user, {"a": Attribute(str(what), core.time)}, create=True
                )
            case 6:
                await erase(core.changes, core.project_id, user)
            case 7:
                await log_in(core.changes, core.project_id, f"$RCAnonymousID:{chance.randrange(9):032}", user)
            case 8:
                await transfer(core.changes, core.project_id, user, other)
            case 9:
                await grant(core.changes, core.project_id, user, "team", create=True)
            case 10:
                await remap(core, chance)
            case 11:
                await core.wait(chance.choice([DAY, 20 * DAY]))
    except Refusal:
        pass


async def remap(core: Core, chance: random.Random) -> None:
    grid = await load_grid(core.database, core.project_id)
    moved = frozenset({Grant("coins_100", "team")})
    remapping = Remapping(attached=moved) if chance.random() < 0.5 else Remapping(detached=moved)
    await save_mapping(core.database, core.project_id, remapping, grid.version, core.time)


@pytest.mark.one_server("every export is a whole one there")
async def test_an_erased_customer_is_reported_and_its_events_come_again_without_its_id(
    core: Core, tmp_path: Path
) -> None:
    await core.act("purchase", user="ann.with-a-long-name@example.com", product="pro_monthly")
    first = await export(core, tmp_path)
    [key] = {one["customer_key"] for one in rows_of(first, "customers")}
    await erase(core.changes, core.project_id, "ann.with-a-long-name@example.com")
    second = await export(core, tmp_path, since=manifest_of(first).cursor)
    assert rows_of(second, "changed_customers") == [{"customer_key": key, "deleted": True}]
    assert rows_of(second, "customers") == []
    [event] = rows_of(second, "events")
    assert event["app_user_id"].startswith(f"{ERASED}:")
    everything = b"".join(path.read_bytes() for path in second.iterdir())
    assert b"ann.with-a-long-name" not in everything


async def test_an_export_is_of_one_moment_also_while_purchases_move(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purchase that moves from a customer read late to one read early would be in neither."""
    await core.act("purchase", user="ann", product="coins_100")
    await core.act("purchase", user="bob", product="pro_lifetime")
    monkeypatch.setattr(engine, "AT_ONCE", 1)
    moved = False
    read = reading.customers

    async def meanwhile(*given: object) -> object:
        nonlocal moved
        batch = await read(*given)  # type: ignore[arg-type]  # as they came
        if not moved:
            moved = True
            await transfer(core.changes, core.project_id, "bob", "ann")
        return batch

    monkeypatch.setattr(reading, "customers", meanwhile)
    folder = await export(core, tmp_path)
    assert moved
    owners = {one["product_id"]: one["app_user_id"] for one in rows_of(folder, "transactions")}
    assert owners == {"coins_100": "ann", "pro_lifetime": "bob"}


@pytest.mark.parametrize(
    "changed",
    [{"epoch": "another-database"}, {"xid": 2**40}, {"position": 10**9}, {"project_id": "proj_other"}],
    ids=lambda one: next(iter(one)),
)
async def test_a_cursor_that_is_not_of_this_database_and_project_gives_a_whole_export(
    core: Core, tmp_path: Path, changed: dict[str, object]
) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    good = parse(manifest_of(await export(core, tmp_path)).cursor)
    bad = ExportCursor(**{**{name: getattr(good, name) for name in good.__struct_fields__}, **changed})
    folder = await export(core, tmp_path, since=bad.text())
    assert manifest_of(folder).kind == "whole"
    assert len(rows_of(folder, "customers")) == 1


@pytest.mark.parametrize("is_dump", [True, False])
async def test_after_an_older_state_was_put_back_an_export_is_whole(core: Core, tmp_path: Path, is_dump: bool) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    cursor = manifest_of(await export(core, tmp_path)).cursor
    if is_dump:
        await core.make_anew("server_identity")
    else:
        await after_restore(core.database, RestoreOptions(), core.time, actor="a test")
    assert manifest_of(await export(core, tmp_path, since=cursor)).kind == "whole"


@pytest.mark.parametrize("text", ["", "2026-01-01", "lk1.", "lk1.e30", "lk1.\x00\xff", "lk1." + "A" * 10_001])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse(text)


async def test_large_exports_are_split_into_parts(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        await core.act("purchase", user=f"user{number}", product="pro_monthly")
    engine_batches = PartLimits(rows=2)
    folder = await export(core, tmp_path, what=("events",), limits=engine_batches)
    # A batch is never split, so the first part has all five. There is no second part without rows.
    assert [(one.name, one.rows) for one in manifest_of(folder).files] == [("events-00001.jsonl", 5)]
    monkeypatch.setattr(engine, "EVENTS_AT_ONCE", 2)
    folder = await export(core, tmp_path, what=("events",), limits=engine_batches)
    assert [(one.name, one.rows) for one in manifest_of(folder).files] == [
        ("events-00001.jsonl", 2),
        ("events-00002.jsonl", 2),
        ("events-00003.jsonl", 1),
    ]
    assert len(rows_of(folder, "events")) == 5


async def test_a_failed_export_leaves_nothing_behind(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(destination, "_sync", full)
        with pytest.raises(DestinationRefused, match="no room left"):
            await export(core, tmp_path)
    assert files_in(tmp_path) == []
    assert manifest_of(await export(core, tmp_path)).kind == "whole"


async def test_what_a_killed_export_left_is_removed_by_the_next_and_a_running_one_is_kept(
    core: Core, tmp_path: Path
) -> None:
    killed = tmp_path / core.project_id / ".partial-killed"
    killed.mkdir(parents=True)
    (killed / "events-00001.jsonl").write_text("half a row")
    async with FolderDestination(tmp_path).upload(f"{core.project_id}/running") as running:
        (running.workspace / "events-00001.jsonl").write_text("a row")
        await export(core, tmp_path)
        assert not killed.exists()
        assert (running.workspace / "events-00001.jsonl").exists()


async def test_a_customer_whose_state_cannot_be_read_is_counted_and_the_others_are_exported(
    core: Core, tmp_path: Path
) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    await core.act("purchase", user="bob", product="pro_monthly")
    async with core.database.acquire() as connection:
        await connection.execute("""update customers set state = '{"v":99}' where app_user_id = 'ann'""")
    folder = await export(core, tmp_path)
    assert manifest_of(folder).unreadable == 1
    assert [one["app_user_id"] for one in rows_of(folder, "customers")] == ["bob"]


async def test_an_event_that_cannot_be_read_is_counted_and_the_others_are_exported(core: Core, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    await core.act("purchase", user="bob", product="pro_monthly")
    async with core.database.acquire() as connection:
        await connection.execute("""update events set body = '{"id":1}' where body->>'app_user_id' = 'ann'""")
    folder = await export(core, tmp_path)
    manifest = manifest_of(folder)
    assert (manifest.unreadable, manifest.unreadable_events) == (0, 1)
    assert engine.missing(manifest) == "Could not be read, and missing in the export: 1 events."
    assert [one["app_user_id"] for one in rows_of(folder, "events")] == ["bob"]
    assert [one["app_user_id"] for one in rows_of(folder, "customers")] == ["ann", "bob"]


async def test_tokens_are_exported_only_when_asked_for(core: Core, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    [row] = rows_of(await export(core, tmp_path), "transactions")
    await core.database.pool.execute(
        "insert into store_handles (project_id, store, handle_hash, handle, app_id, environment, store_id, kind, "
        "product_id, first_seen_at, last_told_at) values "
        "($1, 'test_store', '\\x01', 'the-token', 'app', 'SANDBOX', $2, 'subscription', 'pro_monthly', 1, 1)",
        core.project_id,
        row["subscription_id"],
    )
    [without] = rows_of(await export(core, tmp_path), "transactions")
    [with_token] = rows_of(await export(core, tmp_path, with_tokens=True), "transactions")
    assert (without["purchase_token"], with_token["purchase_token"]) == (None, "the-token")
    assert json.encode(with_token).count(b"the-token") == 1
