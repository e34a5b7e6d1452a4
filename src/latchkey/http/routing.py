"""The router of a resource; replies made of wire types, and their schemas in the OpenAPI document."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Depends
from msgspec import json
from starlette.responses import Response as Response  # routes know the framework by this module alone

from latchkey.http.audited import Endpoint, audited
from latchkey.http.body import check_body


class Router(APIRouter):
    """Checks the body of every request to its routes.

    The application has the routes of all routers, as they are. FastAPI's `include_router` would build each of them a
    second time, to add what the application wants of all: that took 0.3 s of CPU of every start.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(dependencies=[Depends(check_body)], default_response_class=Response, **options)

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().add_api_route(path, endpoint, **options)
        route: Any = self.routes[-1]
        # The key is checked before the body.
        route.dependant.dependencies.append(route.dependant.dependencies.pop(0))

    # Routes that change something with a secret key: the path, what they show, and the action in the audit log.

    def acts(
        self, path: str, shape: Any, action: str, *, methods: Sequence[str] = ("POST",), status: int = 200, **audit: Any
    ) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            noted = audited(action, **audit)(endpoint)
            for method in methods:
                self.add_api_route(path, noted, methods=[method], responses=shows(shape, status), status_code=status)
            return noted

        return add

    def creates(self, path: str, shape: Any, action: str) -> Callable[[Endpoint], Endpoint]:
        return self.acts(path, shape, action, status=201)

    def updates(self, path: str, shape: Any, action: str) -> Callable[[Endpoint], Endpoint]:
        return self.acts(path, shape, action, methods=("POST", "PATCH"))

    def deletes(self, path: str, shape: Any, action: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.acts(path, shape, action, methods=("DELETE",), **options)


# Placeholder for a wire type in the document, until `documentation` has all schemas.
SHAPE = "x-latchkey-shape"

_encode = json.Encoder().encode
_shapes: list[Any] = []


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A reply with a wire type, or anything else msgspec can encode, as JSON."""
    return Response(_encode(value), status, headers=headers, media_type="application/json")


def shows(shape: Any, status: int = 200, description: str = "Successful response") -> dict[int | str, dict[str, Any]]:
    """For a route's `responses=`: this status has a body of this type. Several are joined with `|`."""
    if shape not in _shapes:
        _shapes.append(shape)
    schema = {SHAPE: _shapes.index(shape)}
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}


def shapes() -> list[Any]:
    return _shapes
