"""Experiments with their variants."""

from msgspec import json

from latchkey.database.pool import Connection, Record
from latchkey.database.rows import Listing, item_of
from latchkey.database.sql import query
from latchkey.domain.customers.enrollment import Experiment


def _experiment(row: Record) -> Experiment:
    return item_of(Experiment, row, variants=json.decode(row["variants"]))


EXPERIMENTS = Listing("experiment", query("list_experiments"), _experiment, by_age=True)


async def create(connection: Connection, project_id: str, experiment: Experiment) -> None:
    variants = json.encode(experiment.variants)
    await connection.execute(
        query("create_experiment"), project_id, experiment.id, experiment.name, variants, experiment.created_at
    )


async def update(connection: Connection, project_id: str, experiment: Experiment) -> None:
    """Its variants, in the same order."""
    await connection.execute(query("update_experiment"), project_id, experiment.id, json.encode(experiment.variants))
