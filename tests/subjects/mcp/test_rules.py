"""Requests from calls of tools, and where a request may come from."""

from typing import Any

import pytest
from msgspec import json

from latchkey.domain.refusal import Invalid
from latchkey.subjects.mcp.rules import is_offered, problem_with_origin, request_of, shown_by, tools_of

_PATH = "/v2/projects/{project_id}/customers/{customer_id}"
_ID = [
    {"name": one, "in": "path", "required": True, "schema": {"type": "string"}} for one in ("project_id", "customer_id")
]
_BODY = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Grant"}}}}
_QUERY = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
_HEADER = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
DOCUMENT: dict[str, Any] = {
    "paths": {
        _PATH: {"get": {"summary": "Read", "description": "A customer.", "parameters": [*_ID, _QUERY]}},
        f"{_PATH}/grant": {
            "post": {
                "summary": "Grant",
                "parameters": [*_ID, _HEADER],
                "requestBody": _BODY,
                "x-latchkey-action": "customer.granted",
            }
        },
        f"{_PATH}/old": {"post": {"summary": "Without a dry run", "parameters": _ID}},
    },
    "components": {
        "schemas": {
            "Grant": {
                "properties": {
                    "title": {"type": "string"},
                    "until": {"$ref": "#/components/schemas/Until"},
                    "next": {"$ref": "#/components/schemas/Grant"},
                }
            },
            "Until": {"type": "integer", "title": "Until", "pattern": "(?!x)", "not": {"enum": [0]}},
            "Unused": {},
        }
    },
}
TOOLS = tools_of(
    DOCUMENT,
    {
        "read": {"read": "GET /customers/{customer_id}", "gone": "GET /nothing"},
        "write": {"grant": "POST /customers/{customer_id}/grant", "old": "POST /customers/{customer_id}/old"},
    },
)


def test_a_tool_is_made_from_an_operation_that_the_service_has() -> None:
    assert TOOLS.keys() == {"read", "grant"}, "nor is one without dry runs offered"
    read, grant = TOOLS["read"], TOOLS["grant"]
    assert (read.title, read.description, grant.description) == ("Read", "A customer.", "Grant")
    assert read.schema["properties"].keys() == {"customer_id", "limit"}
    assert read.schema["required"] == ["customer_id"]
    assert grant.schema["properties"].keys() == {"customer_id", "body", "confirm"}
    assert grant.schema["required"] == ["customer_id", "body"]
    assert not read.schema["additionalProperties"]


def test_a_schema_has_the_shapes_that_it_refers_to_and_no_others() -> None:
    schema = TOOLS["grant"].schema
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Grant"}
    assert schema["$defs"].keys() == {"Grant", "Until"}
    assert b"components" not in json.encode(schema)
    assert schema["$defs"]["Until"] == {"type": "integer"}, "the API checks patterns itself"
    assert "title" in schema["$defs"]["Grant"]["properties"], "a field of that name stays"


def test_a_key_is_offered_what_its_scopes_allow() -> None:
    assert is_offered(TOOLS["read"], frozenset({"read"}))
    assert not is_offered(TOOLS["grant"], frozenset({"read", "charts"}))
    assert is_offered(TOOLS["grant"], frozenset({"write"}))


def test_the_project_is_the_keys_and_ids_stay_in_their_segment() -> None:
    request = request_of(TOOLS["read"], "proj_1", {"customer_id": "a b%2F?#é", "limit": 5})
    assert request.target == "/v2/projects/proj_1/customers/a%20b%252F%3F%23%C3%A9?limit=5"
    assert (request.method, request.body, request.headers) == ("GET", b"", {})


@pytest.mark.parametrize("id", ["", ".", "..", "a/b", "x/.%2e/eve", None, 7, ["a"]])
def test_an_id_that_would_name_another_path_is_refused(id: Any) -> None:
    with pytest.raises(Invalid, match="customer_id"):
        request_of(TOOLS["read"], "proj_1", {"customer_id": id})


@pytest.mark.parametrize("name", ["project_id", "Idempotency-Key", "confirm", "body"])
def test_an_argument_that_the_tool_lacks_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match=name):
        request_of(TOOLS["read"], "proj_1", {"customer_id": "ada", name: "x"})


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(Invalid, match="surrogate"):
        request_of(TOOLS["read"], "proj_1", {"customer_id": "\ud800"})


def test_a_write_is_a_dry_run_until_it_is_confirmed() -> None:
    given = {"customer_id": "ada", "body": {"b": 1, "a": 2}}
    dry = request_of(TOOLS["grant"], "proj_1", given)
    assert dry.headers == {"content-type": "application/json", "latchkey-dry-run": "true"}
    same = {"body": {"a": 2, "b": 1}, "customer_id": "ada", "confirm": "abc="}
    confirmed = request_of(TOOLS["grant"], "proj_1", same)
    assert (confirmed.target, confirmed.body) == (dry.target, dry.body)
    assert confirmed.headers == {"content-type": "application/json", "latchkey-confirm": "abc="}
    shown = shown_by(TOOLS["grant"], "proj_1", given)
    assert shown is not None
    assert shown.target == "/v2/projects/proj_1/customers/ada"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nx-evil: 1", True, 7, "a" * 201])
def test_a_confirmation_is_a_token(token: Any) -> None:
    with pytest.raises(Invalid, match="confirm"):
        request_of(TOOLS["grant"], "proj_1", {"customer_id": "ada", "confirm": token})


def test_values_of_a_query_are_texts_or_json() -> None:
    def query(limit: Any) -> str:
        return request_of(TOOLS["read"], "p", {"customer_id": "ada", "limit": limit}).target.partition("?")[2]

    assert query(True) == "limit=true"
    assert query(["a", "b&c"]) == "limit=a&limit=b%26c"
    assert query([{"a": 1}]) == "limit=%5B%7B%22a%22%3A1%7D%5D"
    assert query(None) == ""


@pytest.mark.parametrize(
    ("host", "origin", "is_allowed"),
    [
        ("lk.example.com", None, True),
        ("LK.example.com", "https://lk.example.com", True),
        ("localhost:8443", None, True),
        ("127.0.0.1:8443", "https://127.0.0.1:8443", True),
        ("[::1]:8443", None, True),
        ("evil.example.com", None, False),
        ("evil.example.com", "https://evil.example.com", False),
        ("lk.example.com.evil.com", None, False),
        ("lk.example.com", "https://evil.example.com", False),
        ("127.0.0.1:8443", "https://127.0.0.1:9000", False),
        ("lk.example.com", "null", False),
        ("lk.example.com", "https://[", False),
        ("[", None, False),
        ("", None, False),
    ],
)
def test_a_host_or_page_that_is_not_the_services_is_refused(host: str, origin: str | None, is_allowed: bool) -> None:
    assert (problem_with_origin(host, origin, "https://lk.example.com") is None) == is_allowed


def test_without_a_public_url_only_addresses_and_localhost_work() -> None:
    assert problem_with_origin("lk.example.com", None, "") is not None
    assert problem_with_origin("", None, "") is not None
    assert problem_with_origin("localhost", None, "") is None
