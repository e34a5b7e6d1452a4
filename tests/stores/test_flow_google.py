"""Google Play: pushes that carry no state, acknowledgement, chains, and receipts while Google cannot be asked."""

import hashlib
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import json

from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms, to_iso
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from tests.stores.world import PROJECT, World

pytestmark = pytest.mark.thorough
DOWN: dict[str, Any] = {"kind": "error", "status": 503}


async def v1(world: World, app_user_id: str) -> dict[str, Any]:
    reply = await world.client.get(f"/v1/subscribers/{app_user_id}")
    assert reply.status == 200, reply
    shown: dict[str, Any] = reply.json()["subscriber"]
    return shown


async def test_a_push_becomes_an_event_and_access_and_the_purchase_is_acknowledged(google: World) -> None:
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await google.store.deliver()
    await google.process()
    assert await google.types("ada") == ["INITIAL_PURCHASE"]
    assert await google.access("ada") == {"pro"}
    # The app has ten seconds to do it first.
    assert not google.store.known(bought).acknowledged
    google.store.clock.reach(google.now + MINUTE)
    await google.process()
    assert google.store.known(bought).acknowledged


async def test_an_app_and_the_vendors_shape_have_the_product_and_its_base_plan_apart(google: World) -> None:
    await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    for key, headers in ((google.public_key, {}), ("", {"latchkey-shape": "vendor"})):
        reply = await google.client.get("/v1/subscribers/ada", key=key, headers=headers)
        bought, held = (reply.json()["subscriber"][part] for part in ("subscriptions", "entitlements"))
        assert bought["pro_monthly"]["product_plan_identifier"] == "monthly"
        assert (held["pro"]["product_identifier"], held["pro"]["product_plan_identifier"]) == ("pro_monthly", "monthly")


async def test_an_acknowledgement_is_tried_until_it_holds(google: World) -> None:
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await google.store.deliver()
    await google.process()
    google.store.misbehave(api=DOWN)
    google.store.clock.reach(google.now + MINUTE)
    await google.processor.acknowledge_due()
    google.store.behave()
    google.store.clock.reach(google.now + HOUR)
    await google.processor.acknowledge_due()
    assert google.store.known(bought).acknowledged


async def test_a_token_that_google_does_not_know_is_invalid_while_google_answers(google: World) -> None:
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="eve")
    real = google.store.receipt(bought)["fetch_token"]
    for forged in (
        f"{real[:-4]}evil",
        "a/b",
        f"../../{real}",
        "..",
        f"{real}/",
        f"x/../{real}",
        f"{real}:revoke",
        "%2F",
        "a?b",
    ):
        reply = await google.show_receipt(bought, "eve", fetch_token=forged)
        assert (forged, reply.status, reply.json().get("code")) == (forged, 400, 7103)
    assert (await google.client.get(f"/v2/projects/{PROJECT}/customers/eve")).status == 404


async def test_beyond_its_budget_an_address_fills_no_journal_and_loses_no_purchase(google: World) -> None:
    front: Any = google.client.app
    front.services.receipt_limit._unverified_bytes = 0
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada")
    for number in range(3):
        assert (await google.show_receipt(bought, "eve", fetch_token=f"junk{number}" * 100)).status == 400
    google.store.misbehave(api=DOWN)
    reply = await google.show_receipt(bought, "ada")
    # No temporary access: a phone that gets a 200 forgets the purchase, and nobody would have it then.
    assert (reply.status, reply.json()["code"]) == (503, 7101)
    assert await google.journal() == []
    google.store.behave()
    assert (await google.show_receipt(bought, "ada")).status == 200
    assert await google.access("ada") == {"pro"}
    [entry] = await google.journal(kind="RECEIPT")
    assert (entry.status, bought in entry.payload) == ("applied", True)


async def test_a_cancelled_purchase_that_is_refunded_was_not_uncancelled(google: World) -> None:
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await google.act(bought, "cancel", by="developer")
    await google.act(bought, "refund")
    assert await google.types("ada") == ["INITIAL_PURCHASE", "CANCELLATION", "REFUND"]


