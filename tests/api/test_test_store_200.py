"""POST …/test_store/actions: every action, the events it answers with, and the customer as the next read shows it."""

from __future__ import annotations

from typing import Any

import pytest

from latchkey.domain.instants import end_to_iso, to_iso
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import advance, did, make_clock, move_in, told, types_told
from tests.api.management import get, holds

ENDS = NOW + 31 * DAY


async def done(shop: Shop, action: str, who: str, product: str | None = None, **more: Any) -> list[str]:
    """The event types in the reply to an action. Checks them with the end of the feed, and the customer with a read."""
    reply = await did(shop, action, who, product, **more)
    assert set(reply) == {"events", "customer"}
    assert reply["customer"] == (await shop.v2(who)).json()
    events = await told(shop, who)
    last = events[len(events) - len(reply["events"]) :]
    assert reply["events"] == [{"id": event["id"], "type": event["type"]} for event in last]
    return [event["type"] for event in reply["events"]]


async def test_purchase(steady_shop: Shop) -> None:
    assert await done(steady_shop, "purchase", "p1", "pro_monthly") == ["INITIAL_PURCHASE"]
    assert await done(steady_shop, "purchase", "p2", "pro_monthly", trial=True) == ["TRIAL_STARTED"]
    assert await done(steady_shop, "purchase", "p3", "pro_lifetime") == ["NON_RENEWING_PURCHASE"]
    assert await done(steady_shop, "purchase", "p4", "coins_100") == [
        "NON_RENEWING_PURCHASE",
        "VIRTUAL_CURRENCY_TRANSACTION",
    ]
    # Coins are used up, so they can be bought again and again.
    assert len(await done(steady_shop, "purchase", "p4", "coins_100")) == 2


@pytest.mark.parametrize(("environment", "sandbox"), [("SANDBOX", True), ("PRODUCTION", False)])
async def test_purchase_in_an_environment(steady_shop: Shop, environment: str, sandbox: bool) -> None:
    who = f"in_{environment}"
    await done(steady_shop, "purchase", who, "pro_monthly", environment=environment)
    body = (await steady_shop.v1(who)).json()["subscriber"]
    assert body["subscriptions"]["pro_monthly"]["is_sandbox"] is sandbox
    assert (await told(steady_shop, who))[0]["environment"] == environment


async def test_purchase_shared_by_the_family(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "kid", "pro_monthly", ownership_type="FAMILY_SHARED")
    body = (await steady_shop.v1("kid")).json()["subscriber"]
    assert body["subscriptions"]["pro_monthly"]["ownership_type"] == "FAMILY_SHARED"
    assert (await told(steady_shop, "kid"))[0]["is_family_share"] is True


async def test_renew(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "r", "pro_monthly")
    assert await done(steady_shop, "renew", "r") == ["RENEWAL"]
    event = (await told(steady_shop, "r"))[-1]
    assert event["expiration_at_ms"] == NOW + (31 + 28) * DAY
    assert event["renewal_number"] == 1


async def test_renewing_a_trial_converts_it(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "rt", "pro_monthly", trial=True)
    assert await done(steady_shop, "renew", "rt") == ["INITIAL_PURCHASE"]
    assert (await told(steady_shop, "rt"))[-1]["is_trial_conversion"] is True


async def test_cancel_and_uncancel(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "c", "pro_monthly")
    assert await done(steady_shop, "cancel", "c", reason="CUSTOMER_SUPPORT") == ["CANCELLATION"]
    assert (await told(steady_shop, "c"))[-1]["cancellation_reason"] == "CUSTOMER_SUPPORT"
    assert await holds(steady_shop, "c") == {"pro"}
    assert await done(steady_shop, "uncancel", "c") == ["UNCANCELLATION"]
    await done(steady_shop, "purchase", "ct", "pro_monthly", trial=True)
    assert await done(steady_shop, "cancel", "ct") == ["TRIAL_CANCELLED"]
    assert await done(steady_shop, "uncancel", "ct") == ["UNCANCELLATION"]


