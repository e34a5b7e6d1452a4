"""Enrolling customers in experiments."""

from __future__ import annotations

from latchkey.domain.customers.experiment import Experiment, enroll
from latchkey.usecases.engine.changes import Change, Changes, Committed
from latchkey.usecases.experiments.experiments import load_experiment


async def enroll_customer(changes: Changes, project_id: str, experiment_id: str, app_user_id: str) -> Committed:
    """Idempotent: an enrolled customer keeps the variant and no event is emitted."""
    stored = await load_experiment(changes.database, project_id, experiment_id)
    experiment = Experiment(stored.id, stored.name, stored.variants)
    return await changes.make(
        Change(
            project_id=project_id,
            app_user_id=app_user_id,
            apply=lambda situation: enroll(situation.customer, experiment, situation.now),
            create=True,
        )
    )