async def test_a_refunded_top_up_leaves_the_access_that_google_leaves(google: World) -> None:
    first = await google.sell(product_id="pro_monthly:prepaid", buyer="ada", account_token="ada")
    await google.move(google.now + 10 * DAY)
    second = await google.act(first, "top_up")
    await google.move(google.now + DAY)
    assert await google.access("ada") == {"pro"}
    await google.act(second, "refund")
    [truth] = [state for state in google.store.expected_states() if not state.replaced]
    assert not truth.active
    assert await google.access("ada") == set()
    shown = await v1(google, "ada")
    assert shown["subscriptions"]["pro_monthly:prepaid"]["refunded_at"] is not None
    assert all(item["expires_date"] <= to_iso(google.now) for item in shown["entitlements"].values())
    await google.move(google.now + 90 * DAY)
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE", "REFUND"]


async def test_a_prepaid_plan_that_was_topped_up_ends_once(google: World) -> None:
    first = await google.sell(product_id="pro_monthly:prepaid", buyer="ada", account_token="ada")
    await google.move(google.now + 10 * DAY)
    await google.act(first, "top_up")
    await google.move(google.now + 30 * DAY, every=DAY)
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE"]
    assert await google.access("ada") == {"pro"}
    await google.move(google.now + 90 * DAY, every=5 * DAY)
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE", "EXPIRATION"]
    assert await google.access("ada") == set()


async def test_a_revoked_prepaid_plan_ends_at_once(google: World) -> None:
    bought = await google.sell(product_id="pro_monthly:prepaid", buyer="ada", account_token="ada")
    await google.move(google.now + 3 * DAY)
    await google.act(bought, "revoke")
    assert await google.access("ada") == set()
    [_, ended] = await google.events("ada")
    assert (ended["type"], ended["expiration_reason"]) == ("EXPIRATION", "DEVELOPER_INITIATED")


async def test_a_top_up_of_which_nobody_says_whose_it_is_belongs_to_the_owner_of_the_plan(google: World) -> None:
    first = google.store.sell(product_id="pro_monthly:prepaid", buyer="ada")
    assert (await google.show_receipt(first, "ada")).status == 200
    await google.settle()
    second = await google.act(first, "top_up")
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE"]
    await google.move(google.now + 40 * DAY)
    assert await google.access("ada") == {"pro"}
    # The phone shows it too, and nothing changes.
    assert (await google.show_receipt(second, "ada")).status == 200
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE"]


async def test_a_subscription_takes_the_place_of_a_prepaid_plan(google: World) -> None:
    first = await google.sell(product_id="pro_monthly:prepaid", buyer="ada", account_token="ada")
    await google.move(google.now + 10 * DAY)
    second = await google.act(first, "change", product_id="pro_monthly:monthly")
    await google.act(second, "refund")
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "INITIAL_PURCHASE", "REFUND"]
    assert await google.access("ada") == set()


async def test_a_prepaid_plan_takes_the_place_of_a_subscription(google: World) -> None:
    first = google.store.sell(product_id="pro_monthly:monthly", buyer="ada")
    assert (await google.show_receipt(first, "ada")).status == 200
    await google.settle()
    await google.move(google.now + 10 * DAY)
    second = await google.act(first, "change", product_id="pro_monthly:prepaid")
    assert await google.access("ada") == {"pro"}
    told = await google.events("ada")
    assert sorted(event["type"] for event in told) == ["EXPIRATION", "INITIAL_PURCHASE", "NON_RENEWING_PURCHASE"]
    assert all("pro" in event["entitlements"] for event in told)
    await google.act(second, "refund")
    assert await google.access("ada") == set()
    await google.move(google.now + 40 * DAY, every=DAY)
    assert (await google.types("ada"))[3:] == ["REFUND"]


