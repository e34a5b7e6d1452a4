"""Webhooks: shown, changed, paused, deleted, and refused with the name of the wrong field."""

from typing import Any

import pytest

from latchkey.domain.retry import SCHEDULE
from tests.http.client import NOW
from tests.http.doings import did
from tests.http.management import delete, patch, refused, walk
from tests.http.receiving import HOOKS, Post

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
        {"url": "https://app.example.com/elsewhere"},
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


async def test_a_stored_secret_is_not_sent_to_another_host_unless_it_is_given_again(post: Post) -> None:
    id = (await post.call("POST", "", FULL)).json()["id"]
    for url in ("https://elsewhere.example.com/", "https://app.example.com:8443/"):
        reply = await patch(post, f"{HOOKS}/{id}", {"name": "Moved", "url": url})
        refused(reply, 422, "unprocessable_entity_error", "authorization_header")
    shown = await post.shown(id)
    assert (shown["name"], shown["url"]) == (FULL["name"], FULL["url"])
    moved = {"url": "https://elsewhere.example.com/", "authorization_header": "Bearer other"}
    assert (await patch(post, f"{HOOKS}/{id}", moved)).json()["has_authorization_header"]
    away = {"url": "https://third.example.com/", "authorization_header": None}
    assert not (await patch(post, f"{HOOKS}/{id}", away)).json()["has_authorization_header"]
    assert (await patch(post, f"{HOOKS}/{id}", {"url": FULL["url"]})).status == 200


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


GOOD = {"name": "Mine", "url": "https://app.example.com/hook"}
# `tests/domain/test_address.py` has the forms of addresses, `test_every_body_4xx.py` what the document does not allow.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "  "}, "name"),
    ({"url": "http://app.example.com/hook"}, "url"),
    ({"url": "https://user:password@app.example.com/"}, "url"),
    ({"url": "https://app.example.com/\r\nX: y"}, "url"),
    ({"authorization_header": "Bearer x "}, "authorization_header"),
    ({"authorization_header": "Bearer x\r\nX-Evil: 1"}, "authorization_header"),
    ({"authorization_header": "Bearer schlüssel"}, "authorization_header"),
    ({"event_types": ["RENEWAL", "BIRTHDAY"]}, "event_types.1"),
    ({"event_types": ["RENEWAL"] * 101}, "event_types"),
    ({"retry_schedule_seconds": [604_801]}, "retry_schedule_seconds.0"),
    ({"retry_schedule_seconds": [1] * 51}, "retry_schedule_seconds"),
]
PRIVATE = ("10.0.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166", "10.1", "[::ffff:10.0.0.1]", "[fc00::1]")


@pytest.fixture
async def made(post: Post) -> str:
    id: str = (await post.hook(authorization_header="Bearer kept", enabled=False))["id"]
    return id


async def test_a_webhook_with_something_wrong_is_not_made(post: Post) -> None:
    for wrong, param in WRONG:
        refused(await post.call("POST", "", {**GOOD, **wrong}), 400, "parameter_error", param)
    assert (await post.shown(""))["items"] == []


async def test_a_change_with_something_wrong_changes_nothing(post: Post, made: str) -> None:
    before = await post.shown(made)
    for wrong, param in WRONG:
        refused(await patch(post, f"{HOOKS}/{made}", {"enabled": True, **wrong}), 400, "parameter_error", param)
    assert await post.shown(made) == before


async def test_a_private_address_is_refused_at_once_in_every_notation(post: Post, made: str) -> None:
    for host in PRIVATE:
        reply = await post.call("POST", "", {**GOOD, "url": f"https://{host}/hook"})
        refused(reply, 400, "parameter_error", "url")
        assert "address not allowed" in reply.json()["message"], host
        refused(await post.call("POST", made, {"url": f"https://{host}:8443/"}), 400, "parameter_error", "url")
    assert len((await post.shown(""))["items"]) == 1


async def test_loopback_is_refused_by_name_and_number_unless_it_is_allowed(shop: Any, post: Post) -> None:
    for host in ("localhost", "app.localhost", "localhost.", "LOCALHOST", "127.0.0.1", "2130706433", "[::1]", "127.1"):
        body = {**GOOD, "url": f"https://{host}/hook"}
        refused(
            await shop.client.post("/v2/projects/proj_demo/integrations/webhooks", body), 400, "parameter_error", "url"
        )
    for host in ("localhost", "127.0.0.1", "2130706433"):
        assert (await post.call("POST", "", {**GOOD, "url": f"https://{host}/hook"})).status == 201


async def test_an_app_that_is_not_there_is_not_found(post: Post, made: str) -> None:
    refused(await post.call("POST", "", {**GOOD, "app_id": "app_none"}), 404, "resource_missing", "app_id")
    refused(await post.call("POST", made, {"app_id": "app_none"}), 404, "resource_missing", "app_id")


async def test_a_webhook_that_is_not_there_is_not_found(post: Post) -> None:
    refused(await post.call("GET", "wh_none"), 404, "resource_missing", "webhook_id")
    refused(await post.call("POST", "wh_none", {"name": "X"}), 404, "resource_missing", "webhook_id")
    refused(await delete(post, f"{HOOKS}/wh_none"), 404, "resource_missing", "webhook_id")
    refused(await post.call("POST", "wh_none/rotate_signing_secret", {}), 404, "resource_missing", "webhook_id")
    refused(await post.call("POST", "wh_none/test", {"type": "TEST"}), 404, "resource_missing", "webhook_id")
    refused(await post.call("GET", "wh_none/deliveries"), 404, "resource_missing", "webhook_id")
    refused(await post.call("GET", "wh_none/deliveries/x"), 404, "resource_missing", "webhook_id")
    refused(await post.call("POST", "wh_none/deliveries/x/resend"), 404, "resource_missing", "webhook_id")
    refused(await post.call("GET", "?starting_after=wh_none"), 404, "resource_missing", "starting_after")


async def test_a_page_of_the_log_that_cannot_be_is_refused(post: Post, made: str) -> None:
    for query, param in (
        ("status=sent", "status"),
        ("type=BIRTHDAY", "type"),
        ("customer_id=", "customer_id"),
        ("customer_id=null", "customer_id"),
        ("since_ms=yesterday", "since_ms"),
        ("since_ms=1", "since_ms"),
        ("until_ms=99999999999999", "until_ms"),
        ("since_ms=1800000000000&until_ms=1800000000000", "until_ms"),
        ("limit=0", "limit"),
        ("starting_after=%00", "starting_after"),
    ):
        refused(await post.call("GET", f"{made}/deliveries?{query}"), 400, "parameter_error", param)
    for query, param in (("customer_id=nobody", "customer_id"), ("starting_after=nothing", "starting_after")):
        refused(await post.call("GET", f"{made}/deliveries?{query}"), 404, "resource_missing", param)
    refused(await post.call("GET", f"{made}/deliveries/nothing"), 404, "resource_missing", "delivery_id")
    refused(await post.call("POST", f"{made}/deliveries/nothing/resend"), 404, "resource_missing", "delivery_id")
