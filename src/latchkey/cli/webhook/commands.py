"""`latchkey webhook`: list, show, create, change, pause and delete webhooks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from latchkey.cli import output
from latchkey.cli.desk import command
from latchkey.cli.output import shown
from latchkey.cli.webhook.registry import WebhookArgument, WebhookDesk, webhook_desk
from latchkey.now import real_now
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import rendering as render
from latchkey.wire import webhooks as wire

app = typer.Typer(no_args_is_help=True, help="Create, change, pause and test webhooks; list and resend deliveries.")

UrlOption = Annotated[str | None, typer.Option(help="Where events are sent: an https:// address.")]
NameOption = Annotated[str | None, typer.Option(help="A name for people.")]
HeaderOption = Annotated[
    str | None,
    typer.Option("--authorization-from", help="A file with the value of the Authorization header; - is stdin."),
]
TypesOption = Annotated[
    list[str] | None, typer.Option("--type", help="Only events of this type. May be given several times.")
]
EnvironmentOption = Annotated[str | None, typer.Option(help="Only events of production, or only of sandbox.")]
AppOption = Annotated[str | None, typer.Option("--app", help="Only events of this app (its id).")]


@command(app, "list", webhook_desk)
async def show_list(desk: WebhookDesk) -> None:
    """List webhooks, with their health."""
    found: list[wire.Webhook] = []
    while page := await desk.webhooks.page(desk.at.project_id, found[-1].id if found else None, 100):
        found += [render.webhook(one) for one in page]
    if desk.at.as_json:
        output.write_list(found)
        return
    rows = [
        [one.id, one.name, one.url, one.health.state, str(one.health.waiting), shown(one.health.last_success_at)]
        for one in found
    ]
    columns = ("id", "name", "url", "state", "waiting", "last success")
    output.show_list(rows, columns, "There is no webhook yet. Create one with `latchkey webhook create`.")


@command(app, "show", webhook_desk)
async def show_one(desk: WebhookDesk, webhook: WebhookArgument) -> None:
    """Show one webhook: where it sends, what it sends, and its health."""
    one = render.webhook(await desk.webhooks.load(desk.at.project_id, webhook))
    if desk.at.as_json:
        output.write(one)
        return
    health = one.health
    output.show_facts(
        (
            ("id", one.id),
            ("name", one.name),
            ("url", one.url),
            ("state", health.state),
            ("sends", ", ".join(one.event_types) or "all types"),
            ("environment", one.environment or "both"),
            ("app", one.app_id or "every app"),
            ("dialect", one.dialect),
            ("authorization", "is set, and never shown" if one.has_authorization_header else "none"),
            ("last success", shown(health.last_success_at) or "never"),
            ("failing since", shown(health.failing_since)),
            ("paused", shown(health.paused_at)),
            ("waiting", f"{health.waiting:,}"),
            ("failed", f"{health.failed:,}"),
            ("created", shown(one.created_at)),
        )
    )


@command(app, "create", webhook_desk)
async def create(
    desk: WebhookDesk,
    name: Annotated[str, typer.Option(help="A name for people.")],
    url: Annotated[str, typer.Option(help="Where events are sent: an https:// address.")],
    authorization_from: HeaderOption = None,
    types: TypesOption = None,
    environment: EnvironmentOption = None,
    app_id: AppOption = None,
    dialect: Annotated[str, typer.Option(help="The form of the bodies: latchkey or revenuecat.")] = "latchkey",
    paused: Annotated[bool, typer.Option("--paused", help="Queue events, and send none until it is resumed.")] = False,
) -> None:
    """Create a webhook. Its signing secret is printed once, on stdout."""
    given: dict[str, Any] = {"name": name, "url": url, "dialect": dialect, "enabled": not paused}
    given |= _given(None, None, authorization_from, types, environment, app_id)
    async with desk.at.audited("webhook.created", name, url=url):
        created = await desk.webhooks.create(desk.at.project_id, given, real_now())
    made = render.webhook(created, with_secret=True)
    if desk.at.as_json:
        output.write(made)
        return
    output.told(f"[green]✓[/green] Webhook {made.id} sends to {output.plain(made.url)}.")
    output.told("This is the signing secret. Copy it now: it is not shown again.")
    output.bare(str(made.signing_secret))


@command(app, "edit", webhook_desk)
async def edit(
    desk: WebhookDesk,
    webhook: WebhookArgument,
    name: NameOption = None,
    url: UrlOption = None,
    authorization_from: HeaderOption = None,
    types: TypesOption = None,
    all_types: Annotated[bool, typer.Option("--all-types", help="Send events of every type.")] = False,
    environment: Annotated[str | None, typer.Option(help="production, sandbox, or both.")] = None,
    app_id: AppOption = None,
    every_app: Annotated[bool, typer.Option("--every-app", help="Send events of every app.")] = False,
) -> None:
    """Change a webhook. What is not given stays as it is."""
    if (types and all_types) or (app_id and every_app):
        raise typer.BadParameter("These options contradict each other.")
    both = environment == "both"
    changes = _given(name, url, authorization_from, types, None if both else environment, app_id)
    if all_types:
        changes["event_types"] = []
    if both:
        changes["environment"] = None
    if every_app:
        changes["app_id"] = None
    if not changes:
        raise typer.BadParameter("Nothing to change was given. `latchkey webhook edit --help` lists the options.")
    await _change(desk, webhook, "webhook.changed", changes)


@command(app, "pause", webhook_desk)
async def pause(desk: WebhookDesk, webhook: WebhookArgument) -> None:
    """Stop sending. New events are queued and sent in order when the webhook is resumed."""
    await _change(desk, webhook, "webhook.paused", {"enabled": False})


@command(app, "resume", webhook_desk)
async def resume(desk: WebhookDesk, webhook: WebhookArgument) -> None:
    """Send again, the queued events first."""
    await _change(desk, webhook, "webhook.resumed", {"enabled": True})


@command(app, "delete", webhook_desk, asks="Delete the webhook {webhook!r}? What is queued is not sent.")
async def delete(desk: WebhookDesk, webhook: WebhookArgument) -> None:
    """Delete a webhook. Events that wait in its queue are not sent. Asks first."""
    async with desk.at.audited("webhook.deleted", webhook):
        await desk.webhooks.delete(desk.at.project_id, webhook, real_now())
    desk.at.show_deleted("webhook", webhook, f"The webhook {output.plain(webhook)} is deleted.")


def _given(
    name: str | None,
    url: str | None,
    authorization_from: str | None,
    types: list[str] | None,
    environment: str | None,
    app_id: str | None,
) -> dict[str, Any]:
    """The fields of the API that were given."""
    unknown = [one for one in types or [] if one.upper() not in TYPES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(TYPES)}.", param_hint="--type")
    if environment not in (None, "production", "sandbox"):
        raise typer.BadParameter("is production or sandbox.", param_hint="--environment")
    given = {
        "name": name,
        "url": url,
        "authorization_header": output.read_secret(authorization_from) if authorization_from is not None else None,
        "event_types": [one.upper() for one in types] if types else None,
        "environment": environment,
        "app_id": app_id,
    }
    return {field: value for field, value in given.items() if value is not None}


async def _change(desk: WebhookDesk, webhook: str, action: str, changes: dict[str, Any]) -> None:
    async with desk.at.audited(action, webhook):
        await desk.webhooks.update(desk.at.project_id, webhook, changes, real_now())
    await show_one(desk, webhook)
