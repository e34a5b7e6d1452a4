"""/docs, a page for each area, and the examples of replies in the OpenAPI document."""

import re
from pathlib import Path
from typing import Any

import pytest

from latchkey.http.openapi import examples, slug, stem
from latchkey.process.http_application import routes
from tests.http.client import Shop

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
        assert f"href='/docs/{slug(tag)}'" in index
        reply = await steady_shop.client.get(f"/docs/{slug(tag)}", key=None)
        page = reply.body.decode()
        assert (reply.status, "<script" in page, "src=" in page) == (200, False, False)
        assert "style-src 'sha256-" in reply.headers["content-security-policy"]
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
