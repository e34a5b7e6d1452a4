"""Experiments: variants with weights. Who sees which is `domain/experiment.py`; enrolling is `enrollments.py`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct, json

from latchkey.domain.experiment import Variant
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.projects import load_project

CREATE_EXPERIMENT = query("create_experiment")
LOAD_EXPERIMENT = query("experiment_by_id")
LIST_EXPERIMENTS = query("list_experiments")

FEWEST, MOST = 2, 20
HEAVIEST = 1_000_000


class _StoredVariant(Struct):
    id: str
    weight: int


_DECODER = json.Decoder(list[_StoredVariant])


@dataclass(frozen=True, slots=True)
class Experiment:
    id: str
    name: str
    variants: tuple[Variant, ...]
    created_at: Ms


async def create_experiment(
    database: Database, project_id: str, name: str, variants: Sequence[Variant], now: Ms
) -> Experiment:
    experiment = Experiment(f"exp_{secrets.token_hex(8)}", checked_name(name), _checked(variants), now)
    await load_project(database, project_id)
    stored = json.encode([_StoredVariant(one.id, one.weight) for one in experiment.variants])
    async with database.transaction() as connection:
        await connection.execute(CREATE_EXPERIMENT, project_id, experiment.id, experiment.name, stored, now)
    return experiment


async def load_experiment(database: Database, project_id: str, experiment_id: str) -> Experiment:
    async with database.acquire() as connection:
        row = await connection.fetchrow(LOAD_EXPERIMENT, project_id, experiment_id)
    if row is None:
        raise NotFound(f"There is no experiment {experiment_id!r} in this project.", param="experiment_id")
    return _experiment(row)


async def list_experiments(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Experiment]:
    async with database.acquire() as connection:
        if after is not None and await connection.fetchrow(LOAD_EXPERIMENT, project_id, after) is None:
            raise NotFound(f"There is no experiment {after!r} to start after.", param="starting_after")
        return [_experiment(row) for row in await connection.fetch(LIST_EXPERIMENTS, project_id, after, limit)]


def _checked(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    if not FEWEST <= len(variants) <= MOST:
        raise Invalid(f"An experiment has {FEWEST} to {MOST} variants.", param="variants")
    for one in variants:
        checked_id(one.id, "variants")
        if not 1 <= one.weight <= HEAVIEST:
            raise Invalid(f"A weight is a whole number from 1 to {HEAVIEST:,}.", param="variants")
    if len({one.id for one in variants}) < len(variants):
        raise Invalid("Each variant needs an id of its own.", param="variants")
    return tuple(variants)


def _experiment(row: Record) -> Experiment:
    variants = tuple(Variant(one.id, one.weight) for one in _DECODER.decode(row["variants"]))
    return Experiment(row["id"], row["name"], variants, row["created_at"])
