"""Parts of requests and replies that several subjects share: filters, attributes of customers, apps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any

from msgspec import UNSET, UnsetType
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from latchkey.domain.customers.customer import MAX_COUNT, Attribute, Customer, problem_with_attribute
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid
from latchkey.engine.storage.catalog import app_rows
from latchkey.http.authentication import Call
from latchkey.http.errors import Unprocessable, said
from latchkey.http.models import AppBody, Instant, base_of, without_nul
from latchkey.subjects.api_keys import wire as api_keys_wire
from latchkey.subjects.projects import render as projects_render
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.projects import wire as projects_wire
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.subjects.segments.rules.filter import NAMES, CustomerFilter, parse
from latchkey.wire.errors import RejectedAttribute

FilterText = Annotated[str, Field(max_length=200), AfterValidator(without_nul)]


@contextmanager
def unprocessable(named: str = "filter") -> Iterator[None]:
    """A filter is text whose form a schema cannot describe, so what cannot be understood is 422 and not 400. `named` is
    the field that the filter came in."""
    try:
        yield
    except Invalid as refusal:
        raise Unprocessable(refusal.message, param=named if refusal.param == "filter" else refusal.param) from None


def parsed(given: Mapping[str, str]) -> CustomerFilter:
    """A filter in a body. A name that it does not have is refused: ignored, the list would be longer than was meant."""
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise Unprocessable(f"A filter has no {unknown[0]!r}. It has {', '.join(NAMES)}.", param="filter")
    # A value that a script forgot to fill in must not make the list longer than was meant.
    for name, text in given.items():
        if not text.strip():
            raise Unprocessable(f"{name} is empty. Leave it out, or give a value.", param=name)
    with unprocessable():
        return parse(given)


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


def left_out(attributes: Mapping[str, Attribute], customer: Customer) -> list[RejectedAttribute]:
    """The problems of valid attributes that the customer had no room for."""
    none = Attribute("", 0)
    return [
        RejectedAttribute(key_name=name, message=f"A customer has at most {MAX_COUNT} attributes.")
        for name, sent in attributes.items()
        # One that was deleted since it was sent is not missing.
        if sent.value and not (kept := customer.attributes.get(name, none)).value and sent.updated_at > kept.updated_at
    ]


def _first_problem(invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return "An attribute is an object with value and updated_at_ms."
    return f"{first['loc'][0]}: {said(first)}"


async def rendered_apps(call: Call) -> dict[str, projects_wire.App]:
    """All apps of a project, by id."""
    return {app.id: app for app in await shown_apps(call, await call.run(projects.all_apps))}


async def shown_apps(
    call: Call, apps: Sequence[app_rows.App], first_key: api_keys_wire.PublicApiKey | UnsetType = UNSET
) -> list[projects_wire.App]:
    """With the notification URL of those whose store can be connected."""
    found = await store_connections.load_some(call.services.stores, call.project_id, apps)
    urls = {id: base_of(call.request) + one.notification_path for id, one in found.items()}
    return [
        projects_render.app(
            call.project_id, app, urls.get(app.id), first_key, found[app.id].row.shown if app.id in found else None
        )
        for app in apps
    ]
