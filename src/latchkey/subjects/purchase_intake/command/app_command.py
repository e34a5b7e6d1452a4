"""`latchkey app`: apps, and how they are connected to their stores."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape
from rich.table import Column, Table

from latchkey.cli import output, secret_key
from latchkey.cli.command import argument, command, flag, option
from latchkey.cli.data_folder import DataFolder, read_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.project_command import ProjectContext, ProjectOption, extended, project_context
from latchkey.cli.target_database import DATA, ConfigOption, DataOption, is_of_up
from latchkey.database.sealing import UnsealableError
from latchkey.domain.formats import duration
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.stores.credential_form import CredentialForm
from latchkey.subjects.api_keys import render as api_keys_render
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake import render
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.subjects.purchase_intake.usecases.store_connections import Connected, Connections, connect
from latchkey.subjects.store_products import render as store_products_render
from latchkey.subjects.store_products import usecases as store_products
from latchkey.subjects.store_products.rules import WANTED

app = typer.Typer(no_args_is_help=True)
credentials = typer.Typer(
    no_args_is_help=True, help="An app's credentials for its store, and the URL for the store's notifications."
)
app.add_typer(credentials, name="credentials")


@dataclass(frozen=True, slots=True)
class StoreDesk(ProjectContext):
    connections: Connections
    # Where the service is reached, if this machine knows it.
    base: str


@asynccontextmanager
async def store_desk(
    project: ProjectOption = None, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> AsyncIterator[StoreDesk]:
    """For commands that ask stores, and so need the secret key."""
    async with project_context(project, config, data, as_json) as at:
        base = read_json(DataFolder(data).connection).get("base_url", "") if is_of_up(config, data) else ""
        connections = connect(at.database, await secret_key.checked(at), real_now)
        try:
            yield extended(StoreDesk, at, connections=connections, base=str(base))
        except UnsealableError:
            raise Refusal(
                "LATCHKEY_SECRET_KEY is not the one that the credentials in this database were encrypted with."
            ) from None
        finally:
            await connections.close()


APP = argument("The app's id, as `latchkey app list` shows it.")
Save = Callable[..., Awaitable[None]]
# A file of credentials with ten certificates has less than this.
LARGEST = 1024 * 1024


@command(app, "list", store_desk)
async def list_apps(at: StoreDesk) -> None:
    """List a project's apps, and whether their stores accept their credentials."""
    apps = await at.run(projects.all_apps)
    connected = await store_connections.load_some(at.connections, at.project_id, apps)
    if at.as_json:
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
    table = output.table("id", "name", "store", "credentials")
    for one in apps:
        state = _state(connected[one.id]) if one.id in connected else "[dim]not needed[/dim]"
        table.add_row(one.id, escape(one.name), one.store, state)
    output.console().print(table)


@command(app, "create", project_context)
async def create(
    at: ProjectContext,
    name: str = argument("The name that people see."),
    store: str = option(f"Where it is sold: {', '.join(projects.PUBLIC_PREFIXES)}.", default=...),
) -> None:
    """Create an app and its public key, which ships inside the app. The key is printed on stdout."""
    async with at.audited("app.created", name, store=store):
        made = await at.run(projects.create_app, name, store, real_now())
        issued = await at.run(api_keys.create_public_key, made.id, name, real_now())
    key = api_keys_render.public_api_key(at.project_id, issued.key)
    shown_app = {"id": made.id, "name": made.name, "store": made.store, "public_api_key": key}
    at.reveal(shown_app, issued.plaintext, f"[green]✓[/green] The app {made.id}. Its public key:")


@command(app, "delete", project_context, asks="Installed copies of {app_id!r} are refused from now on. Delete the app?")
async def delete_app(at: ProjectContext, app_id: str = APP) -> None:
    """Delete an app and its keys. What was bought in it stays. Asks first."""
    async with at.audited("app.deleted", app_id):
        await at.run(projects.delete_app, app_id)
    at.show_deleted("app", app_id, f"The app {output.plain(app_id)} is deleted.")


