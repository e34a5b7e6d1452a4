"""`latchkey webhook test`, `deliveries` and `resend`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from latchkey.cli import output
from latchkey.cli.desk import desk
from latchkey.cli.instants import shown, typed
from latchkey.cli.key import ProjectOption
from latchkey.cli.output import JsonOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption
from latchkey.cli.webhook.commands import app
from latchkey.cli.webhook.registry import WebhookArgument, authority_of_up, registry_of
from latchkey.delivery.queue import requeue
from latchkey.delivery.sending.sender import Sender
from latchkey.now import real_now
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render
from latchkey.usecases.webhooks.trial_send import send_test
from latchkey.wire import webhooks as wire


@app.command("test")
def send_test_event(
    webhook: WebhookArgument,
    event_type: Annotated[str, typer.Option("--type", help="The type of the test event.")] = "TEST",
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Send a test event now and show the response. Nothing is stored. Exit code 1 if it was not accepted."""
    if event_type.upper() not in TYPES:
        raise typer.BadParameter(f"{event_type!r} is none of {', '.join(TYPES)}.", param_hint="--type")

    async def run() -> wire.WebhookTest:
        async with registry_of(config, data, project) as (at, registry):
            found = await registry.load(at.project_id, webhook)
            settings = at.settings
            extra_ca = settings.webhook_extra_ca or authority_of_up(config, data)
            sender = Sender(
                real_now, timeout_ms=settings.webhook_timeout_ms, allowed=registry.allowed, extra_ca=extra_ca
            )
            try:
                async with at.audited("webhook.tested", webhook, type=event_type.upper()):
                    return render.tried(await send_test(sender, found.webhook, event_type.upper(), real_now()))
            finally:
                await sender.close()

    tried = asyncio.run(run())
    if as_json:
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


@app.command("deliveries")
def deliveries(
    webhook: WebhookArgument,
    status: Annotated[str | None, typer.Option(help="Only waiting, delivered or failed ones.")] = None,
    event_type: Annotated[str | None, typer.Option("--type", help="Only events of this type.")] = None,
    customer: Annotated[str | None, typer.Option("--customer", help="Only events of this customer.")] = None,
    since: Annotated[str | None, typer.Option(help="Since a date and time in UTC, or 90m, 6h, 3d ago.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 50,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """List what was sent to a webhook, newest first. A delivery has the id of its event."""
    if status not in (None, "waiting", "delivered", "failed"):
        raise typer.BadParameter("is waiting, delivered or failed.", param_hint="--status")
    chosen = delivery_log.Filter(
        status=status,  # type: ignore[arg-type]  # checked above
        type=event_type.upper() if event_type is not None else None,
        customer_id=customer,
        since=typed(since, real_now()) if since is not None else None,
    )

    async def run() -> delivery_log.Page:
        async with desk(config, data, project) as at:
            return await delivery_log.page_of_deliveries(
                at.database, at.project_id, webhook, chosen, after=None, limit=limit
            )

    page = asyncio.run(run())
    found = [render.delivery(webhook, one) for one in page.deliveries]
    if as_json:
        output.write_list(found, more=page.after is not None)
        return
    rows = [
        [
            one.id,
            one.event_type,
            one.customer_id,
            one.status,
            str(one.attempts_count),
            str(one.response_status or one.error or ""),
            shown(one.created_at),
        ]
        for one in found
    ]
    columns = ("event", "type", "customer", "status", "attempts", "response", "queued")
    more = "There are older ones. See --limit and --since." if page.after is not None else ""
    output.show_list(rows, columns, "No deliveries found.", lambda: more)


@app.command("resend")
def resend(
    webhook: WebhookArgument,
    delivery: Annotated[
        str | None, typer.Argument(help="The event's id, as `deliveries` shows it.", metavar="DELIVERY")
    ] = None,
    failed_since: Annotated[
        str | None,
        typer.Option("--failed-since", help="All that failed since a date and time in UTC, or 90m, 6h, 3d ago."),
    ] = None,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Send a delivery again, or with --failed-since all that failed. The body and its id stay the same."""
    if (delivery is None) == (failed_since is None):
        raise typer.BadParameter("Give the id of one delivery, or --failed-since.", param_hint="DELIVERY")
    now = real_now()
    since = typed(failed_since, now) if failed_since is not None else None

    async def run() -> wire.DeliveryWithAttempts | wire.Replay:
        async with desk(config, data, project) as at:
            if delivery is None:
                assert since is not None
                async with at.audited("webhook.replayed", webhook, since_ms=str(since), status="failed"):
                    started = await requeue.start_replay(
                        at.database, at.project_id, webhook, since_ms=since, until_ms=None, status="failed", now=now
                    )
                    if started is None:
                        raise delivery_log.missing_webhook(webhook)
                    return render.replay(started)
            async with at.audited("delivery.resent", f"{webhook}, {delivery}"):
                # Raises the error that says whether the webhook or the delivery is missing.
                await delivery_log.load_delivery(at.database, at.project_id, webhook, delivery)
                if not await requeue.resend(at.database, at.project_id, webhook, delivery, now):
                    raise delivery_log.missing_delivery(webhook, delivery)
                return render.detail(
                    webhook, await delivery_log.load_delivery(at.database, at.project_id, webhook, delivery)
                )

    made = asyncio.run(run())
    if as_json:
        output.write(made)
    elif isinstance(made, wire.Replay):
        output.done(f"Replay {made.id} is queued. The dashboard shows its progress.")
    else:
        output.done(f"The delivery {output.plain(made.id)} is queued again.")
