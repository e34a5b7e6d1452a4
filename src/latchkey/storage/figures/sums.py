"""The sums from which a report of the figures is made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from latchkey.domain.figures.tally import Tally
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.database import Connection
from latchkey.storage.figures.tallies import tally_of
from latchkey.storage.sql import query

_SUMS = query("figure_sums")
_REST = query("figure_rest")
_NEWCOMERS = query("newcomers_by_day")
_SANDBOX_NEWCOMERS = query("sandbox_newcomers")
_ENVIRONMENTS = query("figure_environments")


@dataclass(frozen=True, slots=True)
class Newcomers:
    """New customers of a day. A day can occur twice: with counted customers, and with those not counted yet."""

    day: int
    customers: int
    # Those of them first seen before the requested hour.
    before_hour: int


async def by_day(
    connection: Connection, project_id: str, environment: Environment, first: int, last: int
) -> dict[int, dict[str, Tally]]:
    """By day and currency. All days before `first` are added to it."""
    days: dict[int, dict[str, Tally]] = defaultdict(dict)
    for row in await connection.fetch(_SUMS, project_id, environment, first, last):
        days[row["day"]][row["currency"]] = tally_of(row)
    return days


async def between(
    connection: Connection, project_id: str, environment: Environment, after: Ms, before: Ms
) -> dict[str, Tally]:
    """By currency, between two instants."""
    rows = await connection.fetch(_REST, project_id, environment, after, before)
    return {row["currency"]: tally_of(row) for row in rows}


async def newcomers(
    connection: Connection, project_id: str, first: int, last: int, hour: int, counted: int, now: Ms
) -> list[Newcomers]:
    """From day `first` to day `last`; customers with keys after `counted` are counted one by one, up to `now`."""
    rows = await connection.fetch(_NEWCOMERS, project_id, first, last, hour, counted, now)
    return [Newcomers(row["day"], row["customers"], row["before_hour"]) for row in rows]


async def sandbox_newcomers(connection: Connection, project_id: str, first: int, last: int) -> dict[int, int]:
    """By day: the new customers who have bought in the sandbox only."""
    rows = await connection.fetch(_SANDBOX_NEWCOMERS, project_id, first, last)
    return {row["day"]: row["customers"] for row in rows}


async def environments(connection: Connection, project_id: str) -> set[Environment]:
    """The environments in which anything was ever bought."""
    return {Environment(row["environment"]) for row in await connection.fetch(_ENVIRONMENTS, project_id)}
