"""`latchkey app`: apps, and how they are connected to their stores."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from latchkey.cli import output
from latchkey.cli.audited import audited
from latchkey.cli.instants import shown
from latchkey.cli.key import ProjectOption, chosen
from latchkey.cli.output import JsonOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption
from latchkey.cli.store_reach import base_of, reached
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.usecases.access import projects
from latchkey.usecases.stores import credentials as usecase
from latchkey.usecases.stores import rendering as render
from latchkey.usecases.stores.credentials import Connected

app = typer.Typer(no_args_is_help=True, help="List apps, and connect them to their stores.")
credentials = typer.Typer(
    no_args_is_help=True, help="An app's credentials for its store, and the URL for the store's notifications."
)
app.add_typer(credentials, name="credentials")

AppArgument = Annotated[str, typer.Argument(help="The app's id, as `latchkey app list` shows it.")]
# A file of credentials with ten certificates has less than this.
LARGEST = 1024 * 1024


@app.command("list")
def list_apps(
    project: ProjectOption = None, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> None:
    """List a project's apps, and whether their stores accept their credentials."""

    async def run() -> tuple[list[projects.App], dict[str, Connected]]:
        async with reached(config, data) as stores:
            owner = await chosen(stores.database, project)
            found: list[projects.App] = []
            while page := await projects.list_apps(stores.database, owner, after=found[-1].id if found else None):
                found += page
            return found, await usecase.load_some(stores, owner, found)

    apps, connected = asyncio.run(run())
    if as_json:
        output.write_list(
            {
                "id": one.id,
                "name": one.name,
                "store": one.store,
                "credentials": _word(connected[one.id]) if one.id in connected else "not_needed",
            }
            for one in apps
        )
        return
    table = Table(Column("id", no_wrap=True), Column("name", overflow="fold"), "store", "credentials", box=None)
    for one in apps:
        state = _state(connected[one.id]) if one.id in connected else "[dim]not needed[/dim]"
        table.add_row(one.id, escape(one.name), one.store, state)
    Console(highlight=False).print(table)


@credentials.command("set")
def save(
    app_id: AppArgument,
    file: Annotated[
        Path | None, typer.Option(help="A JSON file with the fields of the store. Without it, standard input is read.")
    ] = None,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Save credentials from a JSON file or standard input, and check them with a call to the store.

    App Store: bundle_id, app_apple_id, issuer_id, key_id, private_key, root_certificates.
    Google Play: package_name, service_account, push_audience, push_service_account.
    Stripe: api_key, webhook_secret; optional previous_webhook_secret, user_id_metadata_key, publishable_key."""
    given = _read(file)

    async def run() -> Connected:
        async with reached(config, data) as stores:
            owner = await chosen(stores.database, project)
            async with audited(stores.database, owner, "app.credentials_saved", app_id):
                return await usecase.save(stores, owner, app_id, given)

    saved = asyncio.run(run())
    _show(saved, base_of(config, data), as_json)
    if saved.row.check_result == "refused":
        raise typer.Exit(1)


@credentials.command("show")
def show(
    app_id: AppArgument,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Show what is saved (never a key), whether it works, and the notification URL."""

    async def run() -> Connected:
        async with reached(config, data) as stores:
            found = await usecase.load(stores, await chosen(stores.database, project), app_id)
            if found is None:
                raise NotFound("Apps of this store need no credentials.")
            return found

    _show(asyncio.run(run()), base_of(config, data), as_json)


@credentials.command("check")
def check(
    app_id: AppArgument,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Check the saved credentials with a call to the store. Apple also sends a test notification."""

    async def run() -> Connected:
        async with reached(config, data) as stores:
            owner = await chosen(stores.database, project)
            async with audited(stores.database, owner, "app.credentials_checked", app_id):
                return await usecase.check(stores, owner, app_id)

    checked = asyncio.run(run())
    _show(checked, base_of(config, data), as_json)
    if checked.row.check_result == "refused":
        raise typer.Exit(1)


@credentials.command("delete")
def delete(
    app_id: AppArgument,
    yes: output.YesOption = False,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Delete an app's credentials. Its receipts and notifications get status 503 until there are new ones."""
    output.confirm(
        "Receipts and notifications of this app will be answered with 503. Delete its credentials?",
        yes=yes,
        as_json=as_json,
    )

    async def run() -> Connected:
        async with reached(config, data) as stores:
            owner = await chosen(stores.database, project)
            async with audited(stores.database, owner, "app.credentials_deleted", app_id):
                return await usecase.delete(stores, owner, app_id)

    deleted = asyncio.run(run())
    if as_json:
        output.write(render.credentials(deleted, base_of(config, data)))
        return
    Console(highlight=False).print(f"[green]✓[/green] The credentials of {escape(app_id)} are deleted.", soft_wrap=True)


@credentials.command("rotate-url")
def rotate_url(
    app_id: AppArgument,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Create a new notification URL. The old one works for 7 more days."""

    async def run() -> Connected:
        async with reached(config, data) as stores:
            owner = await chosen(stores.database, project)
            async with audited(stores.database, owner, "app.notification_url_rotated", app_id):
                return await usecase.rotate_url(stores, owner, app_id)

    rotated, base = asyncio.run(run()), base_of(config, data)
    if as_json:
        output.write(render.credentials(rotated, base))
        return
    _show_url(rotated, base)


def _read(file: Path | None) -> dict[str, Any]:
    if file is None and sys.stdin.isatty():
        raise Refusal("Give the credentials as JSON with --file, or on standard input.")
    try:
        raw = sys.stdin.read(LARGEST + 1).encode() if file is None else file.read_bytes()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Refusal(f"The credentials cannot be read: {reason}.") from None
    if len(raw) > LARGEST:
        raise Refusal("The credentials are larger than 1 MiB.")
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    # The message of a parser may repeat what it read.
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise Refusal("The credentials must be a JSON object with the fields of the store.") from None


def _word(one: Connected) -> str:
    if one.row.credentials is None:
        return "missing"
    return {"ok": "accepted", "refused": "refused", "unknown": "not_checked"}[one.row.check_result]


def _state(one: Connected) -> str:
    word = _word(one)
    colour = {"accepted": "green", "not_checked": "yellow"}.get(word, "red")
    return f"[{colour}]{word.replace('_', ' ')}[/]"


def _show(one: Connected, base: str, as_json: bool) -> None:
    if as_json:
        output.write(render.credentials(one, base))
        return
    row, console = one.row, Console(highlight=False)
    table = Table(Column(no_wrap=True, style="bold"), Column(overflow="fold"), box=None, show_header=False)
    table.add_row("app", row.app_id)
    table.add_row("store", row.store)
    table.add_row("credentials", _state(one) + (f" {escape(row.check_message)}" if row.check_message else ""))
    for name, value in (row.shown or {}).items():
        table.add_row(name, escape(str(value)))
    if row.saved_at is not None:
        table.add_row("saved", shown(row.saved_at))
    table.add_row("first notification", shown(row.first_notified_at) or "none yet")
    table.add_row("last notification", shown(row.last_notified_at) or "none yet")
    console.print(table)
    _show_url(one, base)


def _show_url(one: Connected, base: str) -> None:
    """Alone on stdout's last line, so that a script can read it."""
    if not base:
        told = Console(stderr=True, highlight=False)
        told.print("The notification URL. Put the https:// address of your service in front:", soft_wrap=True)
    sys.stdout.write(base + one.notification_path + "\n")
