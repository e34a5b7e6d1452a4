"""Exports that run by themselves: when, by whom, and what happens when one fails or is killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from latchkey.database.sealing import Sealer
from latchkey.domain.instants import DAY, HOUR, MINUTE
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.subjects.exports import rules as storage_rules
from latchkey.subjects.exports import storage
from latchkey.subjects.exports.rules import next_time, retry_time
from latchkey.subjects.exports.usecases import schedules as runner
from latchkey.subjects.exports.usecases import writer
from latchkey.subjects.exports.usecases.destinations import Destination, DestinationRefused, Upload
from latchkey.subjects.exports.usecases.schedules import LEASE, MOST, Exports, run_exports, run_next
from tests.engine.fixtures import NOON, Core
from tests.looking_out import looking_out
from tests.patience import until
from tests.subjects.exports.loading import Loaded, manifest_of

GIVEN: dict[str, Any] = {
    "name": "Nightly",
    "what": ["transactions", "events"],
    "destination": "nightly",
    "format": "jsonl",
}
KEYS = {"access_key_id": "AKIAEXAMPLE1234", "secret_access_key": "a/very+secret/key"}
IN_A_BUCKET = {**GIVEN, "destination": "s3://exports/x", **KEYS}


@pytest.fixture
def exports(core: Core, tmp_path: Path) -> Exports:
    return Exports(core.database, Sealer(bytes(32)), tmp_path, {"127.0.0.1", "minio.example.com:9000"})


def folders(root: Path) -> list[Path]:
    return sorted((root / "nightly" / "proj_shop").iterdir())


async def ended(core: Core, exports: Exports) -> list[storage_rules.ExportRun]:
    """Runs what is due, and returns the runs of the project's first export, oldest first."""
    while await run_next(exports, lambda: core.time):
        pass
    [export, *_] = await runner.list_exports(core.database, core.project_id, None, 10)
    return (await exports.runs(core.project_id, export.id, None, 100))[::-1]


async def announced(core: Core) -> list[tuple[str, Any]]:
    rows = await core.database.pool.fetch("select type, body from operational_events order by at, type")
    return [(row["type"], json.decode(row["body"])["error"]) for row in rows]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        ("hour", "2026-01-09T13:00"),
        ("day", "2026-01-10T00:00"),
        ("week", "2026-01-12T00:00"),
        ("never", None),
    ],
)
def test_regular_times(every: Any, expected: str | None) -> None:
    from tests.domain.shop import at

    assert next_time(every, NOON) == (None if expected is None else at(expected))
    if expected is not None:
        assert next_time(every, at(expected)) == at(expected) + {"hour": HOUR, "day": DAY, "week": 7 * DAY}[every]


def test_retries_come_soon_then_less_often_and_never_later_than_the_regular_time() -> None:
    waits = [retry_time("week", failures, NOON) for failures in (1, 2, 3, 50)]
    assert [None if one is None else one - NOON for one in waits] == [5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 6 * HOUR]
    assert retry_time("hour", 50, NOON) == NOON + HOUR
    assert retry_time("never", 4, NOON) == NOON + 40 * MINUTE
    assert retry_time("never", 5, NOON) is None


@pytest.mark.one_server("every export is a whole one there")
async def test_it_runs_at_its_time_and_increments_add_up(core: Core, exports: Exports, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="coins_100")
    made = await exports.create(core.project_id, GIVEN, core.time)
    assert await ended(core, exports) == []
    core.time = made.next_at or 0
    [first] = await ended(core, exports)
    assert (first.state, first.kind, first.error) == ("done", "whole", None)
    assert (await runner.load_export(core.database, core.project_id, made.id)).next_at == core.time + DAY
    await core.act("purchase", user="bob", product="coins_100")
    core.time += DAY
    _, second = await ended(core, exports)
    assert (second.state, second.kind) == ("done", "increment")
    loaded = Loaded()
    for folder in folders(tmp_path):
        loaded.take(folder)
    assert {row["app_user_id"] for row in loaded.of_customers["transactions"]} == {"ann", "bob"}
    assert [run.folder for run in (first, second)] == [f"proj_shop/{one.name}" for one in folders(tmp_path)]


