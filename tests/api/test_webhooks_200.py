"""Webhooks: made, shown, changed, paused, deleted."""

from __future__ import annotations

import re
from typing import Any

from latchkey.domain.webhooks.retry import SCHEDULE
from tests.api.client import NOW
from tests.api.doings import did
from tests.api.management import delete, patch, walk
from tests.api.receiving import HOOKS, Post

FULL: dict[str, Any] = {
    "name": "Billing",
    "url": "https://app.example.com/webhooks/billing?x=1",
    "authorization_header": "Bearer very-secret-value",
    "environment": "production",
    "event_types": ["RENEWAL", "EXPIRATION", "RENEWAL", "TEST"],
    "app_id": "app_demo",
    "retry_schedule_seconds": [1, 60, 604_800],
    "in_flight_limit": 7,
    "enabled": True,
}


async def test_a_webhook_shows_what_was_set_and_its_secret_once(post: Post) -> None:
    reply = await post.call("POST", "", FULL)
    made = reply.json()
    assert reply.status == 201
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{32}", made.pop("signing_secret"))
    assert made["event_types"] == ["RENEWAL", "EXPIRATION", "TEST"]
    given = {name: FULL[name] for name in FULL.keys() - {"authorization_header", "event_types"}}
    assert made.items() >= {**given, "has_authorization_header": True}.items()
    assert "authorization_header" not in made
    assert await post.shown(made["id"]) == made
    assert (await post.shown(""))["items"] == [made]


async def test_what_is_left_out_has_its_default(post: Post) -> None:
    made = await post.hook()
    assert made["environment"] is None
    assert made["event_types"] == []
    assert made["app_id"] is None
    assert made["retry_schedule_seconds"] == list(SCHEDULE)
    assert made["in_flight_limit"] == 100
    assert made["enabled"] is True
    assert made["has_authorization_header"] is False


async def test_webhooks_are_listed_page_by_page_oldest_first(post: Post) -> None:
    made = [(await post.hook(name=f"Number {number}"))["id"] for number in range(5)]
    assert [item["id"] for item in await walk(post, f"{HOOKS}?limit=2")] == made
    page = await post.shown("?limit=2")
    assert page["url"] == "/v2/projects/proj_demo/integrations/webhooks"
    assert page["next_page"] == f"{page['url']}?limit=2&starting_after={made[1]}"
    await delete(post, f"{HOOKS}/{made[1]}")
    assert [item["id"] for item in (await post.shown(f"?starting_after={made[1]}"))["items"]] == made[2:]


async def test_what_is_named_changes_and_the_rest_stays(post: Post) -> None:
    before = (await post.call("POST", "", FULL)).json()
    id = before["id"]
    del before["signing_secret"]
    post.clock.now += 1000
    changes: list[dict[str, Any]] = [
        {"name": "  Other  "},
        {"url": "https://elsewhere.example.com/"},
        {"environment": None},
        {"environment": "sandbox"},
        {"event_types": []},
        {"app_id": None},
        {"retry_schedule_seconds": []},
        {"retry_schedule_seconds": None},
        {"in_flight_limit": 1000},
        {"in_flight_limit": None},
        {"authorization_header": None},
        {"authorization_header": "Basic abc"},
        {},
    ]
    for change in changes:
        reply = await patch(post, f"{HOOKS}/{id}", change)
        assert reply.status == 200, reply
        before = {**before, **change, "updated_at": NOW + 1000}
        if "authorization_header" in change:
            before["has_authorization_header"] = before.pop("authorization_header") is not None
        if change == {"retry_schedule_seconds": None}:
            before["retry_schedule_seconds"] = list(SCHEDULE)
        if change == {"in_flight_limit": None}:
            before["in_flight_limit"] = 100
        before["name"] = before["name"].strip()
        assert reply.json() == before
        assert await post.shown(id) == before


async def test_a_client_that_cannot_patch_may_post(post: Post) -> None:
    id = (await post.hook())["id"]
    reply = await post.call("POST", id, {"name": "Other", "in_flight_limit": 3})
    assert (reply.status, reply.json()["name"], reply.json()["in_flight_limit"]) == (200, "Other", 3)


