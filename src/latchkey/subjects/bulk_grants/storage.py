"""Grants to many customers: what is granted, to whom, the lease of the process that works on it, and the outcomes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.bulk_grants.rules import BulkGrant, GrantTerms

_CREATE = query("create_bulk_grant")
_ADD = query("add_bulk_grant_customers")
_LOAD = query("load_bulk_grant")
_LIST = query("list_bulk_grants")
_SET_STATE = query("set_bulk_grant_state")
_CLAIM = query("claim_bulk_grant")
_RENEW = query("renew_bulk_grant")
_NEXT = query("next_bulk_grant_customers")
_RECORD = query("record_bulk_grant_customers")
_FAILURES = query("failures_of_bulk_grant")
_FORGET = query("forget_in_bulk_grants")
Outcome = Literal["granted", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Turn:
    number: int
    customer_key: int
    app_user_id: str


@dataclass(frozen=True, slots=True)
class GrantResult:
    number: int
    outcome: Outcome
    error: str | None = None


async def create(
    connection: Connection,
    project_id: str,
    id: str,
    terms: GrantTerms,
    source: str,
    actor: str,
    customers: Sequence[tuple[int, str]],
    holders: int,
    unknown_ids: Sequence[str],
    now: Ms,
) -> None:
    """`customers`: their keys and ids."""
    await connection.execute(
        _CREATE,
        project_id,
        id,
        terms.entitlement_id,
        terms.duration,
        terms.ends_at,
        terms.skip_holders,
        source,
        actor,
        len(customers),
        holders,
        now,
        list(unknown_ids),
    )
    await connection.execute(_ADD, project_id, id, [key for key, _ in customers], [name for _, name in customers])


async def load(connection: Connection, project_id: str, id: str) -> BulkGrant | None:
    row = await connection.fetchrow(_LOAD, project_id, id)
    return None if row is None else _grant(row)


async def newest(connection: Connection, project_id: str, limit: int) -> list[BulkGrant]:
    return [_grant(row) for row in await connection.fetch(_LIST, project_id, None, limit, True)]


async def page(connection: Connection, project_id: str, after: str | None, limit: int) -> list[BulkGrant]:
    return [_grant(row) for row in await connection.fetch(_LIST, project_id, after, limit, False)]


async def start(connection: Connection, project_id: str, id: str, now: Ms) -> bool:
    return await connection.fetchval(_SET_STATE, project_id, id, "draft", "running", now, None) is not None


async def stop(connection: Connection, project_id: str, id: str, now: Ms) -> bool:
    return await connection.fetchval(_SET_STATE, project_id, id, "running", "stopped", now, None) is not None


async def claim(connection: Connection, now: Ms, until: Ms) -> BulkGrant | None:
    row = await connection.fetchrow(_CLAIM, now, until)
    return None if row is None else _grant(row)


async def renew(connection: Connection, grant: BulkGrant, until: Ms) -> bool:
    """False: another process has it, or it was stopped."""
    return await connection.fetchval(_RENEW, grant.project_id, grant.id, grant.token, until) is not None


async def finish(connection: Connection, grant: BulkGrant, now: Ms) -> None:
    await connection.fetchval(_SET_STATE, grant.project_id, grant.id, "running", "done", now, grant.token)


async def next_turns(connection: Connection, grant: BulkGrant, after: int, limit: int) -> list[Turn]:
    rows = await connection.fetch(_NEXT, grant.project_id, grant.id, after, limit)
    return [Turn(row["number"], row["customer_key"], row["app_user_id"]) for row in rows]


async def record(connection: Connection, grant: BulkGrant, results: Sequence[GrantResult]) -> None:
    await connection.execute(
        _RECORD,
        grant.project_id,
        grant.id,
        [one.number for one in results],
        [one.outcome for one in results],
        [one.error for one in results],
    )


async def failures(connection: Connection, project_id: str, id: str, limit: int) -> list[tuple[str, str]]:
    rows = await connection.fetch(_FAILURES, project_id, id, limit)
    return [(row["app_user_id"], row["error"] or "") for row in rows]


async def forget(connection: Connection, project_id: str, ids: Collection[str], instead: str) -> None:
    await connection.execute(_FORGET, project_id, list(ids), instead)


def _grant(row: Record) -> BulkGrant:
    return BulkGrant(
        project_id=row["project_id"],
        id=row["id"],
        state=row["state"],
        terms=GrantTerms(
            entitlement_id=row["entitlement_id"],
            duration=row["duration"],
            ends_at=row["ends_at"],
            skip_holders=row["skip_holders"],
        ),
        source=row["source"],
        actor=row["actor"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        total=row["total"],
        holders=row["holders"],
        unknown_ids=tuple(row["unknown_ids"]),
        token=row["token"],
        granted=row.get("granted", 0),
        skipped=row.get("skipped", 0),
        failed=row.get("failed", 0),
    )
