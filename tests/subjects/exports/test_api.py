"""Exports that run by themselves: made, shown without their secret, changed, run, deleted."""

from typing import Any

import pytest

from tests.http.client import NOW, Shop
from tests.http.management import get, post, refused

SECRET = "a-very-secret-access-key"
FULL: dict[str, Any] = {
    "name": "Warehouse",
    "what": ["transactions", "events"],
    "format": "csv",
    "incremental": False,
    "with_tokens": True,
    "destination": "s3://warehouse/latchkey",
    "endpoint": "https://account.r2.cloudflarestorage.com",
    "region": "auto",
    "access_key_id": "AKIAEXAMPLE12345",
    "secret_access_key": SECRET,
    "every": "week",
    "enabled": True,
}


async def made(shop: Shop, **change: Any) -> dict[str, Any]:
    reply = await post(shop, "exports", {**FULL, **change})
    assert reply.status == 201, reply
    body: dict[str, Any] = reply.json()
    return body


async def test_an_export_shows_what_was_set_and_no_secret(shop: Shop) -> None:
    export = await made(shop)
    assert (export["destination"], export["access_key_hint"], export["every"]) == (FULL["destination"], "…2345", "week")
    assert export["next_run_at"] > NOW
    replies = [await get(shop, "exports"), await get(shop, f"exports/{export['id']}")]
    entries = await shop.database.pool.fetch("select action, detail::text from audit_entries")
    assert [row["action"] for row in entries] == ["export.created"]
    for text in [*(reply.body.decode() for reply in replies), *(row["detail"] for row in entries)]:
        assert SECRET not in text
        assert FULL["access_key_id"] not in text


@pytest.mark.parametrize(
    ("change", "status", "kind", "param"),
    [
        ({"what": ["orders"]}, 400, "parameter_error", "what.0"),
        ({"destination": "/etc"}, 400, "parameter_error", "destination"),
        ({"destination": "nightly"}, 422, "unprocessable_entity_error", "destination"),
        ({"endpoint": "http://169.254.169.254"}, 422, "unprocessable_entity_error", "endpoint"),
        ({"endpoint": "https://x:y@s3.amazonaws.com"}, 400, "parameter_error", "endpoint"),
        ({"secret_access_key": None}, 422, "unprocessable_entity_error", "secret_access_key"),
    ],
)
async def test_what_is_refused_changes_nothing(
    steady_shop: Shop, change: dict[str, Any], status: int, kind: str, param: str
) -> None:
    reply = await post(steady_shop, "exports", {**FULL, **change})
    refused(reply, status, kind, param)
    assert SECRET not in reply.body.decode()
    assert (await get(steady_shop, "exports")).json()["items"] == []


async def test_runs_start_after_a_run(shop: Shop) -> None:
    path = f"exports/{(await made(shop))['id']}/runs"
    assert (await get(shop, f"{path}?starting_after=17")).json()["items"] == []
    refused(await get(shop, f"{path}?starting_after=x"), 404, "resource_missing", "starting_after")
    refused(await get(shop, "exports/exp_none/runs"), 404, "resource_missing", "export_id")
