"""POST …/test_store/actions: every action with its events, those that make no sense (422), and a closed test store.

`tests/domain/test_event_types.py` has the fields of each event."""

from typing import Any, TypeAlias

import pytest

from tests.http.client import DAY, NOW, Shop
from tests.http.doings import (
    act,
    advance,
    clock_with,
    count_rows,
    did,
    show_receipt,
    told,
    types_told,
)
from tests.http.management import holds, patch, refused

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


async def test_refunding_coins_takes_back_those_that_are_left(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "coiner", "coins_100")
    path = f"/v2/projects/{steady_shop.project_id}/customers/coiner/virtual_currencies/transactions"
    await steady_shop.client.post(path, {"adjustments": {"COIN": -30}})
    refunded = await done(steady_shop, "refund", "coiner", "coins_100")
    assert refunded == ["REFUND", "VIRTUAL_CURRENCY_TRANSACTION"]
    event = next(one for one in reversed(await told(steady_shop, "coiner")) if one["type"].startswith("VIRTUAL"))
    assert (event["amount"], event["transaction_type"], event["currency"]) == (70, "debit", "COIN")


async def test_an_action_without_a_product_is_about_the_newest_purchase(steady_shop: Shop) -> None:
    await done(steady_shop, "purchase", "two", "pro_monthly")
    steady_shop.clock.now += 1
    await done(steady_shop, "purchase", "two", "team_monthly")
    await done(steady_shop, "cancel", "two")
    steady_shop.clock.now = NOW
    assert (await told(steady_shop, "two"))[-1]["product_id"] == "team_monthly"


Life: TypeAlias = list[tuple[str, dict[str, Any]]]

MONTHLY: Life = [("purchase", {"product_id": "pro_monthly"})]

# One of each kind of refusal: `tests/domain/test_test_store_actions.py` has every action in every state.
NONSENSE: list[tuple[Life, str, dict[str, Any], str]] = [
    (MONTHLY, "purchase", {"product_id": "pro_monthly"}, "already"),
    ([], "purchase", {"product_id": "pro_yearly", "trial": True}, "no trial"),
    ([*MONTHLY, ("fail_billing", {})], "renew", {}, "recover_billing"),
    ([*MONTHLY, ("expire", {})], "cancel", {}, "ended at"),
    ([("purchase", {"product_id": "coins_100"})], "cancel", {}, "one-time"),
    ([*MONTHLY, ("refund", {})], "refund", {}, "refunded"),
    (MONTHLY, "change_product", {"new_product_id": "pro_lifetime"}, "not a subscription"),
    (MONTHLY, "pause", {"resume_at_ms": ENDS}, "later"),
    ([], "store_outage", {"product_id": "coins_100"}, "grants no entitlement"),
    ([], "renew", {}, "has bought nothing"),
    ([], "extend", {"product_id": "pro_monthly", "days": 1}, "has not bought 'pro_monthly'"),
]


@pytest.mark.parametrize(("life", "action", "fields", "words"), NONSENSE)
async def test_nonsense_is_422_and_says_why(
    steady_shop: Shop, life: Life, action: str, fields: dict[str, Any], words: str
) -> None:
    who = f"user_{abs(hash((str(life), action, str(fields))))}"
    await steady_shop.note(who, plan="x")
    for step, more in life:
        await did(steady_shop, step, who, **more)
    before, shown = await count_rows(steady_shop), (await steady_shop.v1(who)).json()
    reply = await act(steady_shop, action, who, **fields)
    assert (reply.status, reply.json()["type"]) == (422, "unprocessable_entity_error"), reply
    assert words in reply.json()["message"]
    assert reply.json()["param"]
    assert await count_rows(steady_shop) == before
    assert (await steady_shop.v1(who)).json() == shown


