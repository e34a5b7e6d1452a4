"""Experiments as V2 shows them."""

from latchkey.engine.storage.catalog.experiment_rows import Experiment
from latchkey.subjects.experiments import wire


def experiment(project_id: str, one: Experiment) -> wire.Experiment:
    return wire.Experiment(
        id=one.id,
        project_id=project_id,
        name=one.name,
        variants=[
            wire.Variant(id=variant.id, weight=variant.weight, offering_id=variant.offering_id)
            for variant in one.variants
        ],
        created_at=one.created_at,
    )