async def test_a_deleted_webhook_is_gone_and_gets_nothing(sending: Post) -> None:
    id = (await sending.hook("/gone"))["id"]
    other = (await sending.hook("/here"))["id"]
    reply = await delete(sending, f"{HOOKS}/{id}")
    assert (reply.status, reply.json()) == (200, {"object": "webhook", "id": id, "deleted_at": NOW})
    await did(sending, "purchase", product_id="pro_monthly")
    await sending.settled(other, "delivered")
    assert [arrival.path for arrival in sending.arrivals] == ["/here"]
    for method, path in (("GET", id), ("POST", id), ("GET", f"{id}/deliveries"), ("POST", f"{id}/test")):
        reply = await sending.call(method, path, {"type": "TEST"} if path.endswith("test") else {})
        assert reply.status == 404, (method, path)
    assert [item["id"] for item in (await sending.shown(""))["items"]] == [other]


async def test_a_paused_webhook_collects_and_sends_in_order_once_it_is_resumed(sending: Post) -> None:
    id = (await sending.hook(enabled=False))["id"]
    other = (await sending.hook("/other"))["id"]
    shown = await sending.shown(id)
    assert (shown["enabled"], shown["health"]["state"], shown["health"]["paused_at"]) == (False, "paused", NOW)
    await did(sending, "purchase", product_id="pro_monthly")
    await did(sending, "cancel")
    await did(sending, "uncancel")
    await sending.settled(other, "delivered", 3)
    assert {arrival.path for arrival in sending.arrivals} == {"/other"}
    assert (await sending.shown(id))["health"]["waiting"] == 3
    reply = await patch(sending, f"{HOOKS}/{id}", {"enabled": True})
    assert (reply.json()["enabled"], reply.json()["health"]["state"]) == (True, "ok")
    await sending.settled(id, "delivered", 3)
    assert [one.event.type for one in sending.arrivals if one.path == "/"] == [
        "INITIAL_PURCHASE",
        "CANCELLATION",
        "UNCANCELLATION",
    ]
    health = (await sending.shown(id))["health"]
    assert health["waiting"] == 0
    assert NOW <= health["last_success_at"] < NOW + 1000


async def test_a_webhook_can_be_paused_and_pausing_twice_keeps_the_moment(sending: Post) -> None:
    id = (await sending.hook())["id"]
    await patch(sending, f"{HOOKS}/{id}", {"enabled": False, "name": "Resting"})
    sending.clock.now += 5_000
    shown = (await patch(sending, f"{HOOKS}/{id}", {"enabled": False})).json()
    assert (shown["name"], shown["enabled"], shown["health"]["paused_at"]) == ("Resting", False, NOW)
    await did(sending, "purchase", product_id="pro_monthly")
    assert (await sending.shown(id))["health"]["waiting"] == 1
    assert sending.arrivals == []


async def test_enabling_what_is_enabled_does_not_hide_that_it_fails(sending: Post) -> None:
    id = (await sending.hook("/status/500"))["id"]
    await did(sending, "purchase", product_id="pro_monthly")
    await sending.settled(id, "waiting", attempts=1)
    before = (await sending.shown(id))["health"]
    assert before["state"] == "failing"
    assert (await patch(sending, f"{HOOKS}/{id}", {"enabled": True})).json()["health"] == before


async def test_filters_decide_which_events_a_webhook_gets(sending: Post) -> None:
    filters: dict[str, dict[str, Any]] = {
        "/all": {},
        "/sandbox": {"environment": "sandbox"},
        "/production": {"environment": "production"},
        "/cancelled": {"event_types": ["CANCELLATION"]},
        "/app": {"app_id": "app_demo"},
    }
    made = {path: (await sending.hook(path, **chosen))["id"] for path, chosen in filters.items()}
    await did(sending, "purchase", "ada", "pro_monthly", environment="SANDBOX")
    await did(sending, "purchase", "bob", "pro_monthly", environment="PRODUCTION")
    await did(sending, "cancel", "bob")
    await sending.settled(made["/all"], "delivered", 3)
    counts = {path: len((await sending.shown(f"{id}/deliveries"))["items"]) for path, id in made.items()}
    assert counts["/sandbox"] == 1
    assert counts["/production"] == 2
    assert counts["/cancelled"] == 1
    of_app = [item for item in await walk(sending, "events") if item.get("app_id") == "app_demo"]
    assert counts["/app"] == len(of_app)
