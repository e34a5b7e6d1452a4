"""Experiments as V2 shows them."""

from latchkey.domain.customers.enrollment import Experiment
from latchkey.subjects.experiments import wire
from latchkey.wire.shape import shaped


def experiment(project_id: str, one: Experiment) -> wire.Experiment:
    return shaped(wire.Experiment, one, project_id=project_id)