async def test_a_server_sees_two_plans_of_one_product_apart_the_prepaid_one_too(google: World) -> None:
    for product in ("pro_monthly:prepaid", "pro_monthly:monthly", "pro_lifetime"):
        await google.sell(product_id=product, buyer=product, account_token="ada")
    shown = await v1(google, "ada")
    assert set(shown["non_subscriptions"]) == {"pro_lifetime"}
    assert set(shown["subscriptions"]) == {"pro_monthly:prepaid", "pro_monthly:monthly"}
    assert {event["product_id"] for event in await google.events("ada")} == {*shown["subscriptions"], "pro_lifetime"}
    plan = shown["subscriptions"]["pro_monthly:prepaid"]
    assert (plan["period_type"], plan["store"]) == ("prepaid", "play_store")


async def outage(world: World, length: Ms) -> None:
    """Latchkey is down: the store goes on, and nobody hears it."""

    async def nothing(_: Ms) -> None:
        return

    world.store.misbehave(drop=1.0)
    await world.store.move(world.now + length, nothing)
    world.store.behave()


@pytest.mark.parametrize("first", ["the clock", "somebody's request", "a new id", "coins", "the notification"])
async def test_after_an_outage_the_store_is_asked_before_an_end_is_told(google: World, first: str) -> None:
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await google.move(google.now + 29 * DAY)
    await outage(google, 4 * DAY)
    if first == "the clock":
        await google.pass_time()
    elif first == "a new id":
        new = {"app_user_id": "ada", "new_app_user_id": "ada2"}
        reply = await google.client.post("/v1/subscribers/identify", new, key=google.public_key)
        assert reply.status in (200, 201)
    elif first == "coins":
        project = f"/v2/projects/{PROJECT}"
        await google.client.post(f"{project}/virtual_currencies", {"code": "GLD", "name": "Gold"})
        spent = f"{project}/customers/ada/virtual_currencies/transactions"
        assert (await google.client.post(spent, {"adjustments": {"GLD": 5}})).status == 200
    elif first == "somebody's request":
        body = {"attributes": {"mood": {"value": "good", "updated_at_ms": google.now}}}
        assert (await google.client.post("/v1/subscribers/ada/attributes", body)).status == 200
    else:
        google.store.act(bought, "cancel")
        await google.store.deliver()
        await google.processor.process_due()
    await google.process()
    types = [type for type in await google.types("ada") if type != "VIRTUAL_CURRENCY_TRANSACTION"]
    assert types[:2] == ["INITIAL_PURCHASE", "RENEWAL"]
    assert "EXPIRATION" not in types
    assert await google.access("ada") == {"pro"}


async def test_an_end_is_told_after_an_outage_as_the_store_tells_it(google: World) -> None:
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await google.move(google.now + 29 * DAY)
    google.store.misbehave(drop=1.0)
    google.store.act(bought, "cancel")
    await outage(google, 4 * DAY)
    await google.pass_time()
    assert await google.types("ada") == ["INITIAL_PURCHASE"]
    await google.process()
    told = await google.events("ada")
    assert [event["type"] for event in told] == ["INITIAL_PURCHASE", "CANCELLATION", "EXPIRATION"]
    assert told[-1]["expiration_reason"] == "UNSUBSCRIBE"


async def test_an_end_does_not_wait_longer_than_a_day_for_a_store_that_cannot_be_asked(google: World) -> None:
    await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    ends_at = (await google.events("ada"))[0]["expiration_at_ms"]
    google.store.misbehave(drop=1.0, api=DOWN)
    await google.move(ends_at + 20 * HOUR, every=HOUR)
    assert await google.types("ada") == ["INITIAL_PURCHASE"]
    assert await google.access("ada") == set(), "access has ended all the same"
    await google.move(ends_at + 26 * HOUR, every=HOUR)
    assert await google.types("ada") == ["INITIAL_PURCHASE", "EXPIRATION"]


