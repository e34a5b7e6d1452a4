"""The API reference: pages in Markdown from the OpenAPI document, with the examples of contract/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

from latchkey.process.http_application import routes
from latchkey.subjects.console.api import slug

FOLDER = "api"
# Longer examples are cut: the whole ones are in contract/.
_LONGEST = 60
Operation = tuple[str, str, dict[str, Any]]
# Where the name of the function says too little.
_TITLES = {
    "Act": "Buy, renew, refund and so on",
    "Alias": "Add an alias",
    "Assign": "Assign an offering",
    "Create": "Create customer",
    "Delete": "Delete customer",
    "Enroll": "Enroll a customer",
    "Healthz": "Check the process",
    "Identify": "Identify a customer",
    "Readyz": "Check the service and its database",
}
_ABBREVIATIONS = {"api": "API", "url": "URL"}


@cache
def document() -> dict[str, Any]:
    return routes().openapi()


def areas() -> dict[str, list[Operation]]:
    """Path, method and operation, by area."""
    found: dict[str, list[Operation]] = {}
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            found.setdefault((operation.get("tags") or ["Other"])[0], []).append((path, method, operation))
    return dict(sorted(found.items()))


def pages() -> dict[str, str]:
    """The Markdown of each page, by its path in the site."""
    made = {f"{FOLDER}/README.md": _index()}
    return made | {f"{FOLDER}/{slug(tag)}.md": _area(tag, operations) for tag, operations in areas().items()}


def _index() -> str:
    rows = [
        f"| [{tag}]({slug(tag)}.md) | {', '.join(sorted({_cell(path) for path, _, _ in operations})[:4])} |"
        for tag, operations in areas().items()
    ]
    return "\n".join(
        (
            "# API reference",
            "",
            "Every operation with its parameters and an example of each reply. The running service has the same at "
            "`/docs`, and as data at `/openapi.json`.",
            "",
            "Send `Authorization: Bearer KEY` with every request. Instants of V2 are epoch milliseconds; dates of V1 "
            "are ISO 8601.",
            "",
            "| Area | Paths |",
            "|---|---|",
            *rows,
        )
    )


def _area(tag: str, operations: list[Operation]) -> str:
    titles = titles_of(operations)
    pairs = zip(titles, operations, strict=True)
    return "\n".join((f"# {tag}", "", *(line for title, one in pairs for line in _operation(title, *one))))


def titles_of(operations: list[Operation]) -> list[str]:
    """What each does, in a few words. Where two do the same, the method or the end of the path tells them apart."""
    plain = [_title(operation) for _, _, operation in operations]
    methods = [
        title if plain.count(title) == 1 else f"{title}, {method.upper()}"
        for title, (_, method, _) in zip(plain, operations, strict=True)
    ]
    return [
        title if methods.count(title) == 1 else f"{title} …/{path.rsplit('/', 1)[-1]}"
        for title, (path, _, _) in zip(methods, operations, strict=True)
    ]


def _title(operation: dict[str, Any]) -> str:
    summary: str = operation["summary"]
    words = _TITLES.get(summary, summary.capitalize()).split(" ")
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


def _operation(title: str, path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {title}", "", f"`{method.upper()} {path}`", "")
    yield from (escape(operation.get("description") or operation.get("summary", ""), quote=False), "")
    if parameters := operation.get("parameters"):
        yield from ("| Parameter | In | Type | |", "|---|---|---|---|")
        for one in parameters:
            cells = (f"`{one['name']}`", one["in"], _type(one.get("schema", {})), _text(one.get("description", "")))
            yield f"| {' | '.join(cells)} |"
        yield ""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    yield from ("```sh", *_curl(path, method, body), "```", "")
    if body is not None:
        yield from _fields(body)
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            continue
        content = response.get("content", {}).get("application/json", {})
        yield from (f"**{status}** {_type(content.get('schema', {}))}", "")
        for name, one in list(content.get("examples", {}).items())[:2]:
            if name != "example":
                yield from (name.replace("_", " ").capitalize() + ":", "")
            yield from ("```json", *_cut(json.dumps(one["value"], indent=2, ensure_ascii=False)), "```", "")
    others = [status for status in operation["responses"] if not status.startswith("2")]
    yield from (f"Errors: {', '.join(others)}.", "")


def _curl(path: str, method: str, body: dict[str, Any] | None) -> list[str]:
    verb = "" if method == "get" else f" -X {method.upper()}"
    url = path.replace("{project_id}", "$PROJECT").replace("{", "$").replace("}", "").upper()
    for part in path.split("/"):
        if part and not part.startswith("{"):
            url = url.replace(f"/{part.upper()}", f"/{part}", 1)
    lines = [f'curl{verb} "https://latchkey.example.com{url}" \\', '  -H "Authorization: Bearer $KEY"']
    if body is not None:
        sent = json.dumps(_sample(body), ensure_ascii=False)
        lines[-1] += " \\"
        lines.append(f"  -H 'Content-Type: application/json' -d '{sent}'")
    return lines


def _fields(body: dict[str, Any]) -> Iterator[str]:
    schema = _resolved(body)
    properties = schema.get("properties", {})
    if not properties:
        return
    required = set(schema.get("required", ()))
    yield from ("| Field | Type | | |", "|---|---|---|---|")
    for name, one in properties.items():
        need = "required" if name in required else ""
        yield f"| `{name}` | {_type(one)} | {need} | {_text(one.get('description', ''))} |"
    yield ""


def _sample(schema: dict[str, Any], depth: int = 0) -> Any:
    """A value of this shape: the example of the schema, or the plainest one."""
    found = _resolved(schema)
    for key in ("examples", "enum"):
        if found.get(key):
            return found[key][0]
    for key in ("const", "default"):
        if found.get(key) is not None:
            return found[key]
    for union in ("anyOf", "oneOf"):
        if union in found and "properties" not in found:
            return _sample(found[union][0], depth)
    match found.get("type"):
        case "object":
            names = found.get("required") or list(found.get("properties", {}))[:2]
            inside = found.get("properties", {})
            return {name: _sample(inside.get(name, {}), depth + 1) for name in names} if depth < 4 else {}
        case "array":
            return [_sample(found.get("items", {}), depth + 1)] if depth < 4 else []
        case "integer" | "number":
            return found.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return "..."


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    if "anyOf" in schema and "properties" not in schema:
        inside = [one for one in schema["anyOf"] if one.get("type") != "null"]
        if len(inside) == 1 and "$ref" in inside[0]:
            return _resolved(inside[0])
    return schema


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[-1]}`"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[union]))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", ""))


def _cut(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if len(lines) <= _LONGEST else [*lines[:_LONGEST], "…"]


def _text(text: str) -> str:
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _cell(path: str) -> str:
    return f"`{path}`"
