"""Experiments with their variants."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct, json

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Experiment:
    id: str
    name: str
    variants: tuple[Variant, ...]
    created_at: Ms


_CREATE = query("create_experiment")
_UPDATE = query("update_experiment")
_PAGE = query("list_experiments")


class _StoredVariant(Struct, omit_defaults=True):
    id: str
    weight: int
    offering_id: str | None = None


_VARIANTS = json.Decoder(list[_StoredVariant])


async def create(connection: Connection, project_id: str, experiment: Experiment) -> None:
    variants = _encoded(experiment.variants)
    await connection.execute(_CREATE, project_id, experiment.id, experiment.name, variants, experiment.created_at)


async def update(connection: Connection, project_id: str, experiment: Experiment) -> None:
    """Its variants, in the same order."""
    await connection.execute(_UPDATE, project_id, experiment.id, _encoded(experiment.variants))


async def load(connection: Connection, project_id: str, experiment_id: str) -> Experiment | None:
    row = await connection.fetchrow(_PAGE, project_id, None, 1, experiment_id)
    return None if row is None else _experiment(row)


async def page(connection: Connection, project_id: str, after: str | None, limit: int | None) -> list[Experiment]:
    """Oldest first; `after` is the id of the last experiment of the page before."""
    return [_experiment(row) for row in await connection.fetch(_PAGE, project_id, after, limit, None)]


def _encoded(variants: Sequence[Variant]) -> bytes:
    return json.encode([_StoredVariant(one.id, one.weight, one.offering_id) for one in variants])


def _experiment(row: Record) -> Experiment:
    variants = tuple(Variant(one.id, one.weight, one.offering_id) for one in _VARIANTS.decode(row["variants"]))
    return Experiment(id=row["id"], name=row["name"], variants=variants, created_at=row["created_at"])
