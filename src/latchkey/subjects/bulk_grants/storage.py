"""Grants to many customers: what is granted, to whom, the lease of the process that works on it, and the outcomes."""

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetch_all, fetch_one
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.bulk_grants.rules import BulkGrant, GrantTerms, State

Outcome = Literal["granted", "skipped", "failed"]


class Turn(Struct, frozen=True):
    number: int
    customer_key: int
    app_user_id: str


class GrantResult(Struct, frozen=True):
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
    counted = len(customers), holders, now, list(unknown_ids)
    await connection.execute(query("create_bulk_grant"), project_id, id, *astuple(terms), source, actor, *counted)
    keys, names = [key for key, _ in customers], [name for _, name in customers]
    await connection.execute(query("add_bulk_grant_customers"), project_id, id, keys, names)


async def load(connection: Executor, project_id: str, id: str) -> BulkGrant | None:
    return await fetch_one(connection, BulkGrant, query("load_bulk_grant"), project_id, id)


async def page(
    connection: Executor, project_id: str, after: str | None, limit: int, *, started: bool = False
) -> list[BulkGrant]:
    """By id, previews included; those that were started, newest first. Outcomes are not counted."""
    return await fetch_all(connection, BulkGrant, query("list_bulk_grants"), project_id, after, limit, started)


async def set_state(
    connection: Executor, project_id: str, id: str, before: State, after: State, now: Ms, token: int | None = None
) -> bool:
    """False: it is in another state, or another process has it."""
    values = before, after, now, token
    return await connection.fetchval(query("set_bulk_grant_state"), project_id, id, *values) is not None


async def claim(connection: Executor, now: Ms, until: Ms) -> BulkGrant | None:
    return await fetch_one(connection, BulkGrant, query("claim_bulk_grant"), now, until)


async def renew(connection: Connection, grant: BulkGrant, until: Ms) -> bool:
    """False: another process has it, or it was stopped."""
    lease = grant.project_id, grant.id, grant.token, until
    return await connection.fetchval(query("renew_bulk_grant"), *lease) is not None


async def next_turns(connection: Connection, grant: BulkGrant, after: int, limit: int) -> list[Turn]:
    place = grant.project_id, grant.id, after, limit
    return await fetch_all(connection, Turn, query("next_bulk_grant_customers"), *place)


async def record(connection: Connection, grant: BulkGrant, results: Sequence[GrantResult]) -> None:
    await connection.execute(
        query("record_bulk_grant_customers"),
        grant.project_id,
        grant.id,
        [result.number for result in results],
        [result.outcome for result in results],
        [result.error for result in results],
    )


async def failures(connection: Executor, project_id: str, id: str, limit: int) -> list[tuple[str, str]]:
    rows = await connection.fetch(query("failures_of_bulk_grant"), project_id, id, limit)
    return [(row["app_user_id"], row["error"] or "") for row in rows]


async def forget(connection: Connection, project_id: str, ids: Collection[str], instead: str) -> None:
    await connection.execute(query("forget_in_bulk_grants"), project_id, list(ids), instead)