async def test_an_app_that_is_no_longer_connected_waits_for_nobody(google: World) -> None:
    await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await credentials.delete(google.connections, PROJECT, google.app_id)
    await outage(google, 32 * DAY)
    await google.pass_time()
    assert await google.types("ada") == ["INITIAL_PURCHASE", "EXPIRATION"]


def digest(app_user_id: str) -> str:
    return hashlib.sha256(app_user_id.encode()).hexdigest()


@pytest.mark.parametrize("known", ["jürgen@example.com", "back\\slash"])
async def test_an_owner_named_by_the_digest_of_the_id_is_found(google: World, known: str) -> None:
    """As the Android SDK names the buyer, before its receipt arrives."""
    path = f"/v1/subscribers/{quote(known, safe='')}"
    assert (await google.client.get(path, key=google.public_key)).status == 201
    await google.sell(product_id="pro_monthly:monthly", buyer="x", account_token=digest(known))
    assert (await google.client.get(path)).json()["subscriber"]["entitlements"].keys() == {"pro"}


@pytest.mark.parametrize("behavior", ["transfer", "keep", "transfer_if_no_active_subscriptions"])
async def test_a_digest_of_nobody_known_waits_for_the_phone(google: World, behavior: str) -> None:
    """Whatever becomes of purchases that another customer restores: nobody owned this one before."""
    changed = await google.client.request(
        "PATCH", f"/v2/projects/{PROJECT}", body=json.encode({"restore_behavior": behavior})
    )
    assert changed.status == 200, changed
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="x", account_token=digest("vera"))
    assert (await google.client.get(f"/v2/projects/{PROJECT}/customers/{digest('vera')}")).status == 404
    assert (await google.show_receipt(bought, "vera")).status == 200
    assert await google.access("vera") == {"pro"}
    assert await google.types("vera") == ["SUBSCRIBER_ALIAS"]


async def test_the_explanation_knows_the_product_without_its_base_plan(google: World) -> None:
    await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    path = f"/v2/projects/{PROJECT}/customers/ada/entitlements/pro/explanation"
    told = (await google.client.get(path)).json()
    assert told["renews"] is True
    assert "Detaching pro_monthly from the entitlement would take it away." in told["would_change"]


@pytest.mark.parametrize("product", ["pro_monthly:monthly", "pro_monthly:prepaid"])
async def test_a_refund_of_what_google_no_longer_tells_of_is_told(google: World, product: str) -> None:
    bought = await google.sell(product_id=product, buyer="ada", account_token="ada")
    if product == "pro_monthly:monthly":
        await google.act(bought, "cancel")
    await google.move(google.now + 120 * DAY, every=10 * DAY)
    before, shown = await google.types("ada"), await v1(google, "ada")
    assert before[-1] == "EXPIRATION"
    await google.act(bought, "refund")
    assert await google.types("ada") == [*before, "REFUND"]
    after = (await v1(google, "ada"))["subscriptions"][product]
    assert after.pop("refunded_at") is not None
    assert shown["subscriptions"][product].pop("refunded_at") is None
    assert after == shown["subscriptions"][product], "nothing else has changed"
    await google.move(google.now + 3 * DAY, every=DAY)
    assert (await google.types("ada"))[len(before) :] == ["REFUND"]


async def test_a_refund_of_what_nobody_ever_heard_of_is_noted(google: World) -> None:
    google.store.misbehave(drop=1.0)
    bought = google.store.sell(product_id="pro_monthly:prepaid", buyer="ada", account_token="ada")
    google.store.act(bought, "acknowledge")
    await google.move(google.now + 120 * DAY)
    google.store.behave()
    await google.act(bought, "refund")
    assert not await google.journal(status="failed")
    assert "EXPIRATION" not in await google.types("ada")


async def test_a_lost_renewal_is_told_when_the_purchase_is_replaced(google: World) -> None:
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    await outage(google, 33 * DAY)
    await google.act(bought, "change", product_id="team_monthly:monthly")
    assert await google.types("ada") == ["INITIAL_PURCHASE", "RENEWAL", "PRODUCT_CHANGE"]
