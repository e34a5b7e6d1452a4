"""Cancel, refund, revoke and extend at the real stores: the store is asked, and what it did is read from it."""

from typing import Any

import pytest
from msgspec import structs

from latchkey.domain.instants import DAY, MINUTE, end_to_iso, to_iso
from latchkey.stores.errors import StoreDown
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from tests.http.client import Reply
from tests.stores.world import PROJECT, World

pytestmark = pytest.mark.thorough

DOWN: dict[str, Any] = {"kind": "error", "status": 503}
# Apple takes only such an id from an app.
ADA = "8c5f2a4e-1d3b-4a6c-9e7f-0b1c2d3e4f5a"
EXTENDED = {"extend_by_days": 10, "extend_reason_code": 3}


async def bought(world: World, product: str, who: str = ADA, **more: Any) -> str:
    """Bought, told and acknowledged; gives what the store calls the purchase."""
    return await world.sell(product_id=product, buyer=who, account_token=who, **more)


async def subscription(world: World, store_id: str) -> dict[str, Any]:
    path = f"/v2/projects/{PROJECT}/subscriptions?store_subscription_identifier={store_id}"
    (found,) = (await world.client.get(path)).json()["items"]
    return dict(found)


async def one_time(world: World, store_id: str) -> dict[str, Any]:
    path = f"/v2/projects/{PROJECT}/purchases?store_purchase_identifier={store_id}"
    (found,) = (await world.client.get(path)).json()["items"]
    return dict(found)


async def act(world: World, found: dict[str, Any], action: str) -> Reply:
    kind = "subscriptions" if found["object"] == "subscription" else "purchases"
    return await world.client.post(f"/v2/projects/{PROJECT}/{kind}/{found['id']}/{action}")


async def v1(world: World, path: str, body: Any = None, who: str = ADA) -> Reply:
    return await world.client.post(f"/v1/subscribers/{who}/{path}", body)


async def types(world: World, who: str = ADA) -> list[str]:
    return [event["type"] for event in await world.events(who)]


def said(reply: Reply) -> tuple[int, str | int]:
    """Status and type or code of a refusal."""
    body = reply.json()
    return reply.status, body.get("type") or body["code"]


# Google Play.


async def test_google_cancels_and_access_stays(google: World) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    found = await subscription(google, google.store.known(purchase).id)
    reply = await act(google, found, "actions/cancel")
    assert reply.status == 200, reply
    after = reply.json()
    assert (after["auto_renewal_status"], after["gives_access"], after["status"]) == ("will_not_renew", True, "active")
    assert not google.store.known(purchase).auto_renew
    assert (await google.events(ADA))[-1]["cancellation_reason"] == "DEVELOPER_INITIATED"
    # The notification that follows tells nothing new.
    await google.settle()
    assert await types(google) == ["INITIAL_PURCHASE", "CANCELLATION"]
    # Google does not do it twice.
    assert said(await act(google, found, "actions/cancel")) == (422, "store_error")


async def test_google_refunds_the_last_payment_and_ends_access(google: World) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    found = await subscription(google, google.store.known(purchase).id)
    reply = await act(google, found, "actions/refund")
    assert reply.status == 200, reply
    assert (reply.json()["gives_access"], reply.json()["total_revenue_in_usd"]["gross"]) == (False, 0)
    assert google.store.known(purchase).refunded_at is not None
    await google.settle()
    assert await types(google) == ["INITIAL_PURCHASE", "REFUND"]


async def test_google_gives_one_payment_back_and_access_stays(google: World) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    await google.move(google.now + 33 * DAY)
    found = await subscription(google, google.store.known(purchase).id)
    listed = (await google.client.get(f"/v2/projects/{PROJECT}/subscriptions/{found['id']}/transactions")).json()
    first, second = (item["id"] for item in listed["items"])
    assert second == f"{first}..0"
    for order in (first, second):
        reply = await act(google, found, f"transactions/{order}/actions/refund")
        assert reply.status == 200, reply
        assert reply.json()["id"] == order
    assert [order.refunded_at is not None for order in google.store.books.purchases[purchase].orders] == [True, True]
    after = await subscription(google, first)
    assert (after["gives_access"], after["auto_renewal_status"]) == (True, "will_renew")
    await google.settle()
    assert "REFUND" not in await types(google)


