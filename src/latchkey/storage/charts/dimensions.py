"""Combinations of dimensions, by number, which facts store; and what a project's charts offer to choose from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from msgspec import json

from latchkey.domain.charts.fact import Dimensions
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_OF = query("chart_dimensions_of")
_ADD = query("add_chart_dimensions")
_ENVIRONMENTS = query("chart_environments_of")

# An origin is stored as a combination of its own, in no environment.
ORIGIN = -1


class Combination(NamedTuple):
    environment: str
    # `FULL`, or `ORIGIN`.
    cuboid: int
    dimensions: Dimensions

    @property
    def digest(self) -> UUID:
        return UUID(bytes=blake2b(json.encode(self), digest_size=16).digest())


class Numbered(NamedTuple):
    project_id: str
    id: int
    combination: Combination


async def find(connection: Connection, asked: Iterable[tuple[str, Combination]]) -> dict[tuple[str, Combination], int]:
    """Those that have no number yet are left out."""
    by_digest = {(project_id, one.digest): (project_id, one) for project_id, one in asked}
    if not by_digest:
        return {}
    projects, digests = zip(*by_digest, strict=True)
    rows = await connection.fetch(_OF, projects, digests)
    return {by_digest[row["project_id"], row["digest"]]: row["id"] for row in rows}


async def environments(connection: Connection, numbers: Collection[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """The environments of combinations, given by project and number."""
    if not numbers:
        return {}
    rows = await connection.fetch(_ENVIRONMENTS, *zip(*numbers, strict=True))
    return {(row["project_id"], row["id"]): row["environment"] for row in rows}


async def add(connection: Connection, new: Sequence[Numbered]) -> None:
    if new:
        await connection.execute(_ADD, *zip(*map(_columns, new), strict=True))


def _columns(one: Numbered) -> tuple[object, ...]:
    of = one.combination.dimensions
    return (
        one.project_id, one.id, one.combination.digest, one.combination.environment, one.combination.cuboid,
        of.product, of.duration, of.store, of.country, of.platform, of.app_version, of.offering,
        json.encode(of.variants).decode(), json.encode(of.attributes).decode(),
    )  # fmt: skip


_MENU = query("chart_menu")


@dataclass(frozen=True, slots=True)
class Menu:
    # Customer attributes that charts can be filtered and broken down by.
    attributes: tuple[str, ...]
    # Whether anything was ever bought there.
    in_production: bool
    in_sandbox: bool


async def load_menu(connection: Connection, project_id: str) -> Menu:
    row = await connection.fetchrow(_MENU, project_id)
    assert row is not None, "the query gives one row"
    return Menu(tuple(row["attributes"]), row["production"], row["sandbox"])
