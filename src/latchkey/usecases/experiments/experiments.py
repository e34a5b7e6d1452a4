"""Experiments: variants with weights. `domain/customers/experiment.py` assigns variants, `enrollments.py` enrols."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from latchkey.domain.customers.experiment import Variant
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.database import Database
from latchkey.storage.experiments import experiments
from latchkey.storage.experiments.experiments import Experiment as Experiment
from latchkey.usecases.access.projects import load_project

FEWEST, MOST = 2, 20
HEAVIEST = 1_000_000


async def create_experiment(
    database: Database, project_id: str, name: str, variants: Sequence[Variant], now: Ms
) -> Experiment:
    experiment = Experiment(f"exp_{secrets.token_hex(8)}", checked_name(name), _checked(variants), now)
    await load_project(database, project_id)
    async with database.transaction() as connection:
        await experiments.create(connection, project_id, experiment)
    return experiment


async def load_experiment(database: Database, project_id: str, experiment_id: str) -> Experiment:
    async with database.acquire() as connection:
        experiment = await experiments.load(connection, project_id, experiment_id)
    if experiment is None:
        raise NotFound(f"There is no experiment {experiment_id!r} in this project.", param="experiment_id")
    return experiment


async def list_experiments(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Experiment]:
    async with database.acquire() as connection:
        if after is not None and await experiments.load(connection, project_id, after) is None:
            raise NotFound(f"There is no experiment {after!r} to start after.", param="starting_after")
        return await experiments.page(connection, project_id, after, limit)


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
