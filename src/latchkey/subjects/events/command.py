"""`latchkey event`: list events, show one, and follow new ones."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import typer
from msgspec import Raw, json

from latchkey.cli import output
from latchkey.cli.command import LIMIT, argument, command, flag, option
from latchkey.cli.output import shown
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.subjects.events import usecases
from latchkey.subjects.events.rules import EventFilter, ListedEvent

app = typer.Typer(no_args_is_help=True)

TYPE = option("Only this type, such as RENEWAL.", "--type")
ENVIRONMENT = option("Only production, or only sandbox.")
CUSTOMER = option("Only events of this customer (any id).")
BODIES = flag("With --json: each event whole, as webhooks get it.", "--bodies")

# Seconds between two queries, and how many events one query returns at most.
POLL = 0.5
BATCH = 500
# How many pages are read to fill a list with a filter for something rare.
_MOST_PAGES = 20
COLUMNS = ("id", "type", "customer", "product", "environment", "happened", "deliveries")


@command(app, "list", project_context)
async def show_list(
    at: ProjectContext,
    event_type: str | None = TYPE,
    environment: str | None = ENVIRONMENT,
    customer: str | None = CUSTOMER,
    limit: int = LIMIT,
    bodies: bool = BODIES,
) -> None:
    """List events, newest first."""
    chosen = _filter(event_type, environment, customer)
    found: list[ListedEvent] = []
    before: int | None = None
    for _ in range(_MOST_PAGES):
        page = await at.run(usecases.page_of_newest, chosen, before=before, limit=limit - len(found))
        found += page.events
        before = page.before
        if before is None or len(found) >= limit:
            break
    if at.as_json:
        output.write_list([await _as_data(at, event, bodies) for event in found], more=before is not None)
        return
    more = "There are older ones. See --limit." if before is not None else ""
    output.show_list([_row(event) for event in found], COLUMNS, "No events found.", more)


@command(app, "show", project_context)
async def show_one(at: ProjectContext, event: str = argument("The event's id.", metavar="EVENT")) -> None:
    """Show one event: its body as webhooks get it, and its deliveries."""
    found = await at.run(usecases.show_event, event)
    if at.as_json:
        output.write({"event": Raw(found.body), "deliveries": found.deliveries})
        return
    one = found.event
    output.show_facts(
        (
            ("id", one.id),
            ("type", one.type),
            ("customer", one.app_user_id),
            ("sequence", str(one.sequence)),
            ("product", one.product_id or ""),
            ("environment", one.environment.lower()),
            ("happened", shown(one.occurred_at)),
            ("committed", shown(one.committed_at)),
            ("test clock", one.test_clock_id or ""),
        )
    )
    rows = [
        [
            sent.webhook_id,
            sent.webhook_name,
            sent.status,
            str(sent.attempts),
            str(sent.response_status or sent.error or ""),
            shown(sent.finished_at),
        ]
        for sent in found.deliveries
    ]
    columns = ("webhook", "name", "status", "attempts", "response", "finished")
    output.show_list(rows, columns, "No webhook was to get this event.")
    output.write(Raw(json.format(found.body)))


@command(app, "tail", project_context)
async def tail(
    at: ProjectContext,
    event_type: str | None = TYPE,
    environment: str | None = ENVIRONMENT,
    customer: str | None = CUSTOMER,
    last: int = option("Begin with this many earlier events.", default=10, min=0, max=1000),
    stop_after: int | None = option("Stop after this many events. Without it: until Ctrl-C.", min=1),
    bodies: bool = BODIES,
) -> None:
    """Follow events: print each new one when it is committed. With --json, one JSON document per line."""
    chosen = _filter(event_type, environment, customer)
    left = stop_after
    first = await at.run(usecases.page_of_newest, chosen, limit=max(last, 1))
    position = first.head
    found: Sequence[ListedEvent] = list(reversed(first.events)) if last else []
    key = await at.run(usecases.customer_key, customer) if customer else None
    # Ctrl-C.
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            for listed_event in found if left is None else found[:left]:
                await _print(at, listed_event, bodies)
            if left is not None and (left := left - len(found)) <= 0:
                return
            new = await at.run(usecases.events_after, position, BATCH)
            if new:
                position = new[-1].position
            found = [
                event for event in new if chosen.matches(event) and (key is None or key in (event.key, event.owner))
            ]
            if len(new) < BATCH:
                await asyncio.sleep(POLL)


def _filter(event_type: str | None, environment: str | None, customer: str | None) -> EventFilter:
    if environment is not None and environment.lower() not in ("production", "sandbox"):
        raise typer.BadParameter("is either production or sandbox.", param_hint="--environment")
    return EventFilter(
        type=event_type.upper() if event_type is not None else None,
        environment=environment.upper() if environment is not None else None,
        customer_id=customer,
    )


async def _print(at: ProjectContext, one: ListedEvent, bodies: bool) -> None:
    if at.as_json:
        output.write_line(await _as_data(at, one, bodies))
        return
    cells = (shown(one.occurred_at), f"{one.type:<28}", one.app_user_id, one.product_id or "", one.id)
    output.console().print("  ".join(output.plain(cell) for cell in cells), soft_wrap=True)


async def _as_data(at: ProjectContext, one: ListedEvent, bodies: bool) -> Any:
    if bodies:
        return Raw((await at.run(usecases.show_event, one.id)).body)
    return {
        "object": "event",
        "id": one.id,
        "type": one.type,
        "environment": one.environment.lower(),
        "customer_id": one.app_user_id,
        "sequence": one.sequence,
        "product_id": one.product_id,
        "occurred_at": one.occurred_at,
        "committed_at": one.committed_at,
        "test_clock_id": one.test_clock_id,
        "deliveries": one.deliveries._asdict(),
    }


def _row(one: ListedEvent) -> list[str]:
    return [
        one.id,
        one.type,
        one.app_user_id,
        one.product_id or "",
        one.environment.lower(),
        shown(one.occurred_at),
        ", ".join(f"{count} {name}" for name, count in one.deliveries._asdict().items() if count) or "none",
    ]