@command(app, "products", store_desk)
async def products(
    at: StoreDesk,
    app_id: str = APP,
    chosen: list[str] | None = option("Only this product of the store. May be given several times.", "--product"),
    apply: bool = flag("Take over what is new and what differs. Without it, nothing is changed.", "--apply"),
) -> None:
    """List what an app's store has for sale beside the catalog. With --apply, take it over. Access does not change."""
    place = at.connections, at.project_id, app_id
    if apply:
        ids = chosen or [one.id for one in await store_products.list_products(*place) if one.status in WANTED]
        async with at.audited("store_products.taken_over", app_id, product_ids=", ".join(ids)):
            made = store_products_render.takeover(app_id, await store_products.take_over(*place, ids, real_now()))
        words = f"{len(made.created)} products were created and {len(made.updated)} changed."
        at.done(made, words if made.created or made.updated else "The catalog has them as the store does.")
        return
    found = await store_products.list_products(*place)
    listed = [store_products_render.store_product(app_id, one) for one in found if not chosen or one.id in chosen]
    said = {one.id: store_products_render.in_words(one) for one in found}
    at.show_list(
        listed,
        lambda one: one,
        ("id", "price", "lasts", "trial", "beside the catalog"),
        lambda one: (
            *(one.id, f"{one.price:g} {one.currency}" if one.price is not None else "", duration(one.duration)),
            *(duration(one.trial_duration), said[one.id]),
        ),
        "The store has no products, and the catalog has none for this app.",
    )


def with_credential_fields(forms: Iterable[CredentialForm]) -> Callable[[Save], Save]:
    """Adds an option for each field that is the content of a file, and says in the help which fields a store has."""

    def add(body: Save) -> Save:
        lines = []
        given = signature(body).parameters.values()
        own = [parameter for parameter in given if parameter.kind is not Parameter.VAR_KEYWORD]
        for form in forms:
            fields = [field for field in form.fields if not field.emulator]
            for field in fields:
                if field.file:
                    words = f"{form.title}: {field.file}, in place of {field.name} in the JSON."
                    option = Annotated[Path | None, typer.Option(help=words)]
                    own.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=None, annotation=option))
            needed = ", ".join(field.name for field in fields if field.required)
            others = ", ".join(field.name for field in fields if not field.required)
            lines.append(f"{form.title}: {needed}{'; optional ' if others else ''}{others}.")
        body.__doc__ = "\n".join((body.__doc__ or "", "", *lines))
        body.__signature__ = Signature(own)  # type: ignore[attr-defined]  # `command` reads it
        return body

    return add


@command(credentials, "set", store_desk)
@with_credential_fields(dict.fromkeys(CREDENTIAL_FORMS.values()))
async def save(
    at: StoreDesk,
    app_id: str = APP,
    file: Path | None = option("A JSON file with the fields of the store. Without it, standard input is read."),
    **field_files: Path | None,
) -> None:
    """Save credentials from a JSON file or standard input, and check them with a call to the store."""
    given = _read(file)
    given |= {name: output.read_secret(str(path)) for name, path in field_files.items() if path is not None}
    async with at.audited("app.credentials_saved", app_id):
        saved = await store_connections.save(at.connections, at.project_id, app_id, given)
    _show(at, saved)
    if saved.row.check_result == "refused":
        raise typer.Exit(1)


@command(credentials, "show", store_desk)
async def show(at: StoreDesk, app_id: str = APP) -> None:
    """Show what is saved (never a key), whether it works, and the notification URL."""
    _show(at, await store_connections.required(at.connections, at.project_id, app_id))


@command(credentials, "check", store_desk)
async def check(at: StoreDesk, app_id: str = APP) -> None:
    """Check the saved credentials with a call to the store. Apple also sends a test notification."""
    async with at.audited("app.credentials_checked", app_id):
        checked = await store_connections.check(at.connections, at.project_id, app_id)
    _show(at, checked)
    if checked.row.check_result == "refused":
        raise typer.Exit(1)


@command(
    credentials,
    "delete",
    store_desk,
    asks="Receipts and notifications of this app will be answered with 503. Delete its credentials?",
)
async def delete(at: StoreDesk, app_id: str = APP) -> None:
    """Delete an app's credentials. Its receipts and notifications get status 503 until there are new ones."""
    async with at.audited("app.credentials_deleted", app_id):
        deleted = await store_connections.delete(at.connections, at.project_id, app_id)
    at.done(render.credentials(deleted, at.base), f"The credentials of {output.plain(app_id)} are deleted.")


@command(credentials, "rotate-url", store_desk)
async def rotate_url(at: StoreDesk, app_id: str = APP) -> None:
    """Create a new notification URL. The old one works for 7 more days."""
    async with at.audited("app.notification_url_rotated", app_id):
        rotated = await store_connections.rotate_url(at.connections, at.project_id, app_id)
    if at.as_json:
        output.write(render.credentials(rotated, at.base))
    else:
        _show_url(rotated, at.base)


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


def _show(at: StoreDesk, one: Connected) -> None:
    if at.as_json:
        output.write(render.credentials(one, at.base))
        return
    row = one.row
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
    output.console().print(table)
    _show_url(one, at.base)


def _show_url(one: Connected, base: str) -> None:
    """Alone on stdout's last line, so that a script can read it."""
    if not base:
        output.told("The notification URL. Put the https:// address of your service in front:")
    sys.stdout.write(base + one.notification_path + "\n")