@pytest.mark.one_server("every export is a whole one there")
async def test_run_now_also_when_it_never_runs_by_itself_and_from_the_beginning(core: Core, exports: Exports) -> None:
    made = await exports.create(core.project_id, {**GIVEN, "every": "never"}, core.time)
    assert made.next_at is None
    await exports.run_now(core.project_id, made.id, core.time)
    await ended(core, exports)
    await exports.run_now(core.project_id, made.id, core.time)
    await ended(core, exports)
    await exports.run_now(core.project_id, made.id, core.time, whole=True)
    assert [run.kind for run in await ended(core, exports)] == ["whole", "increment", "whole"]
    assert (await runner.load_export(core.database, core.project_id, made.id)).next_at is None


@pytest.mark.one_server("every export is a whole one there")
@pytest.mark.parametrize(("whole", "next_kind"), [(False, "increment"), (True, "whole")])
async def test_run_now_during_a_run_comes_after_it(
    core: Core, exports: Exports, monkeypatch: pytest.MonkeyPatch, whole: bool, next_kind: str
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await writer.run(*given)

    made = await exports.create(core.project_id, {**GIVEN, "every": "never"}, core.time)
    await exports.run_now(core.project_id, made.id, core.time)
    await ended(core, exports)
    await exports.run_now(core.project_id, made.id, core.time)
    monkeypatch.setattr(runner, "run", slow)
    running = asyncio.create_task(run_next(exports, lambda: core.time))
    await begun.wait()
    core.time += MINUTE
    await exports.run_now(core.project_id, made.id, core.time, whole=whole)
    goes_on.set()
    assert await running
    assert [run.kind for run in await ended(core, exports)] == ["whole", "increment", next_kind]


async def test_a_failed_run_is_told_tried_again_and_told_when_it_works(
    core: Core, exports: Exports, tmp_path: Path
) -> None:
    (tmp_path / "nightly").write_text("not a folder")
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0
    [failed] = await ended(core, exports)
    assert failed.state == "failed"
    assert "is not a folder" in (failed.error or "")
    core.time += 5 * MINUTE
    assert [run.state for run in await ended(core, exports)] == ["failed", "failed"]
    assert (await runner.load_export(core.database, core.project_id, made.id)).failures == 2
    (tmp_path / "nightly").unlink()
    core.time += 10 * MINUTE
    assert [run.state for run in await ended(core, exports)] == ["failed", "failed", "done"]
    assert (await runner.load_export(core.database, core.project_id, made.id)).failures == 0
    assert await announced(core) == [("export.failed", failed.error), ("export.recovered", None)]


async def test_an_error_inside_shows_no_detail(core: Core, exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(runner, "run", broken)
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0
    [failed] = await ended(core, exports)
    assert failed.error == "It failed inside Latchkey (RuntimeError); see the log."


async def test_two_processes_run_it_once(core: Core, exports: Exports, tmp_path: Path) -> None:
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0
    ran = await asyncio.gather(*(run_next(exports, lambda: core.time) for _ in range(4)))
    assert sorted(ran) == [False, False, False, True]
    assert len(folders(tmp_path)) == 1


class Held(Destination):
    """A destination that does not answer until it is told to."""

    shown = "held"

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def upload(self, folder: str) -> AsyncIterator[Upload]:
        self.reached.set()
        await self.go.wait()
        raise DestinationRefused(f"{folder} was held.")
        yield

    def manifests(self, parent: str) -> AsyncIterator[bytes]:
        raise NotImplementedError(parent)


async def test_after_a_kill_another_process_begins_again_when_the_lease_has_run_out(
    core: Core, exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await core.act("purchase", user="ann", product="coins_100")
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0
    held = Held()
    with monkeypatch.context() as patched:
        patched.setattr(Exports, "destination", lambda *_: held)
        killed = asyncio.create_task(run_next(exports, lambda: core.time))
        await held.reached.wait()
        # As a kill does: it records nothing any more.
        killed.cancel()
        await asyncio.wait({killed})
    assert not await run_next(exports, lambda: core.time)
    [run] = await exports.runs(core.project_id, made.id, None, 10)
    assert run.state == "running"
    core.time += LEASE
    interrupted, done = await ended(core, exports)
    assert (interrupted.state, interrupted.error) == ("failed", storage.INTERRUPTED)
    assert (done.state, done.kind) == ("done", "whole")
    [folder] = folders(tmp_path)
    assert manifest_of(folder).kind == "whole"


async def test_a_process_that_lost_its_lease_records_nothing(
    core: Core, exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asleep, say, and another process has the export, or somebody has changed it meanwhile."""
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0
    held = Held()
    with monkeypatch.context() as patched:
        patched.setattr(Exports, "destination", lambda *_: held)
        slow = asyncio.create_task(run_next(exports, lambda: core.time))
        await held.reached.wait()
        await exports.update(core.project_id, made.id, {"name": "Other"}, core.time)
        held.go.set()
        await slow
    assert (await runner.load_export(core.database, core.project_id, made.id)).failures == 0
    assert await announced(core) == []


async def test_a_lost_lease_ends_the_run(core: Core, exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0
    held = Held()
    monkeypatch.setattr(runner, "_RENEWED_EVERY", 0.01)
    monkeypatch.setattr(Exports, "destination", lambda *_: held)
    slow = asyncio.create_task(run_next(exports, lambda: core.time))
    await held.reached.wait()
    await exports.update(core.project_id, made.id, {"name": "Other"}, core.time)
    assert await slow


async def test_the_role_runs_until_it_is_stopped(core: Core, exports: Exports, tmp_path: Path) -> None:
    made = await exports.create(core.project_id, GIVEN, core.time)
    core.time = made.next_at or 0

    async def done() -> bool:
        return [run.state for run in await exports.runs(core.project_id, made.id, None, 10)] == ["done"]

    async with looking_out(core.database, lambda: core.time) as lookout:
        role = asyncio.create_task(run_exports(lookout, exports, lambda: core.time, asyncio.Event()))
        await until(done)
    await role
    assert len(folders(tmp_path)) == 1


async def test_a_change_of_what_or_where_begins_again(core: Core, exports: Exports) -> None:
    made = await exports.create(core.project_id, GIVEN, core.time)
    for change in ({"name": "Other"}, {"what": ["events"]}, {"destination": "elsewhere"}, {"format": "csv"}):
        await exports.run_now(core.project_id, made.id, core.time)
        while await run_next(exports, lambda: core.time):
            pass
        assert (await runner.load_export(core.database, core.project_id, made.id)).cursor is not None
        changed = await exports.update(core.project_id, made.id, change, core.time)
        assert (changed.cursor is not None) == (next(iter(change)) in ("name", "what"))


async def test_keys_are_encrypted_and_never_sent_to_another_place(core: Core, exports: Exports) -> None:
    made = await exports.create(core.project_id, IN_A_BUCKET, core.time)
    row = await core.database.pool.fetchrow("select * from exports")
    assert row is not None
    assert KEYS["secret_access_key"] not in repr(dict(row))
    assert KEYS["access_key_id"] not in repr(dict(row))
    assert made.access_key == "…1234"
    assert "secret" not in repr(exports.destination(made).__dict__)
    with pytest.raises(Refusal) as refused:
        await exports.update(core.project_id, made.id, {"endpoint": "https://127.0.0.1:9443"}, core.time)
    assert refused.value.param == "access_key_id"
    with pytest.raises(Refusal):
        await exports.update(core.project_id, made.id, {"destination": "s3://another"}, core.time)
    # The same place keeps its key.
    kept = await exports.update(core.project_id, made.id, {"name": "Other"}, core.time)
    assert kept.credentials == made.credentials
    other = Exports(core.database, Sealer(b"x" * 32), None, ())
    with pytest.raises(DestinationRefused, match="LATCHKEY_SECRET_KEY"):
        other.destination(made)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"what": []}, "what"),
        ({"what": ["changed_customers"]}, "what"),
        ({"destination": "/etc"}, "destination"),
        ({"destination": "."}, "destination"),
        ({"destination": ".hidden"}, "destination"),
        ({"destination": "a/" + "." * 2 + "/b"}, "destination"),
        ({"destination": "a\\b"}, "destination"),
        ({"destination": "gs://bucket"}, "destination"),
        ({"destination": "s3://"}, "destination"),
        ({"destination": "s3://exports"}, "access_key_id"),
        ({"destination": "s3://exports", "access_key_id": "a"}, "secret_access_key"),
        ({**IN_A_BUCKET, "endpoint": "http://169.254.169.254"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "https://localhost:5432"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "http://s3.eu-central-1.amazonaws.com"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "https://s3.amazonaws.com.evil.example"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "https://evil.example/.amazonaws.com"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "https://s3.amazonaws.com:22"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "http://minio.example.com:22"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "https://127.0.0.1\\.amazonaws.com"}, "endpoint"),
        ({**IN_A_BUCKET, "endpoint": "https://s3.amazonaws.com/my path"}, "endpoint"),
        ({**IN_A_BUCKET, "region": "eu.evil.example/"}, "region"),
    ],
)
async def test_what_is_not_allowed(core: Core, exports: Exports, change: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as refused:
        await exports.create(core.project_id, {**GIVEN, **change}, core.time)
    assert refused.value.param == param
    assert await runner.list_exports(core.database, core.project_id, None, 10) == []


@pytest.mark.parametrize(
    "endpoint",
    ["https://x.r2.cloudflarestorage.com", "https://storage.googleapis.com", "http://minio.example.com:9000"],
)
async def test_endpoints_that_are_allowed(core: Core, exports: Exports, endpoint: str) -> None:
    made = await exports.create(core.project_id, {**IN_A_BUCKET, "endpoint": endpoint}, core.time)
    assert exports.destination(made).shown == f"s3://exports/x at {endpoint}"


async def test_without_the_operators_folder_there_are_none(core: Core, exports: Exports) -> None:
    made = await exports.create(core.project_id, GIVEN, core.time)
    closed = Exports(core.database, exports.sealer, None, ())
    with pytest.raises(Refusal, match="export_folder"):
        await closed.create(core.project_id, GIVEN, core.time)
    with pytest.raises(Refusal, match="export_folder"):
        closed.destination(made)


async def test_a_project_has_so_many_and_others_cannot_touch_them(core: Core, exports: Exports) -> None:
    made = [await exports.create(core.project_id, GIVEN, core.time + number) for number in range(MOST)]
    with pytest.raises(Refusal, match="at most"):
        await exports.create(core.project_id, GIVEN, core.time)
    second = await runner.list_exports(core.database, core.project_id, made[0].id, 1)
    assert [one.id for one in second] == [made[1].id]
    with pytest.raises(NotFound):
        await runner.load_export(core.database, "proj_other", made[0].id)
    await exports.delete(core.project_id, made[0].id)
    with pytest.raises(NotFound):
        await exports.run_now(core.project_id, made[0].id, core.time)


async def test_only_the_last_runs_are_kept(core: Core, exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "RUNS_KEPT", 3)
    made = await exports.create(core.project_id, GIVEN, core.time)
    runs: list[storage_rules.ExportRun] = []
    for _ in range(5):
        await exports.run_now(core.project_id, made.id, core.time)
        runs = await ended(core, exports)
    assert [run.state for run in runs] == ["done"] * 3