async def test_google_refunds_a_one_time_purchase(google: World) -> None:
    purchase = await bought(google, "pro_lifetime")
    found = await one_time(google, google.store.known(purchase).id)
    reply = await act(google, found, "actions/refund")
    assert reply.status == 200, reply
    assert (reply.json()["status"], reply.json()["gives_access"]) == ("refunded", False)
    await google.settle()
    assert await types(google) == ["NON_RENEWING_PURCHASE", "REFUND"]


async def test_a_prepaid_plan_is_a_subscription_and_google_refunds_it(google: World) -> None:
    purchase = await bought(google, "pro_monthly:prepaid")
    found = await subscription(google, google.store.known(purchase).id)
    assert (found["product_id"], found["auto_renewal_status"]) == ("pro_monthly:prepaid", "will_not_renew")
    assert [item["id"] for item in found["entitlements"]["items"]] == ["pro"]
    assert said(await act(google, found, "actions/cancel")) == (422, "unprocessable_entity_error")
    reply = await act(google, found, "actions/refund")
    assert (reply.status, reply.json()["status"]) == (200, "expired")
    assert google.store.known(purchase).refunded_at is not None


async def test_v1_refunds_cancels_and_extends_by_transaction_at_google(google: World) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    order, ends_at = google.store.known(purchase).id, google.store.known(purchase).ends_at or 0
    reply = await v1(google, f"subscriptions/{order}/extend", EXTENDED)
    assert reply.status == 200, reply
    assert google.store.known(purchase).ends_at == ends_at + 10 * DAY
    shown = reply.json()["subscriber"]["subscriptions"]["pro_monthly:monthly"]
    assert shown["expires_date"] == end_to_iso(ends_at + 10 * DAY, google.now)
    reply = await v1(google, f"subscriptions/{order}/cancel")
    assert reply.json()["subscriber"]["subscriptions"]["pro_monthly:monthly"]["unsubscribe_detected_at"] is not None
    reply = await v1(google, f"transactions/{order}/refund")
    assert reply.status == 200, reply
    assert reply.json()["subscriber"]["subscriptions"]["pro_monthly:monthly"]["refunded_at"] is not None
    assert await types(google) == ["INITIAL_PURCHASE", "SUBSCRIPTION_EXTENDED", "CANCELLATION", "REFUND"]


async def test_v1_revokes_and_defers_by_product_at_google(google: World) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    ends_at = google.store.known(purchase).ends_at or 0
    until = {"expiry_time_ms": ends_at + 5 * DAY + MINUTE}
    assert (await v1(google, "subscriptions/pro_monthly/defer", until)).status == 200
    assert google.store.known(purchase).ends_at == until["expiry_time_ms"]
    too_far = {"expiry_time_ms": ends_at + 400 * DAY}
    assert said(await v1(google, "subscriptions/pro_monthly/defer", too_far)) == (422, 7101)
    assert (await v1(google, "subscriptions/pro_monthly/revoke")).status == 200
    assert google.store.known(purchase).refunded_at is not None


async def test_after_an_upgrade_google_is_asked_about_the_purchase_that_runs(google: World) -> None:
    old = await bought(google, "pro_monthly:monthly")
    new = await google.act(old, "change", product_id="pro_yearly:yearly")
    found = await subscription(google, google.store.known(old).id)
    assert found["product_id"] == "pro_yearly:yearly"
    assert (await act(google, found, "actions/cancel")).status == 200
    assert not google.store.known(new).auto_renew


@pytest.mark.parametrize("action", ["actions/cancel", "actions/refund"])
async def test_a_store_that_is_down_is_503_and_nothing_has_changed(google: World, action: str) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    found = await subscription(google, google.store.known(purchase).id)
    google.store.misbehave(api=DOWN)
    reply = await act(google, found, action)
    assert said(reply) == (503, "server_error")
    assert (reply.json()["retryable"], int(reply.headers["retry-after"]) > 0) == (True, True)
    assert await subscription(google, google.store.known(purchase).id) == found
    assert (await v1(google, f"subscriptions/{google.store.known(purchase).id}/cancel")).json()["code"] == 7101


