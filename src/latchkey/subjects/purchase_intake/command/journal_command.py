"""`latchkey journal`: what stores and phones sent, and processing it again."""

import typer

from latchkey.cli import output
from latchkey.cli.command import LIMIT, argument, command, flag, option
from latchkey.cli.output import shown, typed
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.purchase_intake import render
from latchkey.subjects.purchase_intake.rules import JournalFilter, Status, opened
from latchkey.subjects.purchase_intake.usecases import journal

app = typer.Typer(no_args_is_help=True)

APP = option("Only this app (its id).", "--app")
STATUS = option("Only entries of this status.")
SINCE = option("Received since: a date such as 2027-01-31T08:00 (UTC), or 90m, 6h, 3d ago.")
_COLOURS = {"applied": "green", "failed": "red", "waiting": "yellow", "ignored": "dim"}


@command(app, "list", project_context)
async def show_list(
    at: ProjectContext,
    app_id: str | None = APP,
    status: Status | None = STATUS,
    kind: str | None = option("Only notifications whose type begins with this, such as DID_RENEW."),
    purchase: str | None = option("The store's id of the purchase."),
    since: str | None = SINCE,
    limit: int = LIMIT,
) -> None:
    """List entries, newest first."""
    wanted = JournalFilter(
        app_id=app_id,
        status=status,
        kind=kind,
        subject=purchase,
        since=None if since is None else typed(since, real_now()),
    )
    found = await at.run(journal.page, wanted, after=None, limit=limit)
    if at.as_json:
        output.write_list((render.notification(entry, trusted=True) for entry in found), more=len(found) == limit)
        return
    table = output.table("id", "received", "kind", "status", "purchase", "outcome")
    for entry in found:
        table.add_row(
            journal.name_of(entry),
            shown(entry.received_at),
            output.plain(entry.kind),
            _coloured(entry.status),
            output.plain(entry.subject or ""),
            f"{len(entry.event_ids)} event(s)" if entry.event_ids else output.plain(entry.message),
        )
    console = output.console()
    console.print(table)
    failed = await at.run(journal.count_failed)
    if failed and status != "failed":
        more = " or more" if failed == journal.MOST_COUNTED else ""
        words = (
            f"{failed:,}{more} {'entry' if failed == 1 else 'entries'} failed: latchkey journal list --status failed"
        )
        console.print(words, style="red", soft_wrap=True)


@command(app, "show", project_context)
async def show_entry(
    at: ProjectContext,
    notification_id: str = argument("Its id, as `latchkey journal list` shows it."),
    raw: bool = flag("Print only the payload, as it was received.", "--raw"),
) -> None:
    """Show one entry: the checks, the resulting events, and the payload."""
    one = await at.run(journal.load, notification_id)
    if at.as_json:
        output.write(render.notification(one, trusted=True, whole=True))
        return
    if raw:
        output.bare(one.payload)
        return
    output.console().print(_coloured(one.status))
    facts = (
        ("id", journal.name_of(one)),
        ("app", one.app_id),
        ("source", one.source),
        ("kind", one.kind),
        ("environment", one.environment or ""),
        ("purchase", one.subject or ""),
        ("store's id", one.external_id),
        ("happened", shown(one.occurred_at)),
        ("received", shown(one.received_at)),
        ("finished", shown(one.finished_at)),
        ("next attempt", shown(one.next_at) if one.status == "waiting" else ""),
        ("attempts", str(one.attempts)),
        ("message", one.message),
        ("customer", one.app_user_id or ""),
        ("events", ", ".join(one.event_ids)),
        *((f"checked: {name}", str(value)) for name, value in one.checked.items()),
    )
    output.show_facts(facts)
    said = opened(one.payload)
    if said is not None:
        output.write(said)


@command(app, "reprocess", project_context)
async def reprocess(
    at: ProjectContext,
    notification_id: str | None = argument("One entry; or use --since.", default=None),
    since: str | None = SINCE,
    status: Status | None = STATUS,
    app_id: str | None = APP,
) -> None:
    """Process one entry again, or all that were received since a time. It is idempotent."""
    if (notification_id is None) == (since is None):
        raise Refusal("Give the id of one entry, or --since for all that were received since then.")
    if notification_id is not None and (status or app_id):
        raise Refusal("--status and --app go with --since.")
    now, count = real_now(), 1
    if notification_id is not None:
        async with at.audited("store_notification.reprocessed", notification_id):
            await at.run(journal.reprocess, notification_id, now)
    else:
        start = typed(since or "", now)
        if app_id is not None:
            await at.run(load_app, app_id)
        detail = {"since_ms": str(start), "status": status or "all", "app": app_id or "all"}
        async with at.audited("store_notifications.reprocessed", "store notifications", **detail):
            count = await at.run(journal.reprocess_since, start, status, app_id, now)
    done = f"[green]✓[/green] {count:,} {'entry is' if count == 1 else 'entries are'} processed again."
    at.say({"reprocessed": count}, done if count else "There is nothing to process again.")


def _coloured(status: Status) -> str:
    return f"[{_COLOURS[status]}]{status}[/]"
