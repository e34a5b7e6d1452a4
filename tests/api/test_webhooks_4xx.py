"""Invalid webhooks: each is refused with the name of the wrong field, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.management import delete, patch, refused
from tests.api.receiving import HOOKS, Post

GOOD = {"name": "Mine", "url": "https://app.example.com/hook"}
# `tests/domain/test_address.py` has the forms of addresses, `test_every_body_4xx.py` values of other types.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "  "}, "name"),
    ({"name": "x" * 1501}, "name"),
    ({"name": None}, "name"),
    ({"url": None}, "url"),
    ({"url": "http://app.example.com/hook"}, "url"),
    ({"url": "https://user:password@app.example.com/"}, "url"),
    ({"url": "https://app.example.com/\r\nX: y"}, "url"),
    ({"url": "https://app.example.com/" + "x" * 2048}, "url"),
    ({"authorization_header": ""}, "authorization_header"),
    ({"authorization_header": "Bearer x "}, "authorization_header"),
    ({"authorization_header": "Bearer x\r\nX-Evil: 1"}, "authorization_header"),
    ({"authorization_header": "Bearer schlüssel"}, "authorization_header"),
    ({"authorization_header": "x" * 4097}, "authorization_header"),
    ({"environment": "PRODUCTION"}, "environment"),
    ({"event_types": ["Renewal"]}, "event_types.0"),
    ({"event_types": ["RENEWAL", "BIRTHDAY"]}, "event_types.1"),
    ({"event_types": ["RENEWAL"] * 101}, "event_types"),
    ({"app_id": "a b"}, "app_id"),
    ({"retry_schedule_seconds": [0]}, "retry_schedule_seconds.0"),
    ({"retry_schedule_seconds": [604_801]}, "retry_schedule_seconds.0"),
    ({"retry_schedule_seconds": [1] * 51}, "retry_schedule_seconds"),
    ({"in_flight_limit": 0}, "in_flight_limit"),
    ({"in_flight_limit": 1001}, "in_flight_limit"),
    ({"enabled": None}, "enabled"),
    ({"signing_secret": "whsec_mine"}, "signing_secret"),
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


async def test_what_every_webhook_has_must_be_given(post: Post) -> None:
    for missing in GOOD:
        given = {name: value for name, value in GOOD.items() if name != missing}
        refused(await post.call("POST", "", given), 400, "parameter_error", missing)


async def test_only_https_is_said_so(post: Post) -> None:
    reply = await post.call("POST", "", {**GOOD, "url": "http://app.example.com/hook"})
    assert reply.json()["message"] == "The URL must begin with https://."


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


async def test_a_test_of_no_known_type_is_refused(post: Post, made: str) -> None:
    for wrong in ("BIRTHDAY", "test", "", None, 7, ["TEST"]):
        refused(await post.call("POST", f"{made}/test", {"type": wrong}), 400, "parameter_error", "type")
    refused(await post.call("POST", f"{made}/test", {}), 400, "parameter_error", "type")
    refused(await post.call("POST", f"{made}/test", {"type": "TEST", "x": 1}), 400, "parameter_error", "x")
    assert post.arrivals == []


async def test_an_overlap_that_cannot_be_is_refused_and_the_secret_stays(post: Post, made: str) -> None:
    before = await post.shown(made)
    for wrong in (-1, 2_592_001, 1.5, "60", None, True):
        reply = await post.call("POST", f"{made}/rotate_signing_secret", {"overlap_seconds": wrong})
        refused(reply, 400, "parameter_error", "overlap_seconds")
    assert await post.shown(made) == before


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
