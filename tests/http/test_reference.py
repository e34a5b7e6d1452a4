"""/docs, a page for each area, and the examples of replies in the OpenAPI document."""

import re
from pathlib import Path
from typing import Any

import pytest

from latchkey.http.openapi import examples, stem
from latchkey.process.http_application import routes
from latchkey.subjects.console.api import areas_of, sample, slug
from tests.http.client import Shop

FILES = ("/docs/reference.css", "/docs/reference.js")
CONTRACT = Path(__file__).parents[2] / "contract"


@pytest.fixture
def document() -> Any:
    return routes().openapi()


async def test_every_area_has_a_page_with_its_operations_their_examples_and_their_shapes(
    steady_shop: Shop, document: Any
) -> None:
    index = (await steady_shop.client.get("/docs", key=None)).body.decode()
    tags = {operation["tags"][0] for item in document["paths"].values() for operation in item.values()}
    assert len(tags) > 15
    for tag in tags:
        # In the navigation, by group, and above its operations.
        assert index.count(f"href='/docs/{slug(tag)}'") == 2
        reply = await steady_shop.client.get(f"/docs/{slug(tag)}", key=None)
        page = reply.body.decode()
        assert reply.status == 200
        # Our own files and nothing inline, so the page works offline and nothing on it can become code.
        assert set(re.findall(r"(?:src|<link rel=stylesheet href)=([^ >]+)", page)) == set(FILES)
        assert (
            re.findall(r"<script(?! type=module src=/docs/reference.js></script>)|<style|style=| on[a-z]+=", page) == []
        )
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        assert "unsafe" not in policy
        for path, item in document["paths"].items():
            assert all(f"<code>{path}</code>" in page for one in item.values() if one["tags"][0] == tag)
        # Every shape that is linked to is on the same page.
        for name in re.findall(r"href='#([^']+)'", page):
            assert f"id='{name}'" in page, (tag, name)
    customers = (await steady_shop.client.get("/docs/v2-customers", key=None)).body.decode()
    assert "&#34;object&#34;: &#34;customer&#34;" in customers
    assert (await steady_shop.client.get("/docs/nothing", key=None)).status == 404


async def test_every_success_with_a_body_has_an_example(document: Any) -> None:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                body = response.get("content", {}).get("application/json")
                if path.startswith(("/v1/", "/v2/")) and status.startswith("2") and body is not None:
                    assert body.get("examples") or is_empty(path, method, status), (method, path, status)


def is_empty(path: str, method: str, status: str) -> bool:
    """The example says that there is no body."""
    return (CONTRACT / f"{stem(path, method, status)}.json").read_bytes() == b""


def test_one_status_can_have_several_examples() -> None:
    assert {"example", "attribute_errors"} <= examples("/v1/receipts", "post", "200").keys()
    assert examples("/v1/nothing", "get", "200") == {}


def test_every_operation_has_a_summary_in_plain_words(document: Any) -> None:
    for area, operations in areas_of(document).items():
        by_summary: dict[str, set[str]] = {}
        for path, method, operation in operations:
            summary = operation["summary"]
            assert 2 <= len(summary.split()) <= 30, (method, path, summary)
            assert summary != operation["operationId"].split("_v2_")[0].replace("_", " ").title(), (method, path)
            assert not re.search(r"[.:;]$|[a-z]_[a-z]+\(", summary), (method, path, summary)
            by_summary.setdefault(summary, set()).add(operation["operationId"].split("_" + slug(path)[:2])[0])
        # Two operations of one area that do the same have the same function.
        assert {words for words, names in by_summary.items() if len(names) > 1} == set(), area


async def test_the_search_has_every_operation_and_leads_to_it(steady_shop: Shop, document: Any) -> None:
    index = (await steady_shop.client.get("/docs/search.json", key=None)).json()
    assert len(index) == sum(len(item) for item in document["paths"].values())
    pages: dict[str, str] = {}
    for one in index:
        page, _, anchor = one["href"].partition("#")
        if page not in pages:
            pages[page] = (await steady_shop.client.get(page, key=None)).body.decode()
        assert pages[page].count(f"id='{anchor}'") == 1, one
    for path, kind in zip(FILES, ("text/css", "text/javascript"), strict=True):
        reply = await steady_shop.client.get(path, key=None)
        assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, kind)
        assert b"http:" not in reply.body
        assert b"https:" not in reply.body


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": ""}),
        ({"$ref": "#/components/schemas/Loop"}, {"next": {"next": {"next": None}}}),
        ({"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]}, 5),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 1}, [False]),
        ({"type": "array", "items": {"type": "boolean"}}, []),
        ({"type": "number", "default": 2.5}, 2.5),
    ],
)
def test_a_sample_has_the_required_fields(schema: Any, body: Any) -> None:
    loop = {"properties": {"next": {"$ref": "#/components/schemas/Loop"}}, "required": ["next"]}
    assert sample(schema, {"Loop": loop}) == body
