"""Enrolling customers in experiments."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, json

from latchkey.domain.experiment import Experiment, Variant, enroll
from latchkey.domain.refusal import NotFound
from latchkey.storage.sql import query
from latchkey.usecases.changes import Change, Changes, Committed

_LOAD = query("experiment_by_id")


class _VariantRow(Struct):
    id: str
    weight: int


_VARIANTS = json.Decoder(list[_VariantRow])


async def load_experiment(connection: Any, project_id: str, experiment_id: str) -> Experiment:
    row = await connection.fetchrow(_LOAD, project_id, experiment_id)
    if row is None:
        raise NotFound(f"There is no experiment {experiment_id!r} in this project.", param="experiment_id")
    variants = tuple(Variant(one.id, one.weight) for one in _VARIANTS.decode(row["variants"]))
    return Experiment(row["id"], row["name"], variants)


async def enroll_customer(changes: Changes, project_id: str, experiment_id: str, app_user_id: str) -> Committed:
    """Once: a second time gives the same variant and tells nothing."""
    async with changes.db.acquire() as connection:
        experiment = await load_experiment(connection, project_id, experiment_id)
    return await changes.make(
        Change(
            project_id=project_id,
            app_user_id=app_user_id,
            apply=lambda situation: enroll(situation.customer, experiment, situation.now),
            create=True,
        )
    )
