"""Setting a subscriber's attributes."""

from __future__ import annotations

import math
from itertools import islice
from typing import Annotated, Any

from fastapi import Request
from pydantic import BeforeValidator, Field, ValidationError
from starlette.responses import Response

from latchkey.api.authentication import AppWriteKey
from latchkey.api.errors import BadRequest
from latchkey.api.exchange import SCOPE_KEY
from latchkey.api.field_errors import said
from latchkey.api.models import AppBody, Instant, PathUserId
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.v1.reply import subscriber
from latchkey.domain.customers.customer import MAX_COUNT, Attribute, problem_with_attribute
from latchkey.domain.instants import Ms
from latchkey.usecases.customers.attributes import set_attributes
from latchkey.wire.errors import RejectedAttribute
from latchkey.wire.v1 import AttributesSaved

router = Router(tags=["V1 subscribers"])


def _whole(value: Any) -> Any:
    """A number that was sent as text or with a fraction, as some clients do."""
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    return int(value) if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdigit() else value


class NewAttribute(AppBody):
    value: str | None
    # Without it the value counts from now on.
    updated_at_ms: Annotated[Instant | None, BeforeValidator(_whole)] = None


class NewAttributes(AppBody):
    attributes: Annotated[
        dict[str, Any],
        Field(
            description="By name, each with `value` (a text; null deletes) and `updated_at_ms`. At most "
            f"{MAX_COUNT} are read."
        ),
    ]


def sorted_out(attributes: Any, now: Ms) -> tuple[dict[str, Attribute], list[RejectedAttribute]]:
    """The valid attributes, and the problems of the others, whatever their type. At most 100 are read, so that the
    reply stays small."""
    if attributes is None:
        return {}, []
    if not isinstance(attributes, dict):
        return {}, [RejectedAttribute(key_name="attributes", message="The attributes are not an object.")]
    good: dict[str, Attribute] = {}
    problems: list[RejectedAttribute] = []
    for name, sent in islice(attributes.items(), MAX_COUNT):
        try:
            one = NewAttribute.model_validate(sent)
        except ValidationError as invalid:
            problem: str | None = _first_problem(invalid)
        else:
            problem = problem_with_attribute(name, one.value)
            if problem is None:
                good[name] = Attribute(one.value or "", now if one.updated_at_ms is None else one.updated_at_ms)
        if problem is not None:
            problems.append(RejectedAttribute(key_name=name, message=problem))
    if len(attributes) > MAX_COUNT:
        message = f"There are {len(attributes)} attributes; only the first {MAX_COUNT} were read."
        problems.append(RejectedAttribute(key_name="attributes", message=message))
    return good, problems


def _first_problem(invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return "An attribute is an object with value and updated_at_ms."
    return f"{first['loc'][0]}: {said(first)}"


@router.post("/v1/subscribers/{app_user_id}/attributes", responses=shows(AttributesSaved))
async def post_attributes(
    request: Request, services: Provided, caller: AppWriteKey, app_user_id: PathUserId, new: NewAttributes
) -> Response:
    """Set attributes; of two values the newer `updated_at_ms` wins, and null or an empty one deletes. The valid ones
    are saved also if others are not: the SDKs never send an attribute again after a 4xx. Then the reply is 400 with
    code 7263, and `attribute_errors` names those that were not saved."""
    good, problems = sorted_out(new.attributes, services.now())
    saved = None
    if good or not problems:
        saved = await set_attributes(services.changes, caller.project_id, app_user_id, good, create=True)
    if saved is None or problems:
        raise BadRequest(
            "Some attributes cannot be stored; the others were saved.",
            code=7263,
            type="parameter_error",
            param="attributes",
            attribute_errors=problems,
        )
    body = subscriber(request.scope[SCOPE_KEY], services, caller, saved.view(services.now()))
    return reply(
        AttributesSaved(
            request_date=body.request_date,
            request_date_ms=body.request_date_ms,
            subscriber=body.subscriber,
            attribute_errors=[],
        )
    )
