"""The database of a command that works while the service is stopped: also that of a stopped `latchkey up`, whose server
runs as long as the command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from latchkey.cli.data_folder import DataFolder
from latchkey.cli.files import read_json
from latchkey.settings import Problem, SettingsRefusedError, load
from latchkey.storage.embedded.server import EmbeddedServer
from latchkey.storage.errors import EmbeddedServerError


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
        raise SettingsRefusedError(
            [
                Problem(
                    "LATCHKEY_DATABASE_URL",
                    f"is missing, and {data} is not the data folder of a `latchkey up`.",
                    "Set it, or name the folder with --data.",
                )
            ]
        )
    with database_of(folder) as url:
        yield url
