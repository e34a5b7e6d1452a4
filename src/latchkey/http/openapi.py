"""The OpenAPI document: what FastAPI derives from the routes, corrected where our responses differ."""

import re
from collections import defaultdict
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from msgspec import json

from latchkey.http.audited import LONGEST_KEY, PATTERN
from latchkey.http.routing import SHAPE, shapes, shows
from latchkey.wire.errors import V1Error, V2Error

_PROJECT = "/v2/projects/{project_id}"


def stem(path: str, method: str, status: str) -> str:
    """The folder and the beginning of the name of an example: `v2/customers.customer_id.get.200`."""
    words = [word.strip("{}") for word in path.removeprefix(_PROJECT).split("/") if word]
    folder = path.split("/")[1]
    if folder == "rcbilling":
        words = words[2:]
    elif words[:1] in (["v1"], ["v2"]):
        words = words[1:]
    return f"{folder}/{'.'.join([*(words or ['project']), method.lower(), status])}"


def examples(path: str, method: str, status: str) -> dict[str, Any]:
    """By name: what a reply with this status looks like. Empty where no file shows one, or it has no body."""
    found = _files().get(stem(path, method, status), {})
    return {name: {"value": json.decode(body)} for name, body in found.items()}


@cache
def _files() -> dict[str, dict[str, bytes]]:
    """By stem: the examples with their names. The file `receipts.post.400.invalid_receipt` is the example
    `invalid_receipt` of the stem `receipts.post.400`. It can also be the only example of a longer stem."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    folder = _folder()
    for room in folder.iterdir() if folder is not None else ():
        if not room.is_dir():
            continue
        for file in sorted(room.iterdir(), key=lambda file: file.name):
            if file.name.endswith(".json") and (body := file.read_bytes()):
                whole = f"{room.name}/{file.name.removesuffix('.json')}"
                start, _, name = whole.rpartition(".")
                found[whole]["example"] = body
                found[start][name] = body
    return dict(found)


def _folder() -> Traversable | None:
    packaged = files("latchkey") / "contract"
    beside = Path(__file__).parents[3] / "contract"
    return packaged if packaged.is_dir() else beside if beside.is_dir() else None


TITLE = "Latchkey"
SUMMARY = "What users bought, what they may do, and a webhook for every change."

# Paths whose errors are those of V1.
_V1 = ("/v1/", "/rcbilling/")
_BODY_METHODS = frozenset({"post", "put", "patch", "delete"})
_ERRORS = {
    "400": "The request is malformed.",
    "401": "There is no API key, or it is not known.",
    "403": "The key may not do this.",
    "404": "What was named does not exist.",
    "429": "The key, or the user or address of a public key, has used up its requests of the last 60 seconds.",
    "500": "An unexpected error in the service.",
    "503": "The service cannot answer right now.",
}
_BODY_ERRORS = {
    "409": "The object to create exists already, that to delete is still in use, or the same request is under way.",
    "413": "The body is larger than 1 MiB.",
    "415": "The body is not JSON.",
    "422": "The request is not possible in the current state, or its Idempotency-Key was used for another one.",
}
_RETRY_AFTER = {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds to wait."}
_USAGE = {
    f"RevenueCat-Rate-Limit-Current-{name}": {"schema": {"type": "integer", "minimum": 0}, "description": description}
    for name, description in (
        ("Usage", "Requests of this key in the last 60 seconds."),
        ("Limit", "Requests that are allowed in 60 seconds."),
    )
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Sent again with the same key within 24 hours, the request is not carried out again and gets the "
    "same reply, with `Idempotent-Replayed: true`. Another path or body with the same key is a 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": PATTERN},
}
# The action of an operation in the audit log. Such an operation has dry runs.
ACTION = "x-latchkey-action"
_REQUEST_ID = {"schema": {"type": "string"}, "description": "Quote it when asking for help."}


def document(app: FastAPI, version: str) -> dict[str, Any]:
    v1_error, v2_error = _schema_of(V1Error), _schema_of(V2Error)
    made = get_openapi(title=TITLE, version=version, summary=SUMMARY, routes=app.routes)
    for path, item in made["paths"].items():
        for method, operation in item.items():
            _make_true(path, method, operation, v1_error if path.startswith(_V1) else v2_error)
            # FastAPI would make it of the function's name.
            operation["summary"] = first_words(operation["description"])
    for route in app.routes:
        if isinstance(route, APIRoute) and (action := getattr(route.endpoint, "audited_as", None)):
            for method in route.methods or ():
                made["paths"][route.path][method.lower()][ACTION] = action
    refs, components = json.schema_components(shapes(), ref_template="#/components/schemas/{name}")
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    # FastAPI's own error body is never sent.
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas.update(components)
    filled: dict[str, Any] = _fill(made, refs)
    return filled


def first_words(description: str) -> str:
    """The first sentence of a description, or its beginning if that says enough."""
    sentence = " ".join(description.split()).split(". ")[0].rstrip(".")
    start = re.split(r"[;:] ", sentence)[0]
    return start if len(start.split()) > 2 else sentence


def _make_true(path: str, method: str, operation: dict[str, Any], error: dict[str, Any]) -> None:
    responses = operation["responses"]
    declared = responses.get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if declared.get("$ref", "").endswith("/HTTPValidationError"):
        del responses["422"]
    if not path.startswith((*_V1, "/v2/")):
        return
    if path.startswith("/v2/") and method == "post":
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
    expected = _ERRORS | (_BODY_ERRORS if method in _BODY_METHODS else {})
    for status, description in expected.items():
        responses.setdefault(
            status, {"description": description, "content": {"application/json": {"schema": dict(error)}}}
        )
    for status, response in responses.items():
        content = response.get("content", {}).get("application/json")
        if content is not None and (shown := examples(path, method, status)):
            content["examples"] = shown
        headers = response.setdefault("headers", {})
        headers["X-Request-Id"] = _REQUEST_ID
        if status in {"429", "503"}:
            headers["Retry-After"] = _RETRY_AFTER
        if path.startswith("/v2/") and status.startswith("2"):
            headers |= _USAGE


def _schema_of(shape: Any) -> dict[str, Any]:
    schema: dict[str, Any] = shows(shape)[200]["content"]["application/json"]["schema"]
    return schema


def _fill(node: Any, refs: tuple[dict[str, Any], ...]) -> Any:
    if isinstance(node, dict):
        if SHAPE in node:
            return refs[node[SHAPE]]
        return {key: _fill(value, refs) for key, value in node.items()}
    if isinstance(node, list):
        return [_fill(value, refs) for value in node]
    return node
