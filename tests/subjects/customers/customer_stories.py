"""Customers with a history, for the tests of their pages."""

from urllib.parse import quote

from msgspec import json
from msgspec.structs import replace

from latchkey.database.sql import query
from latchkey.domain.instants import DAY
from latchkey.engine.storage.writes import Writes, write
from latchkey.wire.event import Event
from tests.dashboard.site import Site
from tests.http.client import NOW
from tests.http.doings import advance, clock_with, did
from tests.http.management import post

# Hostile ids: a script, markup, a change of direction, quotes, and characters that have a meaning in URLs.
HOSTILE = (
    "<script>alert(1)<\\script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe",
    ('100% of #1? it\'s "a & b" 🦊 + ' + "long " * 20)[:99] + "!",
    " led by a space",
    "..;",
    "{{ 7 * 7 }}",
)


async def with_a_life(site: Site, id: str) -> str:
    """Somebody on a test clock with a trial, payments, a failed payment, a return, a refund and a pause. Gives the
    clock."""
    clock = await clock_with(site, id, NOW, name="A life")
    await did(site, "purchase", id, "pro_monthly", trial=True)
    await advance(site, clock, by="P40D")
    await did(site, "fail_billing", id, "pro_monthly", grace_days=6)
    await advance(site, clock, to_ms=NOW + 70 * DAY)
    await did(site, "recover_billing", id, "pro_monthly")
    await did(site, "cancel", id, "pro_monthly")
    await advance(site, clock, to_ms=NOW + 140 * DAY)
    await did(site, "purchase", id, "pro_monthly")
    await did(site, "purchase", id, "team_monthly")
    await advance(site, clock, to_ms=NOW + 160 * DAY)
    await did(site, "refund", id, "team_monthly")
    await did(site, "pause", id, "pro_monthly", resume_at_ms=NOW + 200 * DAY)
    await advance(site, clock, to_ms=NOW + 185 * DAY)
    await did(site, "purchase", id, "coins_100")
    return clock


async def grant(site: Site, id: str, entitlement: str = "team", expires_at: int | None = None) -> None:
    path = f"customers/{quote(id, safe='')}/actions/grant_entitlement"
    reply = await post(site, path, {"entitlement_id": entitlement, "expires_at": expires_at})
    assert reply.status == 201, reply


async def with_many_events(site: Site, id: str, count: int) -> None:
    """Somebody with so many events, written directly into the tables: making them by actions would take minutes."""
    await site.act("purchase", id, "coins_100")
    async with site.database.transaction() as connection:
        key = await connection.fetchval(query("customers_by_whole_id"), site.project_id, [id])
        [row, *_] = await connection.fetch(query("events_of_customer"), site.project_id, key, 0, 1)
        event = json.decode(row["body"], type=Event)
        writes = Writes(site.project_id)
        for number in range(1, count + 1):
            another = replace(event, id=f"many-{number}", sequence=1000 + number, event_timestamp_ms=NOW + number)
            writes.events.append((key, another))
        await write(connection, writes, NOW)


async def last_audit(site: Site) -> tuple[str, str, str, dict[str, object]]:
    """What the audit log says of the last change: action, subject, outcome and detail."""
    row = await site.database.pool.fetchrow(
        "select action, subject, outcome, detail from audit_entries order by position desc limit 1"
    )
    assert row is not None
    return row["action"], row["subject"], row["outcome"], json.decode(row["detail"])
