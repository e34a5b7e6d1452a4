"""Grants to many customers: what is granted, to whom, the lease of the process that works on it, and the outcomes."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import executes, fetch_all, fetches_all, fetches_one, returns_row
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.bulk_grants.rules import BulkGrant, GrantTerms

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


load = fetches_one(BulkGrant, query("load_bulk_grant"))
# Of a project: those after an id, how many at most, and whether only those that were started. By id, previews included;
# those that were started, newest first. Outcomes are not counted.
page = fetches_all(BulkGrant, query("list_bulk_grants"))
# From a state to another one at an instant; with the token of a lease or None. False: it is in another state, or
# another process has it.
set_state = returns_row(query("set_bulk_grant_state"))
# The one that waited longest, leased from an instant until another.
claim = fetches_one(BulkGrant, query("claim_bulk_grant"))
# For an erased customer: of a project, these ids, and what replaces them.
forget = executes(query("forget_in_bulk_grants"))
_renew = returns_row(query("renew_bulk_grant"))


async def renew(connection: Connection, grant: BulkGrant, until: Ms) -> bool:
    """False: another process has it, or it was stopped."""
    return await _renew(connection, grant.project_id, grant.id, grant.token, until)


async def next_turns(connection: Connection, grant: BulkGrant, after: int, limit: int) -> list[Turn]:
    place = grant.project_id, grant.id, after, limit
    return await fetch_all(connection, Turn, query("next_bulk_grant_customers"), *place)


async def record(connection: Connection, grant: BulkGrant, results: Sequence[GrantResult]) -> None:
    columns = zip(*map(astuple, results), strict=True)
    await connection.execute(query("record_bulk_grant_customers"), grant.project_id, grant.id, *columns)


async def failures(connection: Executor, project_id: str, id: str, limit: int) -> list[tuple[str, str]]:
    rows = await connection.fetch(query("failures_of_bulk_grant"), project_id, id, limit)
    return [(row["app_user_id"], row["error"] or "") for row in rows]