async def test_fail_and_recover_billing(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "b", "pro_monthly")
    assert await done(steady_shop, "fail_billing", "b", grace_days=3) == ["BILLING_ISSUE"]
    entitlement = (await told(steady_shop, "b"))[-1]["entitlements"]["pro"]
    assert entitlement["expires_date"] == entitlement["grace_period_expires_date"] == end_to_iso(ENDS + 3 * DAY, NOW)
    assert await done(steady_shop, "recover_billing", "b") == ["RENEWAL"]
    assert (await told(steady_shop, "b"))[-1]["entitlements"]["pro"]["grace_period_expires_date"] is None


async def test_billing_that_fails_without_grace_ends_with_what_was_paid_and_can_recover_later(
    steady_shop: Shop,
) -> None:
    clock = await make_clock(steady_shop)
    await move_in(steady_shop, "bf", clock)
    await done(steady_shop, "purchase", "bf", "pro_monthly")
    assert await done(steady_shop, "fail_billing", "bf") == ["BILLING_ISSUE"]
    assert (await told(steady_shop, "bf"))[-1]["grace_period_expires_at_ms"] is None
    await advance(steady_shop, clock, to_ms=ENDS)
    event = (await told(steady_shop, "bf"))[-1]
    assert (event["type"], event["expiration_reason"]) == ("EXPIRATION", "BILLING_ERROR")
    await advance(steady_shop, clock, by="P2D")
    assert await done(steady_shop, "recover_billing", "bf") == ["RENEWAL"]
    assert (await told(steady_shop, "bf"))[-1]["purchased_at_ms"] == ENDS + 2 * DAY


async def test_expire(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "e", "team_monthly")
    assert await done(steady_shop, "expire", "e", reason="PRICE_INCREASE") == ["EXPIRATION"]
    event = (await told(steady_shop, "e"))[-1]
    assert (event["expiration_reason"], event["entitlements"]) == ("PRICE_INCREASE", {})
    # And it can be bought again.
    assert await done(steady_shop, "purchase", "e", "team_monthly") == ["INITIAL_PURCHASE"]


@pytest.mark.parametrize("product", ["pro_monthly", "pro_lifetime"])
async def test_refund_and_reverse_refund(steady_shop: Shop, product: str) -> None:
    who = f"rf_{product}"
    await done(steady_shop, "purchase", who, product)
    assert await done(steady_shop, "refund", who, product) == ["REFUND"]
    assert await holds(steady_shop, who) == set()
    assert await done(steady_shop, "reverse_refund", who, product) == ["REFUND_REVERSED"]
    assert await holds(steady_shop, who) == {"pro"}
    assert await done(steady_shop, "refund", who, product) == ["REFUND"]


async def test_refunding_coins_takes_back_those_that_are_left(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "coiner", "coins_100")
    path = f"/v2/projects/{steady_shop.project_id}/customers/coiner/virtual_currencies/transactions"
    await steady_shop.client.post(path, {"adjustments": {"COIN": -30}})
    refunded = await done(steady_shop, "refund", "coiner", "coins_100")
    assert refunded == ["REFUND", "VIRTUAL_CURRENCY_TRANSACTION"]
    event = next(one for one in reversed(await told(steady_shop, "coiner")) if one["type"].startswith("VIRTUAL"))
    assert (event["amount"], event["transaction_type"], event["currency"]) == (70, "debit", "COIN")
    reversed_ = await done(steady_shop, "reverse_refund", "coiner", "coins_100")
    assert reversed_ == ["REFUND_REVERSED", "VIRTUAL_CURRENCY_TRANSACTION"]


async def test_change_product_now(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "cp", "pro_monthly")
    assert await done(steady_shop, "change_product", "cp", new_product_id="team_monthly") == ["PRODUCT_CHANGE"]
    event = (await told(steady_shop, "cp"))[-1]
    assert (event["product_id"], event["new_product_id"]) == ("pro_monthly", "team_monthly")
    assert await holds(steady_shop, "cp") == {"pro", "team"}
    subscriptions = (await steady_shop.v1("cp")).json()["subscriber"]["subscriptions"]
    assert subscriptions["pro_monthly"]["expires_date"] == to_iso(NOW)
    assert subscriptions["team_monthly"]["expires_date"] == end_to_iso(ENDS, NOW)


