"""`latchkey admin after-restore`: makes a restored database fit to work on, also that of a stopped `latchkey up`.
`latchkey backup` and `latchkey restore`: the data folder of `latchkey up` in one file, and back."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from latchkey.cli import output
from latchkey.cli.command import argument, flag, option
from latchkey.cli.data_folder import DataFolder, read_json, write_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.project_command import ACTOR
from latchkey.cli.target_database import DATA, ConfigOption, no_database
from latchkey.database import migrate
from latchkey.database.embedded.postgres import EmbeddedServer, programs
from latchkey.database.errors import EmbeddedServerError
from latchkey.database.migrate import migrate as apply_migrations
from latchkey.database.pool import Database, connect
from latchkey.database_address import without_password
from latchkey.domain.refusal import Conflict, Invalid, NotFound, Refusal
from latchkey.domain.restore import Origin
from latchkey.now import real_now
from latchkey.settings import load
from latchkey.subjects.database_restore.usecases import Report, RestoreOptions
from latchkey.subjects.database_restore.usecases import after_restore as run_it

# Steps that may take long, and the word for what they count, in the order in which they run.
_STEPS = {
    "projects moved on": "projects: the next events get sequences and positions that were never used",
    "deliveries held": "waiting deliveries are held: marked as failed, not sent",
    "replays stopped": "replays stopped",
    "operational events held": "operational events held",
    "histories of stores to read": "stores are asked for their histories of notifications",
    "purchases to read from their stores": "purchases are read again from their stores",
}


def after_restore(
    config: ConfigOption = None,
    data: Path = option("The data folder of a stopped `latchkey up`. Used if no database is configured.", default=DATA),
    send_waiting: bool = flag("Send the deliveries that were queued when the backup was made.", "--send-waiting"),
    nothing_lost: bool = flag(
        "The database was moved, or a standby was promoted, and no commit was lost. Only records the new server.",
        "--nothing-lost",
    ),
    again: bool = flag("Run it again for the same restore.", "--again"),
    purchases_per_minute: int = option(
        "How many purchases to read from the stores in a minute, at most.", default=600, min=1, max=60_000
    ),
    as_json: JsonOption = False,
) -> None:
    """Run this once after restoring the database from a backup, before the service starts.

    Queued deliveries are marked as failed, so that no old webhook is sent twice. New events get sequences that
    were never used. Purchases are read from the stores again. If it is interrupted, run it again."""
    wanted = RestoreOptions(send_waiting, nothing_lost, again, purchases_per_minute)
    with database_at_rest(config, data) as url:
        report = asyncio.run(run(url, wanted, Console(highlight=False, quiet=as_json)))
    if as_json:
        output.write(as_data(report))


async def run(url: str, wanted: RestoreOptions, console: Console) -> Report:
    console.print(f"Database {without_password(url)}", soft_wrap=True)
    async with Database(url, max_size=2, application_name="latchkey admin after-restore") as database:
        async with database.acquire() as connection:
            await migrate.require_current(connection)
        with console.status("Working") as status:
            report = await run_it(
                database,
                wanted,
                real_now(),
                actor=ACTOR,
                told=lambda step, done: status.update(f"{done:,} {_STEPS[step]}"),
            )
    show(report, wanted, console)
    return report


def as_data(report: Report) -> dict[str, Any]:
    counts = {step.replace(" ", "_"): count for step, count in report.counts.items()}
    return {"origin": report.origin, "done_before": report.done_before, "counts": counts}


def show(report: Report, wanted: RestoreOptions, console: Console, start: str = "latchkey serve") -> None:
    if wanted.nothing_lost:
        console.print("[green]✓[/green] Noted: this is the server of the database now. Nothing else was changed.")
        return
    if report.done_before is not None:
        console.print(
            f"[green]✓[/green] Nothing to do: this was done for this restore on {shown(report.done_before)}. "
            "(--again does it once more.)",
            soft_wrap=True,
        )
        return
    if report.origin is Origin.SAME:
        console.print("This server was known already. If nothing was restored, it does no harm that this ran.")
    for step, words in _STEPS.items():
        if step in report.counts:
            console.print(f"[green]✓[/green] {report.counts[step]:,} {words}", soft_wrap=True)
    if wanted.send_waiting:
        console.print("[green]✓[/green] what waits is sent when the service starts", soft_wrap=True)
    console.print(_NEXT.strip("\n").replace("START", start), soft_wrap=True, markup=False)


_NEXT = """
What you have to do now:
  1. Start the service: START
  2. Bring the copy of every consumer that you run up to date. The reference consumer, with its own settings:
     latchkey consumer reconcile --from-start
     Others: read GET /v2/projects/{project_id}/customers/{customer_id} for every user they know.
  3. What was held is listed under each webhook, with the status "failed". To send it after all, send "everything that
     failed since ..." again, in the dashboard or with POST .../replay.
  4. What the stores cannot tell is lost: purchases in Google Play that were new after the moment of the backup (phones
     send them again when the app is opened, or with "restore purchases"), and everything that came through the API:
     grants, attributes, virtual currency, log-ins, purchases of other stores. Send it again if you have it elsewhere.
