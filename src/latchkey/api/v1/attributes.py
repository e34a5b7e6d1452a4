"""Setting a subscriber's attributes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, ValidationError
from starlette.responses import Response

from latchkey.api.authentication import AppWriteKey
from latchkey.api.errors import BadRequest
from latchkey.api.models import Body, Instant, PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.domain.customers.attributes import MAX_COUNT, problem_with_attribute
from latchkey.domain.customers.customer import Attribute
from latchkey.usecases.customers.attributes import set_attributes
from latchkey.wire.actions import V1AttributesSaved
from latchkey.wire.errors import RejectedAttribute

router = APIRouter(tags=["V1 subscribers"])


class NewAttribute(Body):
    value: str | None
    updated_at_ms: Instant


Attributes = Annotated[dict[str, NewAttribute], Field(max_length=MAX_COUNT)]


class NewAttributes(Body):
    attributes: Attributes


def checked(attributes: Mapping[str, NewAttribute]) -> dict[str, Attribute]:
    """The attributes, or one error that names all invalid ones."""
    problems = [
        RejectedAttribute(key_name=name, message=problem)
        for name, one in attributes.items()
        if (problem := problem_with_attribute(name, one.value)) is not None
    ]
    if problems:
        raise BadRequest(
            "Some attributes cannot be kept; none was saved.",
            code=7263,
            type="parameter_error",
            param="attributes",
            attribute_errors=problems,
        )
    return {name: Attribute(one.value or "", one.updated_at_ms) for name, one in attributes.items()}


def sorted_out(attributes: Any) -> tuple[dict[str, Attribute], list[RejectedAttribute]]:
    """The valid attributes, and the problems of the others. For attributes sent along with something more important,
    whatever their type. At most 100 are read, so that the reply stays small."""
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
                good[name] = Attribute(one.value or "", one.updated_at_ms)
        if problem is not None:
            problems.append(RejectedAttribute(key_name=name, message=problem))
    if len(attributes) > MAX_COUNT:
        message = f"There are {len(attributes)} attributes; only the first {MAX_COUNT} were read."
        problems.append(RejectedAttribute(key_name="attributes", message=message))
    return good, problems


def _first_problem(invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
    if not first["loc"]:
        return "An attribute is an object with value and updated_at_ms."
    problem = "There is no such field" if first["type"] == "extra_forbidden" else first["msg"]
    return f"{first['loc'][0]}: {problem}."


@router.post("/v1/subscribers/{app_user_id}/attributes", responses=shows(V1AttributesSaved), response_class=Response)
async def post_attributes(
    services: Provided, caller: AppWriteKey, app_user_id: PathUserId, new: NewAttributes
) -> Response:
    """Set attributes; of two values the newer `updated_at_ms` wins, and null or an empty one deletes."""
    attributes = checked(new.attributes)
    await set_attributes(services.changes, caller.project_id, app_user_id, attributes, create=True)
    return reply(V1AttributesSaved(attribute_errors=[]))
