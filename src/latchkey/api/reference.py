"""/openapi.json, and /docs: the OpenAPI document as pages, one for each area.

The pages are our own, because the usual viewers load their code from other hosts. The document is built when somebody
first asks for it. That takes 0.7 s of CPU, so it happens in a thread: other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Container, Iterator
from html import escape
from typing import Any

from fastapi import FastAPI, Request
from msgspec import json
from starlette.responses import HTMLResponse, Response

from latchkey.api.errors import NoSuchPath
from latchkey.api.routing import Router

router = Router(include_in_schema=False)

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:.5rem;margin:.5rem 0;padding:.4rem .8rem}
summary{cursor:pointer}
code,pre{font:14px/1.45 ui-monospace,monospace}
pre{background:var(--soft);padding:.6rem;border-radius:.4rem;overflow-x:auto}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
.method{display:inline-block;min-width:4.2rem;font-weight:600}
@media(max-width:44rem){
:not(pre)>code{overflow-wrap:anywhere}
tr,td,th{display:block}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td,th{padding:.1rem 0;border:0}
}
"""
_WORD = re.compile(r"[a-z0-9]+")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"


@router.get("/openapi.json")
async def show_document(request: Request) -> Response:
    return Response(json.encode(await _document(request)), media_type="application/json")


@router.get("/docs")
async def show_reference(request: Request) -> HTMLResponse:
    return _shown(page(await _document(request)))


@router.get("/docs/{area}")
async def show_area(request: Request, area: str) -> HTMLResponse:
    document = await _document(request)
    tag = next((one for one in _areas(document) if slug(one) == area), None)
    if tag is None:
        raise NoSuchPath("There is no such page. /docs lists them all.")
    return _shown(area_page(document, tag))


async def _document(request: Request) -> dict[str, Any]:
    app: FastAPI = request.app
    if (made := app.openapi_schema) is not None:
        return made
    return await asyncio.to_thread(app.openapi)


def slug(tag: str) -> str:
    return "-".join(_WORD.findall(tag.lower()))


def page(document: dict[str, Any]) -> str:
    """All operations, by area."""
    areas = "".join(
        f"<h2><a href='/docs/{slug(tag)}'>{escape(tag)}</a></h2><table>{''.join(map(_row, operations))}</table>"
        for tag, operations in _areas(document).items()
    )
    return _framed(
        document,
        "",
        "<p>Send <code>Authorization: Bearer &lt;key&gt;</code> with every request. "
        f"The same as data: <a href=/openapi.json>/openapi.json</a>.</p>{areas}",
    )


def area_page(document: dict[str, Any], tag: str) -> str:
    """The operations of one area with examples of their replies, and the shapes that they use."""
    operations = _areas(document)[tag]
    used = _used(document, [operation for _, _, operation in operations])
    return _framed(
        document,
        tag,
        f"<p><a href=/docs>All areas</a></p>{''.join(_operation(*one) for one in operations)}"
        f"<h2>Shapes</h2>{''.join(_shapes(document, used))}",
    )


def _shown(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers={"content-security-policy": POLICY})


def _framed(document: dict[str, Any], title: str, content: str) -> str:
    info = document["info"]
    name = f"{escape(info['title'])} API"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title) + ' · ' if title else ''}{name}</title><style>{STYLE}</style>"
        f"<h1>{escape(title) or name + ' ' + escape(info['version'])}</h1>"
        f"<p>{escape(info.get('summary', '')) if not title else ''}</p>{content}</html>"
    )


def _areas(document: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """By tag: path, method and operation."""
    found: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            found.setdefault((operation.get("tags") or ["Other"])[0], []).append((path, method, operation))
    return found


def _row(one: tuple[str, str, dict[str, Any]]) -> str:
    path, method, operation = one
    said = (operation.get("description") or operation.get("summary", "")).split(". ")[0].rstrip(".")
    return f"<tr><td><span class=method>{method.upper()}</span> <code>{escape(path)}</code><td>{escape(said)}.</tr>"


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
        f"<td>{_type(parameter.get('schema', {}))}<td>{escape(parameter.get('description', ''))}"
        for parameter in operation.get("parameters", ())
    )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    replies = "".join(
        f"<tr><td>{escape(status)}<td>{_type(_content(response))}<td>{escape(response.get('description', ''))}"
        for status, response in operation["responses"].items()
    )
    return (
        f"<details><summary><span class=method>{method.upper()}</span> <code>{escape(path)}</code></summary>"
        f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"
        + (f"<table>{rows}</table>" if rows else "")
        + (f"<p>Body: {_type(body)}</p>" if body else "")
        + f"<table>{replies}</table>{''.join(_examples(operation))}</details>"
    )


def _examples(operation: dict[str, Any]) -> Iterator[str]:
    for status, response in operation["responses"].items():
        for name, one in response.get("content", {}).get("application/json", {}).get("examples", {}).items():
            also = "" if name == "example" else f", {name.replace('_', ' ')}"
            text = json.format(json.encode(one["value"]), indent=2).decode()
            yield f"<p>{escape(status)}{escape(also)}:</p><pre>{escape(text)}</pre>"


def _used(document: dict[str, Any], node: Any) -> set[str]:
    """The names of all shapes that something refers to, directly or through others."""
    schemas = document.get("components", {}).get("schemas", {})
    found: set[str] = set()
    waiting: list[Any] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name in schemas and name not in found:
                found.add(name)
                waiting.append(schemas[name])
            waiting.extend(value for key, value in one.items() if key != "examples")
        elif isinstance(one, list):
            waiting.extend(one)
    return found


def _shapes(document: dict[str, Any], wanted: Container[str]) -> Iterator[str]:
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        if name not in wanted:
            continue
        required = set(schema.get("required", ()))
        rows = "".join(
            f"<tr><td><code>{escape(field)}</code><td>{_type(kind)}<td>{'' if field in required else 'may be absent'}"
            f"<td>{escape(kind.get('description', ''))}"
            for field, kind in schema.get("properties", {}).items()
        )
        shown = escape(name)
        yield f"<details id='{shown}'><summary><code>{shown}</code></summary><table>{rows}</table></details>"


def _content(response: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = response.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"<a href='#{escape(name)}'>{escape(name)}</a>"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(_type(one) for one in schema[union])
    if "const" in schema or "enum" in schema:
        return ", ".join(f"<code>{escape(str(value))}</code>" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "")))