"""


@contextmanager
def database_of(folder: DataFolder) -> Iterator[str]:
    """The database of the `up` that runs in this folder; without one, of a server that runs meanwhile."""
    server = EmbeddedServer(folder.path)
    try:
        server.claim()
    except EmbeddedServerError:
        running = read_json(folder.connection).get("database_url")
        if not running:
            raise
        yield str(running)
        return
    try:
        server.start()
        yield server.url()
    finally:
        server.stop()


@contextmanager
def database_at_rest(config: Path | None, data: Path) -> Iterator[str]:
    """The configured database, or that of a data folder whose `latchkey up` is stopped."""
    if configured := load(os.environ, config).database_url:
        yield configured
        return
    folder = DataFolder(data)
    if not (folder.path / "postgres" / "PG_VERSION").exists():
        raise no_database(f"{data} is not the data folder of a `latchkey up`.")
    with database_of(folder) as url:
        yield url


DUMP, MANIFEST = "database.dump", "manifest.json"
FORMAT = "latchkey backup 1"
# The database is in the dump. The rest is made anew by every start or chart, or is a log.
LEFT_OUT = {
    "postgres", "postgres.new", "lock", "connection.json", "latchkey.log", "latchkey.log.1", "exports", "charts",
}  # fmt: skip
SQLITE = (".db", ".sqlite", ".sqlite3")


def backup(
    file: Path = argument("The file to write. It must not exist."),
    data: Path = option("The folder of `latchkey up`.", default=DATA),
    as_json: JsonOption = False,
) -> None:
    """Write the data of a `latchkey up` to one file, while it runs or not. The file holds secrets: keep it safe.

    For `latchkey serve`, back up PostgreSQL with its own tools, and LATCHKEY_SECRET_KEY: see docs/backup.md."""
    folder = DataFolder(data)
    if not (folder.path / "postgres" / "PG_VERSION").exists():
        raise NotFound(f"{data} is not the data folder of a `latchkey up`. Name it with --data.")
    if file.exists():
        raise Conflict(f"{file} exists. Choose another name.")
    # Of this run alone: another one may write the same file at the same time.
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        # Nobody else can read it, from its first byte on.
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Refusal(f"{file} cannot be written: {error.strerror}.") from error
    with os.fdopen(opened, "wb") as target:
        try:
            with database_of(folder) as url, tempfile.TemporaryDirectory(prefix="latchkey-backup-") as temporary:
                _write(target, folder.path, url, Path(temporary))
                target.flush()
                os.fsync(target.fileno())
        except BaseException:
            draft.unlink()
            raise
    draft.rename(file)
    if as_json:
        output.write({"file": str(file), "bytes": file.stat().st_size})
        return
    words = f"{file}, {file.stat().st_size / 1024**2:.1f} MiB: the database, the secret key and everything else"
    console = output.console()
    console.print(f"[green]✓[/green] {words}", soft_wrap=True)
    console.print("  It holds secrets: the key that decrypts webhook secrets, and API keys. Keep it safe.")
    console.print(f"  To go back: latchkey restore {file} --data NEW_FOLDER", soft_wrap=True, markup=False)


def restore(
    file: Path = argument("A file that `latchkey backup` wrote."),
    data: Path = option("The folder to create. It must not exist.", default=DATA),
    send_waiting: bool = flag("Send the deliveries that were queued when the backup was made.", "--send-waiting"),
    as_json: JsonOption = False,
) -> None:
    """Create a data folder from a file of `latchkey backup`, and do what `latchkey admin after-restore` does."""
    folder = DataFolder(data)
    if folder.path.exists() and any(folder.path.iterdir()):
        raise Conflict(f"{data} exists. Choose a new folder with --data, or move the old one away first.")
    console = Console(highlight=False, quiet=as_json)
    draft = folder.path.with_name(f"{folder.path.name}.restoring")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        report = _restore(file, draft, RestoreOptions(send_waiting=send_waiting), console)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    if folder.path.exists():
        folder.path.rmdir()
    draft.rename(folder.path)
    if as_json:
        output.write({"folder": str(data), **as_data(report)})
        return
    console.print(f"[green]✓[/green] {data} is as it was.", soft_wrap=True)
    show(report, RestoreOptions(send_waiting=send_waiting), console, start=f"latchkey up --data {data}")


def _write(target: Any, folder: Path, url: str, temporary: Path) -> None:
    dump = temporary / DUMP
    _run("pg_dump", "--format=custom", "--no-owner", "--file", str(dump), url)
    manifest = temporary / MANIFEST
    write_json(manifest, {"format": FORMAT, "made_at": real_now()})
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as archive:
        archive.add(manifest, MANIFEST)
        archive.add(dump, DUMP)
        for path in _kept(folder):
            name = f"folder/{path.relative_to(folder)}"
            if path.suffix in SQLITE:
                # It may be in use: SQLite's own copy is of one moment.
                whole = temporary / "copy.db"
                with contextlib.closing(sqlite3.connect(path)) as one, contextlib.closing(sqlite3.connect(whole)) as to:
                    one.backup(to)
                archive.add(whole, name)
                whole.unlink()
            else:
                archive.add(path, name)


def _kept(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        live = relative.name.endswith(("-wal", "-shm", "-journal")) or ".log" in relative.name
        if relative.parts[0] not in LEFT_OUT and not live and path.is_file() and not path.is_symlink():
            yield path


def _restore(file: Path, draft: Path, wanted: RestoreOptions, console: Console) -> Report:
    draft.mkdir(mode=0o700, parents=True)
    with tempfile.TemporaryDirectory(prefix="latchkey-restore-") as temporary:
        unpacked = Path(temporary)
        _unpack(file, unpacked)
        manifest = read_json(unpacked / MANIFEST)
        if manifest.get("format") != FORMAT or not (unpacked / DUMP).exists():
            raise Invalid(f"{file} is not a file that this version's `latchkey backup` wrote.")
        console.print(f"A backup of {shown(int(manifest['made_at']))}")
        if (unpacked / "folder").exists():
            shutil.copytree(unpacked / "folder", draft, dirs_exist_ok=True)
        for path in draft.rglob("*"):
            # As `up` makes them; some files are protected by their folder alone.
            path.chmod(0o700 if path.is_dir() else 0o600)
        server = EmbeddedServer(draft)
        server.start()
        try:
            _run("pg_restore", "--no-owner", "--exit-on-error", "--dbname", server.url(), str(unpacked / DUMP))
            return asyncio.run(_after(server.url(), wanted))
        finally:
            server.stop()


async def _after(url: str, wanted: RestoreOptions) -> Report:
    connection = await connect(url, application_name="latchkey restore")
    # A backup of an older version is brought up to date.
    await apply_migrations(connection, after=True)
    await connection.close()
    async with Database(url, max_size=2, application_name="latchkey restore") as database:
        return await run_it(database, wanted, real_now(), actor=ACTOR)


def _unpack(file: Path, to: Path) -> None:
    try:
        with tarfile.open(file) as archive:
            # No links, no devices, nothing outside the folder.
            archive.extractall(to, filter="data")
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file}.") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Invalid(f"{file} cannot be read as a backup; it is damaged, or something else.") from error


def _run(program: str, *words: str) -> None:
    done = subprocess.run(  # noqa: S603 - the wheel's own programs
        [programs() / program, *words], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise EmbeddedServerError(f"{program} failed: {done.stderr.strip()[-2000:]}")
