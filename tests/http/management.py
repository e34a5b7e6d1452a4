"""Short helpers for the management API of the shop's project."""

from typing import Any

from msgspec import json

from tests.http.client import Reply, Shop

PRODUCT = {"id": "max_monthly", "kind": "subscription", "duration": "P1M", "price": 19.99, "currency": "EUR"}


async def get(shop: Shop, path: str, **options: Any) -> Reply:
    return await shop.client.get(f"/v2/projects/{shop.project_id}/{path}".rstrip("/"), **options)


async def post(shop: Shop, path: str, value: Any, **options: Any) -> Reply:
    return await shop.client.post(f"/v2/projects/{shop.project_id}/{path}", value, **options)


async def patch(shop: Shop, path: str, value: Any) -> Reply:
    address = f"/v2/projects/{shop.project_id}/{path}".rstrip("/")
    return await shop.client.request("PATCH", address, body=json.encode(value))


async def delete(shop: Shop, path: str) -> Reply:
    return await shop.client.request("DELETE", f"/v2/projects/{shop.project_id}/{path}")


async def walk(shop: Shop, path: str) -> list[dict[str, Any]]:
    """Every item of a list, page by page, the way a client follows it."""
    items: list[dict[str, Any]] = []
    following: str | None = f"/v2/projects/{shop.project_id}/{path}"
    while following is not None:
        page = (await shop.client.get(following)).json()
        assert page["object"] == "list"
        items += page["items"]
        following = page["next_page"]
        assert len(items) <= 10_000, "the list never ends"
    return items


async def holds(shop: Shop, app_user_id: str) -> set[str]:
    """The active entitlements of a customer in V2."""
    body = (await shop.v2(app_user_id)).json()
    return {item["entitlement_id"] for item in body["active_entitlements"]["items"]}


def refused(reply: Reply, status: int, kind: str, param: str | None) -> None:
    body = reply.json()
    assert (reply.status, body["object"], body["type"], body.get("param")) == (status, "error", kind, param), reply
    assert body["message"]
    assert body["retryable"] is False
