"""Tools from the OpenAPI document, requests from calls of tools, and who may ask from where."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct, json

from latchkey.domain.refusal import Invalid

_PROJECT = "/v2/projects/{project_id}"
# Marks an operation that has dry runs.
_ACTION = "x-latchkey-action"
_REFERENCE = re.compile(rb'"#/components/schemas/([^"]+)"')
_CONFIRM = {
    "type": "string",
    "description": "The `confirm` of this tool's dry run. Without it the call is a dry run: it says what would happen, "
    "and nothing changes. Ask the person before you confirm.",
}
# Words of a schema whose values are schemas by name; and words that it does not need.
_BY_NAME, _LEFT_OUT = frozenset({"properties", "$defs"}), frozenset({"pattern", "not", "title"})
# These paths exist in the vendor's shape only.
_VENDORS = frozenset({f"{_PROJECT}/customers/{{customer_id}}/subscriptions"})
# Names that URLs resolve away.
_NO_SEGMENT = frozenset({"", ".", ".."})


class OfferedTool(Struct, frozen=True):
    name: str
    title: str
    description: str
    # The scope that a key needs; one with `read` may also read charts.
    scope: str
    method: str
    path: str
    in_query: frozenset[str]
    schema: dict[str, Any]
    # Of a write: the path of the object that it is about, if it can be read.
    shows: str | None = None

    @property
    def writes(self) -> bool:
        return self.scope == "write"


class ToolRequest(Struct, frozen=True):
    method: str
    # The path and the query, encoded.
    target: str
    body: bytes = b""
    headers: dict[str, str] = {}


def is_offered(tool: OfferedTool, scopes: frozenset[str]) -> bool:
    return tool.scope in scopes or (tool.scope == "charts" and "read" in scopes)


def tools_of(document: Mapping[str, Any], listed: Mapping[str, Mapping[str, str]]) -> dict[str, OfferedTool]:
    """The listed operations that the document has; of those that change something, the ones that have dry runs."""
    found = {}
    for scope, operations in listed.items():
        for name, operation in operations.items():
            method, _, below = operation.partition(" ")
            described = document["paths"].get(_PROJECT + below, {}).get(method.lower())
            if described is not None and (scope == "write") == (_ACTION in described):
                found[name] = _tool(document, name, scope, method, _PROJECT + below, described)
    return found


def _tool(
    document: Mapping[str, Any], name: str, scope: str, method: str, path: str, described: Mapping[str, Any]
) -> OfferedTool:
    given = [one for one in described.get("parameters", ()) if one["in"] != "header" and one["name"] != "project_id"]
    properties = {one["name"]: one["schema"] for one in given}
    required = [one["name"] for one in given if one.get("required")]
    if body := described.get("requestBody"):
        properties["body"] = body["content"]["application/json"]["schema"]
        required += ["body"] if body.get("required") else []
    if scope == "write":
        properties["confirm"] = _CONFIRM
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    shows = next((one for one in _above(path) if "get" in document["paths"].get(one, {})), None)
    return OfferedTool(
        name, described["summary"], described.get("description") or described["summary"], scope, method, path,
        frozenset(one["name"] for one in given if one["in"] == "query"),
        _complete(schema, document["components"]["schemas"]), shows if scope == "write" else None,
    )  # fmt: skip


def _above(path: str) -> Iterator[str]:
    """This path and those above it that end with an id below the project."""
    while path != _PROJECT:
        if path.endswith("}"):
            yield path
        path = path.rpartition("/")[0]


def shapes_of(node: Any, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """By name: all shapes that something refers to, directly or through others."""
    found: dict[str, Any] = {}
    waiting = [node]
    while waiting:
        for name in map(bytes.decode, _REFERENCE.findall(json.encode(waiting.pop()))):
            if name not in found:
                found[name] = schemas[name]
                waiting.append(schemas[name])
    return found


def _complete(schema: dict[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """With the shapes that it refers to, and without checks that the API makes itself: not all assistants know them."""
    shapes = shapes_of(schema, schemas)
    whole = schema | ({"$defs": shapes} if shapes else {})
    made: dict[str, Any] = _lean(json.decode(_REFERENCE.sub(rb'"#/$defs/\1"', json.encode(whole))))
    return made


def _lean(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_lean(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        word: {name: _lean(one) for name, one in value.items()} if word in _BY_NAME else _lean(value)
        for word, value in schema.items()
        if word not in _LEFT_OUT
    }


def request_of(tool: OfferedTool, project_id: str, arguments: Mapping[str, Any]) -> ToolRequest:
    """Without `confirm` it is the dry run of a write. What is wrong in a body or a query, the API says itself."""
    unknown = sorted(arguments.keys() - tool.schema["properties"].keys())
    if unknown:
        raise Invalid(f"This tool has no argument {unknown[0][:100]!r}.", param=unknown[0][:100])
    try:
        query = _query(tool, arguments)
        target = _filled(tool.path, project_id, arguments) + (f"?{query}" if query else "")
        # Sorted, so that a call and its confirmation are the same request.
        body = b"" if arguments.get("body") is None else json.encode(arguments["body"], order="sorted")
    except UnicodeError:
        raise Invalid("A text has half of a surrogate pair (\\ud800 to \\udfff).") from None
    headers = {"content-type": "application/json"} if body else {}
    if tool.path in _VENDORS:
        headers["latchkey-shape"] = "vendor"
    if tool.writes:
        token = arguments.get("confirm")
        headers |= {"latchkey-dry-run": "true"} if token is None else {"latchkey-confirm": _checked(token)}
    return ToolRequest(tool.method, target, body, headers)


def _checked(token: Any) -> str:
    if not isinstance(token, str) or re.fullmatch(r"[A-Za-z0-9_=-]{1,200}", token) is None:
        raise Invalid("confirm is the token that the dry run of this call returned.", param="confirm")
    return token


def shown_by(tool: OfferedTool, project_id: str, arguments: Mapping[str, Any]) -> ToolRequest | None:
    """The request for the object that a write is about."""
    return None if tool.shows is None else ToolRequest("GET", _filled(tool.shows, project_id, arguments))


def _filled(path: str, project_id: str, arguments: Mapping[str, Any]) -> str:
    given = {"project_id": project_id, **arguments}

    def segment(found: re.Match[str]) -> str:
        value = given.get(name := found[1])
        if not isinstance(value, str) or value in _NO_SEGMENT or "/" in value:
            raise Invalid(f"{name} has to be an id.", param=name)
        return quote(value, safe="")

    return re.sub(r"\{(\w+)\}", segment, path)


def _query(tool: OfferedTool, arguments: Mapping[str, Any]) -> str:
    pairs = []
    for name in sorted(tool.in_query & arguments.keys()):
        given = arguments[name]
        values = given if isinstance(given, list) and all(isinstance(one, str) for one in given) else [given]
        pairs += [
            (name, one if isinstance(one, str) else json.encode(one).decode()) for one in values if one is not None
        ]
    return urlencode(pairs)


def problem_with_origin(host: str, origin: str | None, public_url: str) -> str | None:
    """A page of another site must not reach this service under a name of its own (DNS rebinding). So a host is the one
    of `public_url`, localhost or an IP address, and a browser's page has to be from that host."""
    asked = f"//{host}"
    try:
        place, page = (urlsplit(url).netloc.lower() for url in (asked, asked if origin is None else origin))
        name = urlsplit(asked).hostname or ""
        if name != "localhost" and (not place or place != urlsplit(public_url).netloc.lower()):
            ip_address(name)
    except ValueError:
        return "The host of this request is not the service's. Set LATCHKEY_PUBLIC_URL to the address that you use."
    return None if page == place else "A page of another origin cannot use this."
