"""Enrolling customers in experiments."""

from __future__ import annotations

from pydantic import ConfigDict
from starlette.responses import Response

from latchkey.api.authentication import WriteKey
from latchkey.api.models import Body, CustomerId, either_id
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.experiments.enrollments import enroll_customer
from latchkey.wire.v2 import ExperimentEnrollment

router = Router(prefix="/v2/projects/{project_id}/experiments", tags=["V2 experiments"])


class NewEnrollment(Body):
    model_config = ConfigDict(json_schema_extra=either_id)

    app_user_id: CustomerId


@router.post("/{experiment_id}/enroll", responses=shows(ExperimentEnrollment), response_class=Response)
async def enroll(services: Provided, caller: WriteKey, experiment_id: str, new: NewEnrollment) -> Response:
    """Enrol a customer. Idempotent: a hash decides the variant, which stays the same."""
    done = await enroll_customer(services.changes, caller.project_id, experiment_id, new.app_user_id)
    mine = next(one for one in done.customer.enrollments if one.experiment_id == experiment_id)
    return reply(ExperimentEnrollment(id=mine.experiment_id, name=mine.name, variant=mine.variant_id))
