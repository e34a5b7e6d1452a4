"""`/docs`: the OpenAPI document as pages, with a search and a console. Its files are beside this one."""

import asyncio
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Request
from jinja2 import Environment, Template
from markupsafe import Markup
from msgspec import json
from starlette.responses import HTMLResponse

from latchkey.http.errors import NoSuchPath
from latchkey.http.routing import Response, Router, reply
from latchkey.subjects.mcp.rules import shapes_of

router = Router(include_in_schema=False)

# Our own files and nothing inline. A form is sent by the script, so that a key in it never gets into an address.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_FILES = {
    f"reference.{ending}": (files("latchkey.subjects.console").joinpath(f"reference.{ending}").read_bytes(), kind)
    for ending, kind in (("css", "text/css"), ("js", "text/javascript"))
}
# No operation's example is deeper; a shape may contain itself.
_DEEPEST = 6


@router.get("/openapi.json")
async def show_document(request: Request) -> Response:
    return reply(await _document(request))


@router.get("/docs")
async def show_reference(request: Request) -> HTMLResponse:
    """All operations, by area."""
    return _page(await _document(request))


@router.get("/docs/search.json")
async def show_index(request: Request) -> Response:
    """Every operation, for the search."""
    found = [
        {"method": method.upper(), "path": path, "summary": operation["summary"], "href": _href(tag, method, path)}
        for tag, operations in areas_of(await _document(request)).items()
        for path, method, operation in operations
    ]
    return reply(found)


@router.get("/docs/{area}")
async def show_area(request: Request, area: str) -> Response:
    """The operations of one area with examples of their replies, and the shapes that they use; or a file of the
    pages."""
    if area in _FILES:
        body, kind = _FILES[area]
        return Response(body, media_type=kind)
    document = await _document(request)
    tag = next((tag for tag in areas_of(document) if slug(tag) == area), None)
    if tag is None:
        raise NoSuchPath("There is no such page. /docs lists them all.")
    return _page(document, tag)


async def _document(request: Request) -> dict[str, Any]:
    """Making it takes a moment, the first time."""
    made: dict[str, Any] = await asyncio.to_thread(request.app.openapi)
    return made


def _page(document: dict[str, Any], tag: str = "") -> HTMLResponse:
    areas = areas_of(document)
    schemas = document["components"]["schemas"]
    used = shapes_of(areas[tag], schemas) if tag else {}
    text = _template().render(
        document,
        tag=tag,
        areas=areas,
        schemas=dict(sorted(used.items())),
        sample=lambda schema: sample(schema, schemas),
    )
    return HTMLResponse(text, headers={"content-security-policy": POLICY})


@cache
def _template() -> Template:
    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(slug=slug, indented=lambda value: json.format(json.encode(value), indent=2).decode())
    # A path may break into lines after / and _.
    made.filters["parted"] = lambda path: Markup("<wbr>").join(re.split(r"(?<=[/_])(?=[\w{])", path))
    made.globals.update(anchor=anchor, href=_href)
    return made.from_string(files("latchkey.subjects.console").joinpath("reference.html").read_text(encoding="utf-8"))


def slug(text: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def anchor(method: str, path: str) -> str:
    return f"{method}-{slug(path)}"


def _href(tag: str, method: str, path: str) -> str:
    return f"/docs/{slug(tag)}#{anchor(method, path)}"


def areas_of(document: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """By tag: path, method and operation."""
    found: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            found.setdefault((operation.get("tags") or ["Other"])[0], []).append((path, method, operation))
    return found


def sample(schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int = 0) -> Any:
    """A body to begin with: the fields that are required."""
    if depth > _DEEPEST:
        return None
    if name := schema.get("$ref"):
        return sample(schemas[name.rpartition("/")[2]], schemas, depth + 1)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if "properties" in schema:
        wanted = [name for name in schema["properties"] if name in schema.get("required", ())]
        return {name: sample(schema["properties"][name], schemas, depth + 1) for name in wanted}
    if union := schema.get("anyOf") or schema.get("oneOf"):
        return sample(union[0], schemas, depth + 1)
    if schema.get("type") == "array":
        return [sample(schema["items"], schemas, depth + 1)] if schema.get("minItems") else []
    empty = {"object": {}, "string": "", "integer": schema.get("minimum", 0), "number": 0, "boolean": False}
    return empty.get(str(schema.get("type")))
