"""The endpoints for the app's users answer as the specification says."""

import asyncio
import itertools
from typing import Any

import pytest

from latchkey.consumer.rules.timestamps import DAY, HOUR, to_iso
from tests.consumer.world import NOW, World, both_databases, event, pro, v1_subscription, world, written

ENDS = NOW + 30 * DAY
PATHS = {
    "/api/subscription-status": "GET",
    "/api/sync-billing": "POST",
    "/api/entitlement/pro": "GET",
    "/api/my-entitlements": "GET",
    "/api/debug/subscription/ada": "GET",
    "/api/virtual-currencies": "GET",
    "/api/experiments": "GET",
    "/api/devices": "GET, POST",
    "/api/devices/phone": "DELETE",
}


async def test_errors_are_those_of_the_specification(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, methods in PATHS.items():
        allowed = methods.split(", ")
        for method in allowed:
            reply = await here.get(path, None, method)
            assert (reply.status, reply.json()) == (401, {"error": "Unauthorized"}), path
        for wrong in {"GET", "POST", "PUT", "PATCH", "DELETE"} - {*allowed}:
            reply = await here.get(path, "ada", wrong)
            assert (reply.status, reply.json()) == (405, {"error": "Method not allowed"}), path
            assert reply.headers["allow"] == methods
    assert (await here.get("/api/nothing")).status == 404

    def broken() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(here.consumer._store.database, "reading", broken)
    for path in set(PATHS) - {"/api/devices/phone"}:
        reply = await here.get(path, "ada", PATHS[path].split(", ")[0])
        assert (reply.status, reply.json()) == (500, {"error": "Internal server error"}), path


async def test_a_path_that_does_not_exist_is_404(sqlite_url: str) -> None:
    async with world(sqlite_url) as here:
        reply = await here.get("/api/nothing")
        assert (reply.status, reply.json()) == (404, {"error": "Not found"})


@both_databases
async def test_a_fresh_local_copy_answers_by_itself(here: World) -> None:
    await here.deliver(event())
    here.clock.now += HOUR
    reply = await here.get("/api/entitlement/pro")
    assert reply.json() == {"hasAccess": True, "entitlementId": "pro", "source": "database"}
    assert reply.headers["age"] == "3600"
    assert (await here.get("/api/entitlement/premium")).json()["hasAccess"] is False
    assert (await here.get("/api/my-entitlements")).json() == {"entitlements": ["pro"], "details": pro()}
    status = (await here.get("/api/subscription-status")).json()
    assert set(status) == {"isActive", "entitlements", "subscriptions", "syncedAt"}
    assert (status["isActive"], status["entitlements"], status["syncedAt"]) == (True, pro(), to_iso(NOW))
    assert status["subscriptions"]["pro_monthly"]["expires_date"] == to_iso(ENDS)
    assert here.service.asked == []


async def test_an_end_within_a_second_is_written_as_the_service_writes_it(here: World) -> None:
    """Rounded up while it is in the future, so that nobody loses the rest of the last second, and down afterwards."""
    ends, up, down = ENDS + 1, to_iso(ENDS + 1000), to_iso(ENDS)
    await here.deliver(event(expiration_at_ms=ends))
    status = (await here.get("/api/subscription-status")).json()
    assert status["subscriptions"]["pro_monthly"]["expires_date"] == up
    here.service.holds["ada"] = {"pro": ends}
    here.clock.now += HOUR + 1
    assert (await here.get("/api/entitlement/pro")).json()["source"] == "billing"
    assert (await here.get("/api/my-entitlements")).json()["details"]["pro"]["expires_date"] == up
    status = (await here.get("/api/subscription-status")).json()
    assert status["entitlements"]["pro"]["expires_date"] == up
    assert (await here.copy()).subscription.entitlements["pro"]["expires_date"] == up
    here.clock.now = ends
    await here.deliver(event("EXPIRATION", expiration_at_ms=ends, event_timestamp_ms=ends, entitlements={}))
    assert (await here.copy()).subscription.subscriptions["pro_monthly"]["expires_date"] == down


async def test_a_copy_that_may_be_stale_is_verified_and_overwritten(here: World) -> None:
    await here.deliver(event())
    here.clock.now += HOUR + 1
    here.service.holds["ada"] = {"premium": ENDS}
    reply = await here.get("/api/entitlement/pro")
    assert reply.json() == {"hasAccess": False, "entitlementId": "pro", "source": "billing"}
    copy = await here.copy()
    assert set(copy.held(here.clock.now)) == {"premium"}
    assert copy.subscription.last_revenue_sync_at == here.clock.now
    # The verified copy is fresh again.
    assert (await here.get("/api/entitlement/premium")).json()["source"] == "database"
    assert len(here.service.asked) == 1


@pytest.mark.parametrize(
    ("path", "lets"),
    [
        ("/api/entitlement/pro", {"hasAccess": True, "source": "billing"}),
        ("/api/subscription-status", {"isActive": True}),
        ("/api/sync-billing", {"isActive": True}),
        ("/api/my-entitlements", {"entitlements": ["pro"]}),
    ],
)
async def test_access_that_ends_while_v2_answers_is_judged_by_the_moment_of_the_request(
    here: World, path: str, lets: dict[str, Any]
) -> None:
    """The renewal is not in an answer that V2 gave a moment before. Nobody has access for longer than that request."""
    here.service.holds["ada"] = {"pro": ENDS}

    async def a_moment_passes() -> None:
        here.clock.now = ENDS + 20

    here.clock.now, here.service.meanwhile = ENDS - 10, a_moment_passes
    reply = (await here.get(path, method=PATHS[path])).json()
    assert (here.clock.now, lets) == (ENDS + 20, {name: reply[name] for name in lets})
    # What V2 says is judged by the time of the next question, and so is the copy that is left of it.
    for source, down in (("billing", False), ("database", True)):
        here.service.down = down
        reply = (await here.get("/api/entitlement/pro")).json()
        assert (reply["hasAccess"], reply["source"]) == (False, source)


async def test_a_user_without_a_record_is_read_from_the_service(here: World) -> None:
    here.service.holds["ada"] = {"pro": None}
    here.service.attributes["ada"] = {"$email": "ada@x.y"}
    assert (await here.get("/api/entitlement/pro")).json()["source"] == "billing"
    one = (await here.copy()).subscription
    assert (one.is_active, one.subscription_status, one.external_user_id) == (True, "active", "ada@x.y")
    assert (one.expires_at, one.entitlements["pro"]["expires_date"]) == (None, None)


async def test_a_user_nobody_knows_is_inactive_with_an_error(here: World) -> None:
    reply = await here.get("/api/entitlement/pro")
    assert reply.status == 200
    assert reply.json() == {
        "hasAccess": False, "entitlementId": "pro", "source": "database", "error": "Customer not found",
    }  # fmt: skip
    status = (await here.get("/api/subscription-status")).json()
    assert (status["isActive"], status["error"], status["syncedAt"]) == (False, "Customer not found", None)


async def test_the_local_status_of_a_customer_the_service_lost_is_kept(here: World) -> None:
    await here.deliver(event())
    here.clock.now += 2 * HOUR
    reply = (await here.get("/api/entitlement/pro")).json()
    assert (reply["hasAccess"], reply["source"], reply["error"]) == (True, "database", "Customer not found")


async def test_a_customer_the_service_lost_is_inactive_with_that_setting(sqlite_url: str) -> None:
    async with world(sqlite_url, missing_customer="inactive") as here:
        await here.deliver(event())
        here.clock.now += 2 * HOUR
        assert (await here.get("/api/entitlement/pro")).json()["hasAccess"] is False
        assert (await here.copy()).subscription.subscription_status == "expired"


async def test_while_the_service_is_down_the_local_copy_answers_and_says_how_old_it_is(here: World) -> None:
    await here.deliver(event())
    here.clock.now += 2 * HOUR
    here.service.down = True
    reply = await here.get("/api/entitlement/pro")
    assert reply.json() == {
        "hasAccess": True, "entitlementId": "pro", "source": "database", "syncedAt": to_iso(NOW), "ageSeconds": 7200,
    }  # fmt: skip
    asked = len(here.service.asked)
    # The next request does not wait for the service again.
    assert (await here.get("/api/my-entitlements")).json()["ageSeconds"] == 7200
    assert len(here.service.asked) == asked
    here.service.down = False
    here.service.holds["ada"] = {}
    here.clock.now += 6_000
    assert (await here.get("/api/entitlement/pro")).json()["source"] == "billing"


async def test_a_rate_limit_is_respected_and_nobody_waits_for_it(here: World) -> None:
    await here.deliver(event())
    here.clock.now += 2 * HOUR
    here.service.status, here.service.headers = 429, {"Retry-After": "30"}
    assert (await here.get("/api/entitlement/pro")).json()["source"] == "database"
    here.clock.now += 29_000
    await here.get("/api/entitlement/pro")
    assert len(here.service.asked) == 1
    here.clock.now += 2_000
    await here.get("/api/entitlement/pro")
    assert len(here.service.asked) == 2


async def test_without_a_retry_after_a_rate_limit_lasts_sixty_seconds(here: World) -> None:
    await here.deliver(event())
    await here.deliver(event("TRANSFER", "bob", transferred_from=["ada"]))
    here.clock.now += 2 * HOUR
    here.service.status = 429
    began = here.clock.now
    await here.jobs_done()
    asked = len(here.service.asked)
    # No request, job or sweep asks the service before the minute is over.
    for passed in (0, 400, 5_500, 59_000):
        here.clock.now = began + passed
        await here.jobs_done()
        reply = await here.get("/api/entitlement/pro")
        assert (reply.json()["hasAccess"], reply.json()["source"]) == (True, "database")
        assert (await here.get("/api/sync-billing", method="POST")).status == 500
        await here.consumer._reconciler.sweep()
        assert len(here.service.asked) == asked
    here.service.status = 200
    here.service.holds["ada"] = {}
    here.clock.now = began + 60_001
    assert (await here.get("/api/entitlement/pro")).json()["source"] == "billing"


async def test_an_end_that_has_passed_ends_access_without_any_event(here: World) -> None:
    await here.deliver(event(expiration_at_ms=NOW + 1000, entitlements=pro(NOW + 1000)))
    here.service.down = True
    assert (await here.get("/api/entitlement/pro")).json()["hasAccess"] is True
    here.clock.now += 1001
    assert (await here.get("/api/entitlement/pro")).json()["hasAccess"] is False
    assert (await here.get("/api/subscription-status")).json()["isActive"] is False


async def test_concurrent_requests_for_one_user_share_one_read(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    billing, met, everybody = here.consumer._billing, itertools.count(1), asyncio.Event()
    once = billing._once

    async def meet(*words: Any) -> Any:
        if next(met) == 20:
            everybody.set()
        await everybody.wait()
        return await once(*words)

    monkeypatch.setattr(billing, "_once", meet)
    here.service.holds["ada"] = {"pro": None}
    replies = await asyncio.gather(*(here.get("/api/entitlement/pro") for _ in range(20)))
    assert {reply.json()["hasAccess"] for reply in replies} == {True}
    assert len(here.service.asked) == 1


@both_databases
async def test_an_event_that_overtakes_an_answer_is_not_overwritten_by_it(here: World) -> None:
    here.service.holds["ada"] = {}

    async def meanwhile() -> None:
        await here.deliver(event())
        here.service.holds["ada"] = {"pro": ENDS}

    here.service.meanwhile = meanwhile
    assert (await here.get("/api/entitlement/pro")).json()["hasAccess"] is True
    assert len(here.service.asked) == 2


@both_databases
async def test_sync_reads_anew_and_fills_in_what_v2_does_not_know(here: World) -> None:
    here.service.holds["ada"] = {"pro": ENDS}
    cancelled = v1_subscription(unsubscribe_detected_at=to_iso(NOW - DAY))
    here.service.subscriptions["ada"] = {"pro_monthly": cancelled}
    reply = await here.get("/api/sync-billing", method="POST")
    assert reply.status == 200
    body = reply.json()
    assert set(body) == {"message", "isActive", "entitlements", "syncedAt"}
    assert (body["isActive"], body["entitlements"], body["syncedAt"]) == (True, {"pro": written(ENDS)}, to_iso(NOW))
    one = (await here.copy()).subscription
    assert (one.product_id, one.subscription_status, one.auto_renew) == ("pro_monthly", "cancelled", False)
    assert one.cancelled_at == NOW - DAY
    assert (await here.get("/api/subscription-status")).json()["subscriptions"] == {"pro_monthly": cancelled}


async def test_sync_of_a_missing_customer_is_404(here: World) -> None:
    reply = await here.get("/api/sync-billing", method="POST")
    assert reply.status == 404
    assert reply.json()["error"].startswith("Customer not found in ")
    assert "ada" not in here.service.holds, "asking creates nobody"


async def test_debug_compares_all_three(here: World) -> None:
    await here.deliver(event())
    here.service.holds["ada"] = {"pro": ENDS}
    body = (await here.get("/api/debug/subscription/ada", "operator")).json()
    assert set(body) == {"database", "billingV1", "billingV2", "comparison"}
    assert body["comparison"] == {"dbActive": True, "v1Active": True, "v2Active": True, "match": True}
    assert body["database"]["subscription_status"] == "active"
    here.service.holds["ada"] = {}
    body = (await here.get("/api/debug/subscription/ada", "operator")).json()
    assert body["comparison"] == {"dbActive": True, "v1Active": False, "v2Active": False, "match": False}
    unknown = (await here.get("/api/debug/subscription/nobody", "operator")).json()
    assert (unknown["database"], unknown["billingV1"], unknown["billingV2"]) == (None, None, None)
    assert unknown["comparison"]["match"] is True
    assert "nobody" not in here.service.holds, "asking creates nobody"


async def test_debug_is_closed_in_production(sqlite_url: str) -> None:
    async with world(sqlite_url, production=True) as here:
        reply = await here.get("/api/debug/subscription/ada")
        assert (reply.status, reply.json()) == (403, {"error": "Not available in production"})


async def test_health_is_for_everybody_and_metrics_for_operators(here: World) -> None:
    assert (await here.get("/healthz", None)).json() == {"status": "ok"}
    assert (await here.operate("GET", "/metrics", "wrong")).status == 401
    await here.deliver(event("RENEWAL"))
    await here.deliver(event("MADE_UP"))
    text = (await here.operate("GET", "/metrics")).body.decode()
    assert 'latchkey_consumer_events_total{outcome="processed",type="RENEWAL"} 1.0' in text
    assert 'latchkey_consumer_events_total{outcome="processed",type="unknown"} 1.0' in text
    assert "latchkey_consumer_jobs_waiting 0.0" in text


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_without_an_operator_token_nobody_operates(sqlite_url: str, token: str) -> None:
    async with world(sqlite_url, operator_token="") as here:
        for method, path in (("GET", "/metrics"), ("GET", "/operations/set-aside")):
            assert (await here.operate(method, path, token)).status == 401


async def test_an_event_that_is_not_set_aside_cannot_be_reprocessed(here: World) -> None:
    assert (await here.operate("POST", "/operations/set-aside/evt_nothing/reprocess")).status == 404
