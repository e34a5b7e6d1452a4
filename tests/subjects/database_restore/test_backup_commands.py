"""`latchkey backup` under load and `latchkey restore` elsewhere: the same answers, and webhooks that still verify."""

import asyncio
import stat
import tarfile
from pathlib import Path

import pytest
from msgspec import json
from standardwebhooks.webhooks import Webhook as Verifier

from latchkey.database.pool import Database
from tests.cli.running import typed
from tests.subjects.charts.stored_rows import facts
from tests.subjects.database_restore.world import PROJECT, World, server
from tests.subjects.webhooks.delivery.processes import SECRET_KEY

pytestmark = pytest.mark.processes

QUIET = [f"quiet{number}" for number in range(6)]
BUSY = [f"busy{number}" for number in range(4)]


async def test_a_backup_under_load_is_restored_elsewhere_with_the_same_answers(short_folder: Path) -> None:
    folder = short_folder / "backup"
    folder.mkdir()
    first = server(folder / "first")
    await asyncio.to_thread(first.start)
    (folder / "first" / "secret.key").write_bytes(SECRET_KEY)
    (folder / "first" / "consumer").mkdir(mode=0o700)
    (folder / "first" / "consumer" / "notes.txt").write_text("only its folder keeps it from others")
    # A cache, whose files come and go meanwhile.
    (folder / "first" / "charts").mkdir()
    (folder / "first" / "charts" / "project.duckdb").touch()
    # Of a run that goes on at the same time.
    other = folder / "latchkey.backup.part"
    other.write_text("half of it")
    (folder / "first" / "connection.json").write_bytes(json.encode({"database_url": first.url()}))
    file = folder / "latchkey.backup"
    try:
        async with World(folder, first.url()) as world:
            await world.start("api", "delivery", "consumer")
            await world.shop(QUIET, 3)
            await world.drained()
            shopping = asyncio.create_task(world.shop(BUSY, 6))
            made = await asyncio.to_thread(typed, "backup", file, "--data", folder / "first")
            assert made.returncode == 0, made.stderr
            await shopping
            await world.drained()
            said, feed, charts = await world.answers(QUIET), await world.events(), await _charts(world.url)
            await world.stop("api", "delivery")
            await asyncio.to_thread(first.stop)

            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            with tarfile.open(file) as archive:
                assert {"database.dump", "folder/secret.key"} <= set(archive.getnames())
                assert not any("charts" in name for name in archive.getnames())
            assert sorted(path.name for path in folder.glob("*latchkey.backup*")) == [file.name, other.name]
            again = await asyncio.to_thread(typed, "backup", file, "--data", folder / "first")
            assert (again.returncode, "exists" in again.stderr) == (1, True)

            restored = await asyncio.to_thread(typed, "restore", file, "--data", folder / "second")
            assert restored.returncode == 0, restored.stderr
            assert (folder / "second" / "secret.key").read_bytes() == SECRET_KEY
            for path in (folder / "second" / "consumer", folder / "second" / "consumer" / "notes.txt"):
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
            assert f"Start the service: latchkey up --data {folder / 'second'}" in restored.stdout
            over = await asyncio.to_thread(typed, "restore", file, "--data", folder / "second")
            assert (over.returncode, "exists" in over.stderr) == (1, True)

            # The command starts the folder's database by itself, and stops it.
            done = await asyncio.to_thread(typed, "admin", "after-restore", "--data", folder / "second")
            assert (done.returncode, "Nothing to do: this was done" in done.stdout) == (0, True), done.stderr
            second = server(folder / "second")
            await asyncio.to_thread(second.start)
            try:
                world.url = second.url()
                await world.start("api", "delivery")
                now = await world.events()
                assert now == feed[: len(now)]
                assert len(now) >= len(QUIET)
                then = await world.answers(QUIET)
                del said["feed"], then["feed"]
                assert then == said
                if len(now) == len(feed):
                    assert await _charts(world.url) == charts
                sent = len(world.arrivals)
                assert await world.act("purchase", "new", product_id="pro_monthly")
                await world.drained()
                [arrival] = world.arrivals[sent:]
                Verifier(world.webhook.secret).verify(arrival.body, arrival.headers)
            finally:
                await world.stop("api", "delivery", "consumer")
                await asyncio.to_thread(second.stop)
    finally:
        await asyncio.to_thread(first.stop)


def test_what_is_no_backup_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "not-a-backup"
    file.write_text("hello")
    refused = typed("restore", file, "--data", tmp_path / "new")
    assert (refused.returncode, "cannot be read as a backup" in refused.stderr) == (1, True)
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(file, "hello")
    refused = typed("restore", tmp_path / "other.tar", "--data", tmp_path / "new")
    assert (refused.returncode, "is not a file" in refused.stderr) == (1, True)
    assert not (tmp_path / "new").exists()
    missing = typed("backup", tmp_path / "file", "--data", tmp_path / "nothing")
    assert (missing.returncode, "not the data folder" in missing.stderr) == (1, True)
    (tmp_path / "data" / "postgres").mkdir(parents=True)
    (tmp_path / "data" / "postgres" / "PG_VERSION").write_text("18")
    nowhere = typed("backup", tmp_path / "missing" / "file", "--data", tmp_path / "data")
    assert (nowhere.returncode, "cannot be written: No such file or directory" in nowhere.stderr) == (1, True)


async def _charts(url: str) -> object:
    async with Database(url, max_size=2) as database:
        return await facts(database, PROJECT)
