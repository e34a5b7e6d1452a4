"""/docs: the OpenAPI document as one page. Our own, because the usual viewers load their code from other hosts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

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
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"


@router.get("/docs")
async def show_reference(request: Request) -> HTMLResponse:
    return HTMLResponse(page(request.app.openapi()), headers={"content-security-policy": POLICY})


def page(document: dict[str, Any]) -> str:
    info = document["info"]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style>"
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1><p>{escape(info.get('summary', ''))}</p>"
        "<p>Send <code>Authorization: Bearer &lt;key&gt;</code> with every request. "
        "The same as data: <a href=/openapi.json>/openapi.json</a>.</p>"
        f"{''.join(_operations(document))}<h2>Shapes</h2>{''.join(_shapes(document))}</html>"
    )


def _operations(document: dict[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            tag = (operation.get("tags") or ["Other"])[0]
            by_tag.setdefault(tag, []).append(_operation(path, method, operation))
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(operations)}"


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
        + f"<table>{replies}</table></details>"
    )


def _shapes(document: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
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