async def test_change_product_at_renewal_is_announced_once_and_then_only_renews(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    await move_in(steady_shop, "cr", clock)
    await done(steady_shop, "purchase", "cr", "team_monthly")
    change = {"new_product_id": "pro_yearly", "when": "at_renewal"}
    assert await done(steady_shop, "change_product", "cr", **change) == ["PRODUCT_CHANGE"]
    event = (await told(steady_shop, "cr"))[-1]
    assert (event["product_id"], event["new_product_id"]) == ("team_monthly", "pro_yearly")
    assert event["expiration_at_ms"] == ENDS
    assert await holds(steady_shop, "cr") == {"pro", "team"}
    await advance(steady_shop, clock, to_ms=ENDS)
    events = await told(steady_shop, "cr")
    assert [event["type"] for event in events] == ["INITIAL_PURCHASE", "PRODUCT_CHANGE", "RENEWAL"]
    assert (events[-1]["product_id"], events[-1]["price"]) == ("pro_yearly", 79.99)
    assert "new_product_id" not in events[-1]
    assert await holds(steady_shop, "cr") == {"pro"}


async def test_a_change_that_waits_can_be_called_off(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "co", "pro_monthly")
    await done(steady_shop, "change_product", "co", new_product_id="pro_yearly", when="at_renewal")
    back = {"new_product_id": "pro_monthly", "when": "at_renewal"}
    assert await done(steady_shop, "change_product", "co", **back) == ["PRODUCT_CHANGE"]
    event = (await told(steady_shop, "co"))[-1]
    assert (event["product_id"], event["new_product_id"]) == ("pro_yearly", "pro_monthly")


async def test_pause_and_resume(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    await move_in(steady_shop, "pz", clock)
    await done(steady_shop, "purchase", "pz", "pro_monthly")
    assert await done(steady_shop, "pause", "pz", resume_at_ms=ENDS + 9 * DAY) == ["SUBSCRIPTION_PAUSED"]
    assert (await told(steady_shop, "pz"))[-1]["auto_resume_at_ms"] == ENDS + 9 * DAY
    subscription = (await steady_shop.v1("pz")).json()["subscriber"]["subscriptions"]["pro_monthly"]
    assert subscription["auto_resume_date"] == to_iso(ENDS + 9 * DAY)
    assert await done(steady_shop, "resume", "pz") == ["UNCANCELLATION"]
    await done(steady_shop, "pause", "pz", resume_at_ms=ENDS + 9 * DAY)
    await advance(steady_shop, clock, to_ms=ENDS + DAY)
    assert (await types_told(steady_shop, "pz"))[-1] == "EXPIRATION"
    assert await done(steady_shop, "resume", "pz") == ["RENEWAL"]
    assert (await told(steady_shop, "pz"))[-1]["purchased_at_ms"] == ENDS + DAY


async def test_extend(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "x", "pro_monthly")
    assert await done(steady_shop, "extend", "x", days=3) == ["SUBSCRIPTION_EXTENDED"]
    assert (await told(steady_shop, "x"))[-1]["expiration_at_ms"] == ENDS + 3 * DAY


async def test_issue_invoice(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "i", "pro_monthly")
    assert await done(steady_shop, "issue_invoice", "i") == ["INVOICE_ISSUANCE"]
    assert await done(steady_shop, "issue_invoice", "i") == ["INVOICE_ISSUANCE"]


async def test_store_outage(steady_shop: Shop) -> None:
    assert await done(steady_shop, "store_outage", "o", "pro_monthly") == ["TEMPORARY_ENTITLEMENT_GRANT"]
    assert await holds(steady_shop, "o") == {"pro"}
    assert await done(steady_shop, "purchase", "o", "pro_monthly") == ["INITIAL_PURCHASE"]


async def test_an_action_without_a_product_is_about_the_newest_purchase(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "two", "pro_monthly")
    steady_shop.clock.now += 1
    await done(steady_shop, "purchase", "two", "team_monthly")
    await done(steady_shop, "cancel", "two")
    steady_shop.clock.now = NOW
    assert (await told(steady_shop, "two"))[-1]["product_id"] == "team_monthly"


async def test_the_shelf_of_actions_is_in_the_document(steady_shop: Shop) -> None:
    document = (await steady_shop.client.get("/openapi.json")).json()
    actions = document["components"]["schemas"]["NewAction"]["properties"]["action"]["enum"]
    assert len(actions) == 15
    assert (await get(steady_shop, "test_store/actions")).status == 405
