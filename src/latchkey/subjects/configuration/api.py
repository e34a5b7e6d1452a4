"""A project's configuration as one document: read, compared and applied."""

from typing import Annotated, Any

from pydantic import Field

from latchkey.http.audited import actor
from latchkey.http.authentication import Call, ReadKey, WriteKey, address_of
from latchkey.http.models import Body
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.configuration import wire
from latchkey.subjects.configuration.usecases import planning

router = Router(prefix="/v2/projects/{project_id}/config", tags=["V2 configuration"])

Variable = Annotated[str, Field(max_length=5000)]
Given = Annotated[
    dict[str, Any],
    Field(repr=False, description="The configuration, as `GET` returns it. `latchkey config schema` has its form."),
]


class WantedConfig(Body):
    config: Given
    variables: Annotated[dict[str, Variable], Field(max_length=1000)] = Field(
        default_factory=dict, repr=False, description="The values of `${NAME}` in webhooks. Never shown."
    )
    prune: bool = Field(default=False, description="Also delete what the sections that are given do not name.")


class AppliedConfig(WantedConfig):
    fingerprint: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="Of a plan: only its changes are made, or none."
    )


@router.get("", responses=shows(wire.Config))
async def read_config(call: ReadKey) -> Response:
    """Apps, currencies, entitlements, products, offerings, placements, targeting rules, experiments and webhooks as one
    document."""
    found = await planning.load_document(call.services.webhooks, call.project_id)
    return reply(wire.Config(project_id=call.project_id, config=found))


@router.post("/plan", responses=shows(wire.ConfigPlan))
async def plan_config(call: WriteKey, wanted: WantedConfig) -> Response:
    """What `apply` would change, and how many customers would gain and lose access. Changes nothing."""
    return reply(await planning.plan(call.services.webhooks, call.project_id, await _wish(call, wanted), call.now()))


@router.acts("/apply", wire.ConfigPlan, "config.applied", about="config")
async def apply_config(call: WriteKey, wanted: AppliedConfig) -> Response:
    """Make the project like the configuration: all of it, or nothing. What is not in it is left alone."""
    return reply(await planning.apply(call.services.webhooks, call.project_id, await _wish(call, wanted), call.now()))


async def _wish(call: Call, wanted: WantedConfig) -> planning.Wish:
    address = address_of(call.exchange, call.services)
    return planning.Wish(
        wanted.config, **wanted.model_dump(exclude={"config"}), actor=await actor(call), address=address
    )
