"""`latchkey webhook`: webhooks, their deliveries, and sending again."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, get_args

import typer
from msgspec import DecodeError, json

from latchkey.cli import output, secret_key
from latchkey.cli.command import LIMIT, argument, command, flag, option
from latchkey.cli.output import JsonOption, shown, typed
from latchkey.cli.project_command import ProjectContext, ProjectOption, extended, project_context
from latchkey.cli.target_database import DATA, ConfigOption, DataOption
from latchkey.database.sealing import UnsealableError
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.subjects.webhooks import render
from latchkey.subjects.webhooks.delivery.destination import presets
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.delivery.sending.sender import sender_of
from latchkey.subjects.webhooks.rules import Chosen, DeliveryFilter, ReplayRange
from latchkey.subjects.webhooks.usecases import registry
from latchkey.subjects.webhooks.usecases.registry import Registry, registry_of
from latchkey.subjects.webhooks.usecases.samples import TYPES, send_test

app = typer.Typer(no_args_is_help=True)

HEADER = option("A file with the value of the Authorization header; - is stdin.")
EVENT_TYPES = option("Only events of this type. May be given several times.", "--type")
ENVIRONMENT = option("Only events of production, or only of sandbox.")
APP = option("Only events of this app (its id).", "--app")
WEBHOOK = argument("The webhook's id.", metavar="WEBHOOK")


@dataclass(frozen=True, slots=True)
class WebhookDesk(ProjectContext):
    webhooks: Registry


@asynccontextmanager
async def webhook_desk(
    project: ProjectOption = None, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> AsyncIterator[WebhookDesk]:
    async with project_context(project, config, data, as_json) as at:
        webhooks = registry_of(at.database, await secret_key.checked(at))
        try:
            yield extended(WebhookDesk, at, webhooks=webhooks)
        except UnsealableError:
            raise Refusal("LATCHKEY_SECRET_KEY does not decrypt the secrets of this webhook.") from None


@command(app, "list", webhook_desk)
async def show_list(at: WebhookDesk) -> None:
    """List webhooks, with their health."""
    found = await at.webhooks.page(at.project_id, None, None)
    at.show_list(
        [render.webhook(webhook) for webhook in found],
        lambda one: one,
        ("id", "name", "url", "state", "waiting", "last success"),
        lambda one: (
            *(one.id, one.name, one.url, one.health.state),
            *(str(one.health.waiting), shown(one.health.last_success_at)),
        ),
        "There is no webhook yet. Create one with `latchkey webhook create`.",
    )


@command(app, "show", webhook_desk)
async def show_one(at: WebhookDesk, webhook: str = WEBHOOK) -> None:
    """Show one webhook: where it sends, what it sends, and its health."""
    one = render.webhook(await at.webhooks.load(at.project_id, webhook))
    health = one.health
    at.show_facts(
        one,
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
            ("failing", f"{health.failed:,}"),
            ("created", shown(one.created_at)),
        ),
    )


@command(app, "create", webhook_desk)
async def create(
    at: WebhookDesk,
    name: str = option("A name for people.", default=...),
    url: str | None = option("Where events are sent: an https:// address."),
    destination: str | None = option("Instead of an address: send to this service, such as slack, in its form."),
    settings: list[str] | None = option("A setting of the destination: name=value.", "--set"),
    settings_from: list[str] | None = option("The same, from a file: name=file; - is stdin.", "--set-from"),
    settings_env: list[str] | None = option("The same, from the environment: name=VARIABLE.", "--set-env"),
    template_from: str | None = option("A file with the template of your own destination, in JSON; - is stdin."),
    authorization_from: str | None = HEADER,
    types: list[str] | None = EVENT_TYPES,
    environment: str | None = ENVIRONMENT,
    app_id: str | None = APP,
    dialect: str | None = option("The form of the bodies: latchkey (the default) or revenuecat."),
    paused: bool = flag("Queue events, and send none until it is resumed.", "--paused"),
) -> None:
    """Create a webhook. Its signing secret is printed once, on stdout; a destination has none.

    A secret given with --set can be read by every user of the machine: use --set-from or --set-env."""
    given = _given(authorization_from, types, environment, app_id=app_id, url=url, dialect=dialect)
    given |= {"name": name, "enabled": not paused}
    chosen = _settings(settings, "--set", str)
    chosen |= _settings(settings_from, "--set-from", output.read_secret)
    chosen |= _settings(settings_env, "--set-env", _variable)
    if destination is not None:
        for field in presets()[destination].fields if destination in presets() else ():
            if field.default is None and field.name not in chosen:
                how = f"--set-from {field.name}=FILE" if field.is_secret else f"--set {field.name}=VALUE"
                raise Refusal(f"{field.label} is missing: give {how}.", param=f"destination.settings.{field.name}")
        given["destination"] = {"preset": destination, "settings": chosen, "template": _template(template_from)}
    elif chosen or template_from is not None:
        raise typer.BadParameter("is needed for settings and a template.", param_hint="--destination")
    where = {"url": url} if url is not None else {"destination": destination or ""}
    async with at.audited("webhook.created", name, **where):
        created = await at.webhooks.create(at.project_id, given, real_now())
    if destination is not None:
        shown_one = render.webhook(created)
        at.done(shown_one, f"Webhook {shown_one.id} sends to {output.plain(shown_one.url)}.")
        return
    made = render.webhook(created, with_secret=True)
    at.reveal(
        made,
        str(made.signing_secret),
        f"[green]✓[/green] Webhook {made.id} sends to {output.plain(made.url)}.",
        "This is the signing secret. Copy it now: it is not shown again.",
    )


@command(app, "edit", webhook_desk)
async def edit(
    at: WebhookDesk,
    webhook: str = WEBHOOK,
    name: str | None = option("A name for people."),
    url: str | None = option("Where events are sent: an https:// address."),
    authorization_from: str | None = HEADER,
    types: list[str] | None = EVENT_TYPES,
    all_types: bool = flag("Send events of every type.", "--all-types"),
    environment: str | None = option("production, sandbox, or both."),
    app_id: str | None = APP,
    every_app: bool = flag("Send events of every app.", "--every-app"),
) -> None:
    """Change a webhook. What is not given stays as it is."""
    if (types and all_types) or (app_id and every_app):
        raise typer.BadParameter("These options contradict each other.")
    both = environment == "both"
    changes = _given(authorization_from, types, None if both else environment, name=name, url=url, app_id=app_id)
    if all_types:
        changes["event_types"] = []
    if both:
        changes["environment"] = None
    if every_app:
        changes["app_id"] = None
    if not changes:
        raise typer.BadParameter("Nothing to change was given. `latchkey webhook edit --help` lists the options.")
    await _change(at, webhook, "webhook.changed", changes)


@command(app, "pause", webhook_desk)
async def pause(at: WebhookDesk, webhook: str = WEBHOOK) -> None:
    """Stop sending. New events are queued and sent in order when the webhook is resumed."""
    await _change(at, webhook, "webhook.paused", {"enabled": False})


@command(app, "resume", webhook_desk)
async def resume(at: WebhookDesk, webhook: str = WEBHOOK) -> None:
    """Send again, the queued events first."""
    await _change(at, webhook, "webhook.resumed", {"enabled": True})


@command(app, "delete", webhook_desk, asks="Delete the webhook {webhook!r}? What is queued is not sent.")
async def delete(at: WebhookDesk, webhook: str = WEBHOOK) -> None:
    """Delete a webhook. Events that wait in its queue are not sent. Asks first."""
    async with at.audited("webhook.deleted", webhook):
        await at.webhooks.delete(at.project_id, webhook, real_now())
    at.show_deleted("webhook", webhook, f"The webhook {output.plain(webhook)} is deleted.")


@command(app, "test", webhook_desk)
async def send_test_event(
    at: WebhookDesk,
    webhook: str = WEBHOOK,
    event_type: str = option("The type of the test event.", "--type", default="TEST"),
) -> None:
    """Send a test event now and show the response. Nothing is stored. Exit code 1 if it was not accepted."""
    if event_type.upper() not in TYPES:
        raise typer.BadParameter(f"{event_type!r} is none of {', '.join(TYPES)}.", param_hint="--type")
    found = await at.webhooks.load(at.project_id, webhook)
    sender = sender_of(at.settings, at.webhooks.mailbox)
    try:
        async with at.audited("webhook.tested", webhook, type=event_type.upper()):
            tried = await send_test(sender, found, event_type.upper(), real_now())
    finally:
        await sender.close()
    if at.as_json:
        output.write(tried)
    else:
        said = f"status {tried.status}" if tried.status is not None else "no response"
        words = f"{tried.event_type}: {said} in {tried.milliseconds} ms"
        error = f" ({tried.error})" if isinstance(tried.error, str) else ""
        mark = "[green]✓[/green]" if tried.delivered else "[red]✗[/red]"
        output.console().print(f"{mark} {output.plain(words + error)}", soft_wrap=True)
        if tried.body:
            output.console().print(output.plain(tried.body[:1000]), soft_wrap=True)
    if not tried.delivered:
        raise typer.Exit(output.FAILED)


@command(app, "deliveries", project_context)
async def deliveries(
    at: ProjectContext,
    webhook: str = WEBHOOK,
    status: str | None = option("Only waiting, delivered, failed or failing ones."),
    event_type: str | None = option("Only events of this type.", "--type"),
    customer: str | None = option("Only events of this customer."),
    since: str | None = option("Since a date and time in UTC, or 90m, 6h, 3d ago."),
    limit: int = LIMIT,
) -> None:
    """List what was sent to a webhook, newest first. A delivery has the id of its event."""
    if status not in (None, *get_args(Chosen)):
        raise typer.BadParameter("is waiting, delivered, failed or failing.", param_hint="--status")
    chosen = DeliveryFilter(
        status=status,  # type: ignore[arg-type]  # checked above
        type=event_type.upper() if event_type is not None else None,
        customer_id=customer,
        since=typed(since, real_now()) if since is not None else None,
    )
    page = await at.run(registry.page_of_deliveries, webhook, chosen, after=None, limit=limit)
    at.show_list(
        page.deliveries,
        lambda one: one,
        ("event", "type", "customer", "status", "attempts", "response", "queued"),
        lambda one: (
            *(one.id, one.event_type, one.customer_id, one.status, str(one.attempts_count)),
            *(str(one.response_status or one.error or ""), shown(one.created_at)),
        ),
        "No deliveries found.",
        "There are older ones. See --limit and --since." if page.after is not None else "",
    )


@command(app, "resend", webhook_desk)
async def resend(
    at: WebhookDesk,
    webhook: str = WEBHOOK,
    delivery: str | None = argument("The event's id, as `deliveries` shows it.", default=None, metavar="DELIVERY"),
    failed_since: str | None = option("All that failed since a date and time in UTC, or 90m, 6h, 3d ago."),
) -> None:
    """Send a delivery again, or with --failed-since all that failed. The body and its id stay the same."""
    if (delivery is None) == (failed_since is None):
        raise typer.BadParameter("Give the id of one delivery, or --failed-since.", param_hint="DELIVERY")
    now = real_now()
    if delivery is None:
        since = typed(failed_since or "", now)
        async with at.audited("webhook.replayed", webhook, since_ms=str(since), status="failed"):
            chosen = ReplayRange(since, None, "failed")
            started = await at.run(requeue_runs.start_replay, webhook, chosen, now)
        at.done(started, f"Replay {started.id} is queued. The dashboard shows its progress.")
        return
    async with at.audited("delivery.resent", f"{webhook}, {delivery}"):
        sent = await at.run(registry.resend, webhook, delivery, now)
    found = await at.webhooks.load(at.project_id, webhook)
    at.done(render.detail(found, sent), f"The delivery {output.plain(delivery)} is queued again.")


def _given(
    authorization_from: str | None, types: list[str] | None, environment: str | None, **others: str | None
) -> dict[str, Any]:
    """The fields of the API that were given."""
    unknown = [type for type in types or [] if type.upper() not in TYPES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(TYPES)}.", param_hint="--type")
    if environment not in (None, "production", "sandbox"):
        raise typer.BadParameter("is production or sandbox.", param_hint="--environment")
    given = {
        **others,
        "authorization_header": output.read_secret(authorization_from) if authorization_from is not None else None,
        "event_types": [type.upper() for type in types] if types else None,
        "environment": environment,
    }
    return {field: value for field, value in given.items() if value is not None}


def _settings(given: list[str] | None, flag_name: str, value_of: Callable[[str], str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given or []]
    if not all(name and separator for name, separator, _ in pairs):
        # The value may be a secret: it is not repeated.
        raise typer.BadParameter("is name=value.", param_hint=flag_name)
    return {name: value_of(value) for name, _, value in pairs}


def _variable(name: str) -> str:
    if name not in os.environ:
        raise typer.BadParameter(f"The environment has no variable {name}.", param_hint="--set-env")
    return os.environ[name]


def _template(source: str | None) -> Any:
    try:
        return json.decode(output.read_secret(source)) if source is not None else None
    except DecodeError as error:
        raise typer.BadParameter(f"The template is not JSON: {error}", param_hint="--template-from") from None


async def _change(at: WebhookDesk, webhook: str, action: str, changes: dict[str, Any]) -> None:
    async with at.audited(action, webhook):
        await at.webhooks.update(at.project_id, webhook, changes, real_now())
    await show_one(at, webhook)
