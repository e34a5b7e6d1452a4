"""`latchkey backup` and `latchkey restore`: the data folder of `latchkey up` in one file, and back.

The file is a tar archive with a dump of the database, made by PostgreSQL's own `pg_dump`, and with everything else that
the folder needs: above all the secret key, without which the webhook secrets in the database are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.after_restore import as_data, database_of, show
from latchkey.cli.data_folder import DataFolder
from latchkey.cli.desk import ACTOR
from latchkey.cli.files import read_json, write_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.reach import DATA
from latchkey.domain.refusal import Conflict, Invalid, NotFound, Refusal
from latchkey.now import real_now
from latchkey.storage.database import Database, connect
from latchkey.storage.embedded.server import EmbeddedServer, programs
from latchkey.storage.errors import EmbeddedServerError
from latchkey.storage.migrate import migrate
from latchkey.usecases.restoring.after_restore import Report, Wanted, after_restore

DUMP, MANIFEST = "database.dump", "manifest.json"
FORMAT = "latchkey backup 1"
# The database is in the dump. The rest is made anew by every start, or is a log.
LEFT_OUT = {"postgres", "postgres.new", "lock", "connection.json", "latchkey.log", "latchkey.log.1", "exports"}
SQLITE = (".db", ".sqlite", ".sqlite3")


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write. It must not exist.")],
    data: Annotated[Path, typer.Option(help="The folder of `latchkey up`.")] = DATA,
    as_json: JsonOption = False,
) -> None:
    """Write the data of a `latchkey up` to one file, while it runs or not. The file holds secrets: keep it safe.

    For `latchkey serve`, back up PostgreSQL with its own tools, and LATCHKEY_SECRET_KEY: see docs/backup.md."""
    folder = DataFolder(data)
    if not (folder.path / "postgres" / "PG_VERSION").exists():
        raise NotFound(f"{data} is not the data folder of a `latchkey up`. Name it with --data.")
    if file.exists():
        raise Conflict(f"{file} exists. Choose another name.")
    draft = file.with_name(f"{file.name}.part")
    try:
        # Nobody else can read it, from its first byte on.
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
    console = Console(highlight=False)
    console.print(f"[green]✓[/green] {words}", soft_wrap=True)
    console.print("  It holds secrets: the key that decrypts webhook secrets, and API keys. Keep it safe.")
    console.print(f"  To go back: latchkey restore {file} --data NEW_FOLDER", soft_wrap=True, markup=False)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `latchkey backup` wrote.")],
    data: Annotated[Path, typer.Option(help="The folder to create. It must not exist.")] = DATA,
    send_waiting: Annotated[
        bool, typer.Option("--send-waiting", help="Send the deliveries that were queued when the backup was made.")
    ] = False,
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
        report = _restore(file, draft, Wanted(send_waiting=send_waiting), console)
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
    show(report, Wanted(send_waiting=send_waiting), console, start=f"latchkey up --data {data}")


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


def _restore(file: Path, draft: Path, wanted: Wanted, console: Console) -> Report:
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


async def _after(url: str, wanted: Wanted) -> Report:
    connection = await connect(url, application_name="latchkey restore")
    # A backup of an older version is brought up to date.
    await migrate(connection, after=True)
    await connection.close()
    async with Database(url, max_size=2, application_name="latchkey restore") as database:
        return await after_restore(database, wanted, real_now(), actor=ACTOR)


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