async def test_what_google_did_although_its_answer_was_lost_is_read_soon(google: World) -> None:
    purchase = await bought(google, "pro_lifetime")
    found = await one_time(google, google.store.known(purchase).id)
    # The service has its access token already, so the next call is the refund.
    assert (await google.show_receipt(purchase, ADA)).status == 200
    google.store.misbehave(api={"kind": "lost", "times": 1}, drop=1.0)
    assert said(await act(google, found, "actions/refund")) == (503, "server_error")
    assert google.store.known(purchase).refunded_at is not None
    assert await one_time(google, found["store_purchase_identifier"]) == found
    google.store.behave()
    google.store.clock.reach(google.now + MINUTE)
    await google.process()
    assert (await one_time(google, found["store_purchase_identifier"]))["status"] == "refunded"


async def test_what_was_done_is_answered_200_although_it_cannot_be_read_yet(
    google: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who got an error would ask again, and a second extension would come on top."""

    async def down(*_: object) -> None:
        raise StoreDown("Google answered 503.")

    purchase = await bought(google, "pro_monthly:monthly")
    order, ends_at = google.store.known(purchase).id, google.store.known(purchase).ends_at or 0
    with monkeypatch.context() as patch:
        patch.setattr(GoogleAdapter, "read_again", down)
        reply = await v1(google, f"subscriptions/{order}/extend", EXTENDED)
    assert reply.status == 200, reply
    google.store.outbox.messages.clear()
    google.store.clock.reach(google.now + MINUTE)
    await google.process()
    assert (await subscription(google, order))["current_period_ends_at"] == ends_at + 10 * DAY


async def test_an_app_without_credentials_is_a_store_error(google: World) -> None:
    purchase = await bought(google, "pro_monthly:monthly")
    found = await subscription(google, google.store.known(purchase).id)
    await credentials.delete(google.connections, PROJECT, google.app_id)
    google.store.clock.reach(google.now + MINUTE)
    assert said(await act(google, found, "actions/cancel")) == (422, "store_error")
    assert google.store.known(purchase).auto_renew


# The App Store.


async def test_apple_extends_and_what_it_did_is_read(apple: World) -> None:
    purchase = await bought(apple, "pro_monthly")
    ends_at = apple.store.known(purchase).ends_at or 0
    reply = await v1(apple, f"subscriptions/{purchase}/extend", EXTENDED)
    assert reply.status == 200, reply
    assert apple.store.known(purchase).ends_at == ends_at + 10 * DAY
    shown = reply.json()["subscriber"]["subscriptions"]["pro_monthly"]
    assert shown["expires_date"] == end_to_iso(ends_at + 10 * DAY, apple.now)
    await apple.settle()
    assert await types(apple) == ["INITIAL_PURCHASE", "SUBSCRIPTION_EXTENDED"]
    assert (await v1(apple, "subscriptions/pro_monthly/defer", {"extend_by_days": 1})).status == 200
    third = await v1(apple, "subscriptions/pro_monthly/defer", {"extend_by_days": 1})
    assert said(third) == (422, 7101)
    assert "twice" in third.json()["message"]


@pytest.mark.parametrize("body", [{"extend_by_days": 91}, {"expiry_time_ms": 4_000_000_000_001}])
async def test_apple_extends_by_whole_days_only(apple: World, body: dict[str, int]) -> None:
    await bought(apple, "pro_monthly")
    assert said(await v1(apple, "subscriptions/pro_monthly/defer", body)) == (422, 7101)


async def test_apple_cancels_and_refunds_nothing_for_a_developer(apple: World) -> None:
    purchase = await bought(apple, "pro_monthly")
    found = await subscription(apple, purchase)
    for reply in (
        await act(apple, found, "actions/cancel"),
        await act(apple, found, "actions/refund"),
        await act(apple, found, f"transactions/{purchase}/actions/refund"),
    ):
        assert said(reply) == (422, "store_error")
        assert "Apple" in reply.json()["message"]
    for path in (
        f"transactions/{purchase}/refund",
        f"subscriptions/{purchase}/cancel",
        "subscriptions/pro_monthly/revoke",
    ):
        assert said(await v1(apple, path)) == (422, 7101)
    assert await subscription(apple, purchase) == found
    assert apple.store.known(purchase).auto_renew


async def test_a_renewal_of_the_app_store_leads_to_its_subscription(apple: World) -> None:
    purchase = await bought(apple, "pro_monthly")
    await apple.move(apple.now + 33 * DAY)
    found = await subscription(apple, purchase)
    listed = (await apple.client.get(f"/v2/projects/{PROJECT}/subscriptions/{found['id']}/transactions")).json()
    _, renewal = (item["id"] for item in listed["items"])
    assert await subscription(apple, renewal) == found
    assert found["management_url"] == "https://apps.apple.com/account/subscriptions"
    url = await apple.client.get(f"/v2/projects/{PROJECT}/subscriptions/{found['id']}/authenticated_management_url")
    assert (url.status, url.json()["management_url"]) == (200, found["management_url"])


# A test clock beside a store's own.


async def access(world: World) -> set[str]:
    customer = (await world.client.get(f"/v2/projects/{PROJECT}/customers/ada")).json()
    return {item["entitlement_id"] for item in customer["active_entitlements"]["items"]}


async def on_a_test_clock(world: World) -> str:
    clock = {"name": "c", "now_ms": world.now}
    id: str = (await world.client.post(f"/v2/projects/{PROJECT}/test_clocks", clock)).json()["id"]
    await world.client.post(f"/v2/projects/{PROJECT}/customers", {"id": "ada", "test_clock_id": id})
    return id


async def test_a_refund_by_a_clock_ahead_of_ours_ends_access_at_once(google: World) -> None:
    ours = google.now
    await on_a_test_clock(google)
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    assert await access(google) == {"pro"}
    google.store.clock.reach(google.now + 1000)
    for done in ("cancel", "uncancel", "refund"):
        await google.act(bought, done)
    events = await google.events("ada")
    moments = [event["event_timestamp_ms"] for event in events]
    assert (len(moments), moments, moments[-1] > ours) == (4, sorted(moments), True)
    assert (events[-1]["type"], events[-1]["entitlements"], await access(google)) == ("REFUND", {}, set())
    told = (await google.client.get("/v1/subscribers/ada")).json()
    assert told["subscriber"]["entitlements"]["pro"]["expires_date"] <= told["request_date"]


CHANGED_LATER: dict[str, tuple[str, dict[str, Any]]] = {
    "apple": ("team_monthly", {"product_id": "pro_monthly"}),
    "google": ("team_monthly:monthly", {"product_id": "pro_monthly:monthly", "deferred": True}),
    "stripe": ("team_monthly", {"product_id": "pro_yearly", "deferred": True}),
}


async def test_a_change_at_the_periods_end_told_by_a_clock_ahead_of_ours_leaves_what_reads_show(market: World) -> None:
    clock = await on_a_test_clock(market)
    product, change = CHANGED_LATER[market.store.name]
    store: Any = market.store
    if store.name == "apple":
        store.app = structs.replace(store.app, environment="Sandbox")
    bought = store.sell(product_id=product, buyer="ada")
    assert (await market.show_receipt(bought, "ada")).status == 200
    await market.act(bought, "change", **change)
    assert await access(market) == {"pro", "team"}
    # The store moves first, and its notifications are processed before our clock follows.
    await market.move(market.now + 32 * DAY)
    await market.client.post(f"/v2/projects/{PROJECT}/test_clocks/{clock}/advance", {"to_ms": market.now})
    events = await market.events("ada")
    assert await access(market) == set(events[-1]["entitlements"]) == {"pro"}
    for event in events:
        at = to_iso(event["event_timestamp_ms"])
        assert all(held["expires_date"] > at for held in event["entitlements"].values()), event
