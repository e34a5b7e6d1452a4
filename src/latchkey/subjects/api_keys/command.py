"""`latchkey key`: API keys. A secret key is shown once, when it is created."""

from dataclasses import replace

import typer
from msgspec import UNSET, UnsetType

from latchkey.cli import output
from latchkey.cli.command import argument, command, flag, option
from latchkey.cli.output import shown, typed_ahead
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.access.api_key import LONGEST_OVERLAP_DAYS, OVERLAP_DAYS
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.engine.storage import keys
from latchkey.now import real_now
from latchkey.subjects.api_keys import render, usecases
from latchkey.subjects.api_keys.wire import ApiKey, PublicApiKey

app = typer.Typer(no_args_is_help=True)

EXPIRES = option("When a secret key stops working: a date and time in UTC, or in how long: 12h, 90d.")
NETWORKS = option("A secret key works only from this address or network. May be given several times.")
KEY = argument("The key's id, as `latchkey key list` shows it.")


@command(app, "create", project_context)
async def create(
    at: ProjectContext,
    name: str = option("A name for people.", default=...),
    scopes: str = option(
        "What a secret key may do: read, write, charts (only charts), joined by commas.", default="read,write"
    ),
    rate_limit: int = option(
        "How many requests the key may make in any 60 seconds.", default=usecases.RATE_LIMIT, min=1
    ),
    app_id: str | None = option("Create a public key for this app (its id).", "--app"),
    expires: str | None = EXPIRES,
    allow: list[str] | None = NETWORKS,
    shape: str = option(
        "vendor: V2 replies to a secret key are as the vendor's clients expect them.", default="latchkey"
    ),
) -> None:
    """Create an API key: a secret one for servers, or with --app a public one for apps."""
    now = real_now()
    if app_id is not None and (expires is not None or allow or shape != "latchkey"):
        raise Refusal("A public key ships inside an app and works on every phone: it has no expiry, networks or shape.")
    async with at.audited("key.created", name):
        if app_id is not None:
            issued = await at.run(usecases.create_public_key, app_id, name, now, rate_limit=rate_limit)
        else:
            issued = await at.run(
                usecases.create_secret_key,
                name,
                now,
                scopes={scope.strip() for scope in scopes.split(",")},
                rate_limit=rate_limit,
                expires_at=typed_ahead(expires, now) if expires is not None else None,
                allowed_networks=allow or (),
                shape=shape,
            )
    at.reveal(_as_data(issued.key, issued.plaintext), issued.plaintext, *_notes(issued.key))


def _notes(key: keys.ApiKey) -> list[str]:
    notes = [f"[green]✓[/green] {key.kind} key {key.id} of {key.project_id}"]
    if key.app_id is not None:
        notes.append(f"[green]✓[/green] for the app {key.app_id}")
    if key.kind == "secret":
        notes.append("[bold]Copy the key now. Only a hash of it is stored, so it cannot be shown again.[/bold]")
    return notes


@command(app, "list", project_context)
async def show(at: ProjectContext) -> None:
    """List a project's keys. Only the beginning and the end of each key are shown."""
    listed = await at.run(usecases.list_keys, limit=None)
    if at.as_json:
        output.write_list(_as_data(api_key) for api_key in listed)
        return
    table = output.table("id", "name", "key", "kind", "limit", "since", "last used", "works")
    now = real_now()
    for key in listed:
        table.add_row(
            key.id,
            output.plain(key.name),
            key.hint,
            "public" if key.kind == "public" else _may(key),
            str(key.rate_limit),
            f"revoked {shown(key.revoked_at)}" if key.revoked_at else shown(key.created_at),
            shown(key.last_used_at) if key.last_used_at is not None else "never",
            _works(key, now),
            style="dim" if key.revoked_at or (key.rules and key.rules.is_expired(now)) else None,
        )
    output.show_table(table)


@command(app, "edit", project_context)
async def edit(
    at: ProjectContext,
    key_id: str = KEY,
    name: str | None = option("A new name."),
    rate_limit: int | None = option("How many requests the key may make in any 60 seconds.", min=1),
    expires: str | None = EXPIRES,
    never_expires: bool = flag("Remove the expiry.", "--never-expires"),
    allow: list[str] | None = NETWORKS,
    allow_everywhere: bool = flag("Allow all networks.", "--allow-everywhere"),
) -> None:
    """Change a secret key's name, limit, expiry or networks. --allow replaces all networks."""
    if (expires is not None and never_expires) or (allow and allow_everywhere):
        raise Refusal("These options contradict each other.")
    now = real_now()
    ends = typed_ahead(expires, now) if expires is not None else None

    def change(key: keys.ApiKey) -> keys.ApiKey:
        return replace(
            key,
            name=name or key.name,
            rate_limit=rate_limit or key.rate_limit,
            expires_at=None if never_expires else ends or key.expires_at,
            allowed_networks=() if allow_everywhere else tuple(allow or key.allowed_networks),
        )

    async with at.audited("key.changed", key_id):
        key = await at.run(usecases.change_key, key_id, change, now)
    at.done(_as_data(key), f"{key.id} ({key.hint}) works {_works(key, real_now())}")


@command(app, "rotate", project_context)
async def rotate(
    at: ProjectContext,
    key_id: str = KEY,
    overlap_days: int = option(
        "How many more days the old key works.", default=OVERLAP_DAYS, min=0, max=LONGEST_OVERLAP_DAYS
    ),
) -> None:
    """Replace a secret key: create one like it, and let the old one expire."""
    async with at.audited("key.rotated", key_id):
        issued, old = await at.run(usecases.rotate_key, key_id, real_now(), overlap_days=overlap_days)
    both = {"new": _as_data(issued.key, issued.plaintext), "old": _as_data(old)}
    overlap = f"[green]✓[/green] {old.id} ({old.hint}) works until {shown(old.expires_at)}"
    at.reveal(both, issued.plaintext, overlap, *_notes(issued.key))


@command(app, "revoke", project_context)
async def revoke(at: ProjectContext, key_id: str = KEY) -> None:
    """Revoke a key for good. The next request with it is refused."""
    async with at.audited("key.revoked", key_id):
        key = await at.run(usecases.revoke_key, key_id, real_now())
    at.done(_as_data(key), f"{key.id} ({key.hint}) was revoked on {shown(key.revoked_at)}")


def _as_data(key: keys.ApiKey, plaintext: str | UnsetType = UNSET) -> ApiKey | PublicApiKey:
    """As V2 shows it. A public key is no secret, so it is always there."""
    if key.kind == "public":
        return render.public_api_key(key.project_id, key)
    return render.api_key(key.project_id, key, plaintext)


def _may(key: keys.ApiKey) -> str:
    scopes = ", ".join(key.scopes)
    return f"{scopes} (vendor's shape)" if key.shape == "vendor" else scopes


def _works(key: keys.ApiKey, now: Ms) -> str:
    """When and from where, in words."""
    if key.revoked_at is not None:
        return "no more"
    when = "always"
    if key.expires_at is not None:
        when = f"{'until' if key.expires_at > now else 'no more, it expired'} {shown(key.expires_at)}"
    return f"{when}, only from {', '.join(key.allowed_networks)}" if key.allowed_networks else when
