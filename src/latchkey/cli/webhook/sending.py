"""`latchkey webhook test`, `deliveries` and `resend`."""

from __future__ import annotations

from typing import Annotated

import typer

from latchkey.cli import output
from latchkey.cli.desk import Desk, command, desk
from latchkey.cli.output import shown, typed
from latchkey.cli.webhook.commands import app
from latchkey.cli.webhook.registry import WebhookArgument, WebhookDesk, webhook_desk
from latchkey.delivery.queue import requeue
from latchkey.delivery.sending.sender import Sender
from latchkey.now import real_now
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render
from latchkey.usecases.webhooks.trial_send import send_test


@command(app, "test", webhook_desk)
async def send_test_event(
    desk: WebhookDesk,
    webhook: WebhookArgument,
    event_type: Annotated[str, typer.Option("--type", help="The type of the test event.")] = "TEST",
) -> None:
    """Send a test event now and show the response. Nothing is stored. Exit code 1 if it was not accepted."""
    if event_type.upper() not in TYPES:
        raise typer.BadParameter(f"{event_type!r} is none of {', '.join(TYPES)}.", param_hint="--type")
    at, timeout = desk.at, desk.at.settings.webhook_timeout_ms
    found = await desk.webhooks.load(at.project_id, webhook)
    sender = Sender(real_now, timeout_ms=timeout, allowed=desk.webhooks.allowed, extra_ca=desk.extra_ca)
    try:
        async with at.audited("webhook.tested", webhook, type=event_type.upper()):
            tried = render.tried(await send_test(sender, found.webhook, event_type.upper(), real_now()))
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


@command(app, "deliveries", desk)
async def deliveries(
    at: Desk,
    webhook: WebhookArgument,
    status: Annotated[str | None, typer.Option(help="Only waiting, delivered or failed ones.")] = None,
    event_type: Annotated[str | None, typer.Option("--type", help="Only events of this type.")] = None,
    customer: Annotated[str | None, typer.Option("--customer", help="Only events of this customer.")] = None,
    since: Annotated[str | None, typer.Option(help="Since a date and time in UTC, or 90m, 6h, 3d ago.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 50,
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
    page = await delivery_log.page_of_deliveries(at.database, at.project_id, webhook, chosen, after=None, limit=limit)
    found = [render.delivery(webhook, one) for one in page.deliveries]
    if at.as_json:
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
    output.show_list(rows, columns, "No deliveries found.", more)


@command(app, "resend", desk)
async def resend(
    at: Desk,
    webhook: WebhookArgument,
    delivery: Annotated[
        str | None, typer.Argument(help="The event's id, as `deliveries` shows it.", metavar="DELIVERY")
    ] = None,
    failed_since: Annotated[
        str | None,
        typer.Option("--failed-since", help="All that failed since a date and time in UTC, or 90m, 6h, 3d ago."),
    ] = None,
) -> None:
    """Send a delivery again, or with --failed-since all that failed. The body and its id stay the same."""
    if (delivery is None) == (failed_since is None):
        raise typer.BadParameter("Give the id of one delivery, or --failed-since.", param_hint="DELIVERY")
    now = real_now()
    if delivery is None:
        since = typed(failed_since or "", now)
        async with at.audited("webhook.replayed", webhook, since_ms=str(since), status="failed"):
            started = await requeue.start_replay(
                at.database, at.project_id, webhook, since_ms=since, until_ms=None, status="failed", now=now
            )
            if started is None:
                raise delivery_log.missing_webhook(webhook)
        if at.as_json:
            output.write(render.replay(started))
        else:
            output.done(f"Replay {started.id} is queued. The dashboard shows its progress.")
        return
    async with at.audited("delivery.resent", f"{webhook}, {delivery}"):
        # Raises the error that says whether the webhook or the delivery is missing.
        await delivery_log.load_delivery(at.database, at.project_id, webhook, delivery)
        if not await requeue.resend(at.database, at.project_id, webhook, delivery, now):
            raise delivery_log.missing_delivery(webhook, delivery)
    if at.as_json:
        sent = await delivery_log.load_delivery(at.database, at.project_id, webhook, delivery)
        output.write(render.detail(webhook, sent))
    else:
        output.done(f"The delivery {output.plain(delivery)} is queued again.")
