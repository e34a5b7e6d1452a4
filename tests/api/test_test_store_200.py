"""POST …/test_store/actions: every action, the events it answers with, and the customer as the next read shows it.

`tests/domain/test_event_types.py` has the fields of each event."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from latchkey.domain.instants import end_to_iso, to_iso
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import advance, did, make_clock, move_in, told, types_told
from tests.api.management import get, holds

ENDS = NOW + 31 * DAY
# An action, its fields, and the types of the events in the answer.
Step: TypeAlias = tuple[str, dict[str, Any], list[str]]
BOUGHT: Step = ("purchase", {"product": "pro_monthly"}, ["INITIAL_PURCHASE"])
ON_TRIAL: Step = ("purchase", {"product": "pro_monthly", "trial": True}, ["TRIAL_STARTED"])
# Coins are used up, so they can be bought again and again.
COINS: Step = ("purchase", {"product": "coins_100"}, ["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"])
FOR_EVER: Step = ("purchase", {"product": "pro_lifetime"}, ["NON_RENEWING_PURCHASE"])
REFUNDED: Step = ("refund", {}, ["REFUND"])
REVERSED: Step = ("reverse_refund", {}, ["REFUND_REVERSED"])
TO_YEARLY = {"new_product_id": "pro_yearly", "when": "at_renewal"}
TO_MONTHLY = {"new_product_id": "pro_monthly", "when": "at_renewal"}

LIVES: dict[str, tuple[list[Step], set[str]]] = {
    "coins twice": ([COINS, COINS], set()),
    "renewed": ([BOUGHT, ("renew", {}, ["RENEWAL"])], {"pro"}),
    "a renewed trial is converted": ([ON_TRIAL, ("renew", {}, ["INITIAL_PURCHASE"])], {"pro"}),
    "cancelled and not": (
        [BOUGHT, ("cancel", {"reason": "CUSTOMER_SUPPORT"}, ["CANCELLATION"]), ("uncancel", {}, ["UNCANCELLATION"])],
        {"pro"},
    ),
    "trial cancelled and not": (
        [ON_TRIAL, ("cancel", {}, ["TRIAL_CANCELLED"]), ("uncancel", {}, ["UNCANCELLATION"])],
        {"pro"},
    ),
    "failed and recovered": (
        [BOUGHT, ("fail_billing", {"grace_days": 3}, ["BILLING_ISSUE"]), ("recover_billing", {}, ["RENEWAL"])],
        {"pro"},
    ),
    "expired and bought again": (
        [BOUGHT, ("expire", {"reason": "PRICE_INCREASE"}, ["EXPIRATION"]), BOUGHT],
        {"pro"},
    ),
    "refunded": ([BOUGHT, REFUNDED], set()),
    "refund reversed": ([BOUGHT, REFUNDED, REVERSED], {"pro"}),
    "one-time refund reversed and refunded": ([FOR_EVER, REFUNDED, REVERSED, REFUNDED], set()),
    "changed": ([BOUGHT, ("change_product", {"new_product_id": "team_monthly"}, ["PRODUCT_CHANGE"])], {"pro", "team"}),
    "a change that waits is called off": (
        [BOUGHT, ("change_product", TO_YEARLY, ["PRODUCT_CHANGE"]), ("change_product", TO_MONTHLY, ["PRODUCT_CHANGE"])],
        {"pro"},
    ),
    "paused and resumed": (
        [BOUGHT, ("pause", {"resume_at_ms": ENDS + DAY}, ["SUBSCRIPTION_PAUSED"]), ("resume", {}, ["UNCANCELLATION"])],
        {"pro"},
    ),
    "extended": ([BOUGHT, ("extend", {"days": 3}, ["SUBSCRIPTION_EXTENDED"])], {"pro"}),
    "invoices": ([BOUGHT, *[("issue_invoice", {}, ["INVOICE_ISSUANCE"])] * 2], {"pro"}),
    "an outage, then the purchase": (
        [("store_outage", {"product": "pro_monthly"}, ["TEMPORARY_ENTITLEMENT_GRANT"]), BOUGHT],
        {"pro"},
    ),
}


async def done(shop: Shop, action: str, who: str, product: str | None = None, **more: Any) -> list[str]:
    """The event types in the reply to an action. Checks them with the end of the feed, and the customer with a read."""
    reply = await did(shop, action, who, product, **more)
    assert set(reply) == {"events", "customer"}
    assert reply["customer"] == (await shop.v2(who)).json()
    events = await told(shop, who)
    last = events[len(events) - len(reply["events"]) :]
    assert reply["events"] == [{"id": event["id"], "type": event["type"]} for event in last]
    return [event["type"] for event in reply["events"]]


@pytest.mark.parametrize("name", LIVES)
async def test_every_action_answers_with_its_events_and_the_customer(steady_shop: Shop, name: str) -> None:
    steps, held = LIVES[name]
    who = name.replace(" ", "_").replace(",", "")
    for action, fields, types in steps:
        assert await done(steady_shop, action, who, **fields) == types
    assert await holds(steady_shop, who) == held


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


async def test_refunding_coins_takes_back_those_that_are_left(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "coiner", "coins_100")
    path = f"/v2/projects/{steady_shop.project_id}/customers/coiner/virtual_currencies/transactions"
    await steady_shop.client.post(path, {"adjustments": {"COIN": -30}})
    refunded = await done(steady_shop, "refund", "coiner", "coins_100")
    assert refunded == ["REFUND", "VIRTUAL_CURRENCY_TRANSACTION"]
    event = next(one for one in reversed(await told(steady_shop, "coiner")) if one["type"].startswith("VIRTUAL"))
    assert (event["amount"], event["transaction_type"], event["currency"]) == (70, "debit", "COIN")


async def test_change_product_now(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "cp", "pro_monthly")
    await done(steady_shop, "change_product", "cp", new_product_id="team_monthly")
    subscriptions = (await steady_shop.v1("cp")).json()["subscriber"]["subscriptions"]
    assert subscriptions["pro_monthly"]["expires_date"] == to_iso(NOW)
    assert subscriptions["team_monthly"]["expires_date"] == end_to_iso(ENDS, NOW)


async def test_a_life_on_a_clock_pauses_fails_and_changes_at_its_time(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    for who, action, fields in (
        ("pz", "pause", {"resume_at_ms": ENDS + 9 * DAY}),
        ("bf", "fail_billing", {}),
        ("cr", "change_product", TO_YEARLY),
    ):
        await move_in(steady_shop, who, clock)
        await done(steady_shop, "purchase", who, "pro_monthly")
        await done(steady_shop, action, who, **fields)
    subscription = (await steady_shop.v1("pz")).json()["subscriber"]["subscriptions"]["pro_monthly"]
    assert subscription["auto_resume_date"] == to_iso(ENDS + 9 * DAY)
    await advance(steady_shop, clock, to_ms=ENDS + DAY)
    assert (await types_told(steady_shop, "cr"))[1:] == ["PRODUCT_CHANGE", "RENEWAL"]
    for who, action in (("pz", "resume"), ("bf", "recover_billing")):
        assert (await types_told(steady_shop, who))[-1] == "EXPIRATION"
        assert await done(steady_shop, action, who) == ["RENEWAL"]
        assert (await told(steady_shop, who))[-1]["purchased_at_ms"] == ENDS + DAY


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
