"""Experiments, and enrolling customers in them."""

from typing import Annotated

from pydantic import ConfigDict, Field

from latchkey.domain.customers import enrollment
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.models import AnyId, Body, CustomerId, Id, Name, Paging, either_id
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.experiments import usecases, wire
from latchkey.wire.attributes import from_attributes
from latchkey.wire.v2 import ExperimentEnrollment, Page

router = Router(prefix="/v2/projects/{project_id}/experiments", tags=["V2 experiments"])


class NewVariant(Body):
    id: Id
    weight: Annotated[int, Field(ge=1, le=usecases.HEAVIEST)]
    offering_id: AnyId | None = None


class NewExperiment(Body):
    name: Name
    variants: Annotated[list[NewVariant], Field(min_length=usecases.FEWEST, max_length=usecases.MOST)]


class VariantOffering(Body):
    id: Id
    # Null: its customers see the current offering.
    offering_id: AnyId | None


class ExperimentChanges(Body):
    variants: Annotated[list[VariantOffering], Field(min_length=1, max_length=usecases.MOST)]


@router.creates("", wire.Experiment, "experiment.created")
async def create_experiment(call: WriteKey, new: NewExperiment) -> Response:
    """Create an experiment. Each variant gets a share of the enrolled customers in proportion to its weight. They see
    the variant's offering as the current one, if it has one."""
    variants = [enrollment.Variant(variant.id, variant.weight, variant.offering_id) for variant in new.variants]
    made = await call.run(usecases.create_experiment, new.name, variants, call.now())
    return reply(_shown(call, made), 201)


@router.get("", responses=shows(Page[wire.Experiment]))
async def list_experiments(call: ReadKey, paging: Paging) -> Response:
    """The project's experiments, oldest first."""
    found = await call.run(usecases.list_experiments, *paging.window)
    return reply(paging.of([_shown(call, experiment) for experiment in found]))


@router.get("/{experiment_id}", responses=shows(wire.Experiment))
async def read_experiment(call: ReadKey, experiment_id: str) -> Response:
    """One experiment."""
    return reply(_shown(call, await call.run(usecases.load_experiment, experiment_id)))


@router.updates("/{experiment_id}", wire.Experiment, "experiment.updated")
async def update_experiment(call: WriteKey, experiment_id: str, changes: ExperimentChanges) -> Response:
    """Change which offering the customers of a variant see. Who is in which variant stays."""
    chosen = {variant.id: variant.offering_id for variant in changes.variants}
    changed = await call.run(usecases.set_offerings, experiment_id, chosen)
    return reply(_shown(call, changed))


def _shown(call: Call, one: enrollment.Experiment) -> wire.Experiment:
    return from_attributes(wire.Experiment, one, project_id=call.project_id)


class NewEnrollment(Body):
    model_config = ConfigDict(json_schema_extra=either_id)

    app_user_id: CustomerId


@router.post("/{experiment_id}/enroll", responses=shows(ExperimentEnrollment))
async def enroll(call: WriteKey, experiment_id: str, new: NewEnrollment) -> Response:
    """Enrol a customer. Idempotent: a hash decides the variant, which stays the same."""
    mine = await usecases.enroll_customer(call.changes, call.project_id, experiment_id, new.app_user_id)
    return reply(ExperimentEnrollment(id=mine.experiment_id, name=mine.name, variant=mine.variant_id))