async def test_products_that_do_not_exist_are_404_by_name(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "buyer", "pro_monthly")
    before = await count_rows(steady_shop)
    for action in ("purchase", "store_outage"):
        refused(await act(steady_shop, action, "stranger", "nothing"), 404, "resource_missing", "product_id")
    # Nor does an action create an unknown customer.
    refused(await act(steady_shop, "cancel", "stranger", "pro_monthly"), 404, "resource_missing", "app_user_id")
    reply = await act(steady_shop, "change_product", "buyer", new_product_id="nothing")
    refused(reply, 404, "resource_missing", "new_product_id")
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize(
    ("action", "param"),
    [
        ("purchase", "product_id"),
        ("store_outage", "product_id"),
        ("change_product", "new_product_id"),
        ("pause", "resume_at_ms"),
        ("extend", "days"),
    ],
)
async def test_an_action_without_what_it_needs_is_400(steady_shop: Shop, action: str, param: str) -> None:
    await did(steady_shop, "purchase", f"needs_{action}", "pro_monthly")
    before = await count_rows(steady_shop)
    for who in (f"needs_{action}", "stranger"):
        for fields in ({}, {param: None}):
            refused(await act(steady_shop, action, who, **fields), 400, "parameter_error", param)
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("refund", {"days": 5}),
        ("cancel", {"grace_days": 3}),
        ("renew", {"trial": True}),
        ("purchase", {"product_id": "pro_yearly", "new_product_id": "pro_monthly"}),
        ("purchase", {"product_id": "pro_yearly", "reason": "UNSUBSCRIBE"}),
        ("expire", {"environment": "PRODUCTION"}),
        ("issue_invoice", {"ownership_type": "FAMILY_SHARED"}),
        ("resume", {"resume_at_ms": ENDS}),
        ("extend", {"days": 1, "when": "at_renewal"}),
    ],
)
async def test_a_field_of_another_action_is_400(steady_shop: Shop, action: str, fields: dict[str, Any]) -> None:
    await did(steady_shop, "purchase", who := f"takes_{abs(hash(str(fields)))}", "pro_monthly")
    before = await count_rows(steady_shop)
    refused(await act(steady_shop, action, who, **fields), 400, "parameter_error", list(fields)[-1])
    assert await count_rows(steady_shop) == before


@pytest.fixture
async def closed(shop: Shop) -> Shop:
    """Ada subscribed and Bob bought something for ever, before it was closed."""
    await did(shop, "purchase", "ada", "pro_monthly")
    await did(shop, "purchase", "bob", "pro_lifetime")
    await show_receipt(shop, "eve", "test_1_eve")
    reply = await patch(shop, "", {"test_store": "closed"})
    assert (reply.status, reply.json()["test_store"]) == (200, "closed")
    return shop


async def test_a_receipt_is_400_7103_also_for_what_is_known(closed: Shop) -> None:
    before = await count_rows(closed)
    for who, token in (("new", "test_2_new"), ("eve", "test_1_eve"), ("thief", "test_1_eve")):
        reply = await show_receipt(closed, who, token)
        assert (reply.status, reply.json()["code"]) == (400, 7103)
        assert "closed" in reply.json()["message"]
    assert await count_rows(closed) == before
    assert await holds(closed, "eve") == {"pro"}


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("purchase", {"product_id": "team_monthly"}),
        ("store_outage", {"product_id": "team_monthly"}),
        ("renew", {}),
        ("uncancel", {}),
        ("recover_billing", {}),
        ("resume", {}),
        ("extend", {"days": 3}),
        ("change_product", {"new_product_id": "pro_yearly"}),
        ("reverse_refund", {}),
        ("issue_invoice", {}),
        ("fail_billing", {"grace_days": 3}),
        ("pause", {"resume_at_ms": NOW + 90 * DAY}),
    ],
)
async def test_an_action_of_a_secret_key_is_422(closed: Shop, action: str, fields: dict[str, Any]) -> None:
    before = await count_rows(closed)
    reply = await act(closed, action, "ada", **fields)
    refused(reply, 422, "unprocessable_entity_error", "action")
    assert "closed" in reply.json()["message"]
    assert await count_rows(closed) == before


async def test_moving_an_end_by_v1_is_422_and_refunding_is_not(closed: Shop) -> None:
    path = "/v1/subscribers/ada/subscriptions/pro_monthly"
    assert (await closed.client.post(f"{path}/defer", {"extend_by_days": 3})).status == 422
    assert (await closed.client.post(f"{path}/revoke")).status == 200
    assert await holds(closed, "ada") == set()


async def test_what_takes_access_away_is_still_done(closed: Shop) -> None:
    await did(closed, "cancel", "ada", "pro_monthly")
    await did(closed, "refund", "bob", "pro_lifetime")
    await did(closed, "expire", "eve", "pro_monthly")
    assert await holds(closed, "ada") == {"pro"}
    assert await holds(closed, "bob") == set()
    assert await holds(closed, "eve") == set()


async def test_what_was_bought_before_runs_out_and_is_not_renewed(shop: Shop) -> None:
    clock = await clock_with(shop, "ada")
    await did(shop, "purchase", "ada", "pro_monthly")
    await advance(shop, clock, by="P1M")
    assert await types_told(shop) == ["INITIAL_PURCHASE", "RENEWAL"]
    await patch(shop, "", {"test_store": "closed"})
    assert await holds(shop, "ada") == {"pro"}
    await advance(shop, clock, by="P3M")
    assert await types_told(shop) == ["INITIAL_PURCHASE", "RENEWAL", "EXPIRATION"]
    assert await holds(shop, "ada") == set()


async def test_opened_again_it_sells_again(closed: Shop) -> None:
    assert (await patch(closed, "", {"test_store": "open"})).json()["test_store"] == "open"
    assert (await show_receipt(closed, "new", "test_2_new")).status == 200
    assert (await act(closed, "renew", "ada", "pro_monthly")).status == 200
