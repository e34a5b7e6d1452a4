"""Chooses the database of a command: the configured one, or that of a running `latchkey up`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.data_folder import DataFolder, read_json
from latchkey.domain.refusal import Refusal
from latchkey.settings import LOOPBACK, Problem, Settings, SettingsRefusedError, load

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A settings file. docs/latchkey.toml lists all settings.")
]
DataOption = Annotated[
    Path, typer.Option("--data", help="The data folder of a running `latchkey up`. Used if no database is configured.")
]
DATA = Path(".latchkey")


def database_url(config: Path | None, data: Path) -> str:
    """The address of the database. Prints a note on stderr if it is that of a `latchkey up`, for people only."""
    if configured := load(os.environ, config).database_url:
        return configured
    found = _of_up(data)
    # With --json, stderr is for errors alone.
    if output.is_json(sys.argv[1:]):
        return found
    Console(stderr=True, highlight=False).print(
        f"No database is configured. Using the database of the `latchkey up` in {data}.", soft_wrap=True, markup=False
    )
    return found


def is_of_up(config: Path | None, data: Path) -> bool:
    """Whether `database_url` is the address of the `latchkey up` of this folder."""
    found = read_json(DataFolder(data).connection).get("database_url")
    return found is not None and load(os.environ, config).database_url in {"", found}


def settings_of(config: Path | None, data: Path) -> Settings:
    """Of the service whose database it is: the given ones, with what `latchkey up` sets by itself."""
    given, folder = load(os.environ, config), DataFolder(data)
    if not is_of_up(config, data):
        return given
    authority = folder.tls / "authority.pem"
    return replace(
        given,
        secret_key=folder.secret_key(),
        public_url=given.public_url or read_json(folder.connection).get("base_url", ""),
        mail_folder=given.mail_folder or (None if given.smtp_host else folder.mail),
        webhook_allow_networks=(*LOOPBACK, *given.webhook_allow_networks),
        # Receivers on this machine may have certificates of its own authority.
        webhook_extra_ca=given.webhook_extra_ca or (authority if authority.exists() else None),
    )


def _of_up(data: Path) -> str:
    folder = DataFolder(data)
    if found := read_json(folder.connection).get("database_url"):
        if not (folder.path / "postgres" / "postmaster.pid").exists():
            raise Refusal(
                f"The `latchkey up` of {data} is not running. Start it with `latchkey up --data {data}`, "
                "or set LATCHKEY_DATABASE_URL."
            )
        return str(found)
    raise no_database(f"{data} is not the folder of a running `latchkey up`.")


def no_database(reason: str) -> SettingsRefusedError:
    remedy = "Set it, or name the folder with --data."
    return SettingsRefusedError([Problem("LATCHKEY_DATABASE_URL", f"is missing, and {reason}", remedy)])
