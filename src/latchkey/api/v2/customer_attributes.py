"""Setting a customer's attributes from a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import WriteKey
from latchkey.api.errors import InvalidParameter
from latchkey.api.models import Body, PathUserId
from latchkey.api.reads import V2_ROUTE
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.domain.customers.attributes import MAX_NAME, MAX_VALUE, problem_with_attribute
from latchkey.usecases.customers.attributes import put_attributes
from latchkey.usecases.rendering import v2 as render
from latchkey.wire import v2

router = Router(tags=["V2 customers"])

MOST_ATTRIBUTES = 50


class NewAttribute(Body):
    """Null deletes the attribute."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    value: Annotated[str, Field(max_length=MAX_VALUE)] | None


NewAttributes: TypeAlias = list[NewAttribute]


class AttributeChanges(Body):
    attributes: NewAttributes = Field(min_length=1, max_length=MOST_ATTRIBUTES)


@router.post(f"{V2_ROUTE}/attributes", responses=shows(v2.Page[v2.Attribute]), response_class=Response)
@audited("customer.attributes_set")
async def set_attributes(
    services: Provided, caller: WriteKey, customer_id: PathUserId, changes: AttributeChanges
) -> Response:
    """Set attributes now: all of them, or none. Null deletes one. The reply is the first page of all attributes."""
    values = checked(changes.attributes)
    done = await put_attributes(services.changes, caller.project_id, customer_id, values)
    return reply(render.attributes(done.view(services.now()), render.DEFAULT_LIMIT, None))


def checked(attributes: Sequence[NewAttribute]) -> dict[str, str | None]:
    """The values by name, or one error that names every attribute that cannot be kept."""
    problems = [
        f"{one.name!r}: {problem}"
        for one in attributes
        if (problem := problem_with_attribute(one.name, one.value)) is not None
    ]
    named = Counter(one.name for one in attributes)
    problems += [f"{name!r}: It is there {times} times." for name, times in named.items() if times > 1]
    if problems:
        raise InvalidParameter(
            f"Some attributes cannot be stored; none was saved. {' '.join(problems)}", param="attributes"
        )
    return {one.name: one.value for one in attributes}
