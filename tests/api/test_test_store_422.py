"""POST …/test_store/actions that make no sense: each is a 422 that says why, and nothing is changed."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from tests.api.client import DAY, NOW, Shop
from tests.api.doings import act, count_rows, did
from tests.api.management import refused

Life: TypeAlias = list[tuple[str, dict[str, Any]]]

ENDS = NOW + 31 * DAY
BOUGHT: Life = [("purchase", {"product_id": "pro_monthly"})]

# One of each kind of refusal: `tests/domain/test_test_store_actions.py` has every action in every state.
NONSENSE: list[tuple[Life, str, dict[str, Any], str]] = [
    (BOUGHT, "purchase", {"product_id": "pro_monthly"}, "already"),
    ([], "purchase", {"product_id": "pro_yearly", "trial": True}, "no trial"),
    ([*BOUGHT, ("fail_billing", {})], "renew", {}, "recover_billing"),
    ([*BOUGHT, ("expire", {})], "cancel", {}, "ended at"),
    ([("purchase", {"product_id": "coins_100"})], "cancel", {}, "one-time"),
    ([*BOUGHT, ("refund", {})], "refund", {}, "refunded"),
    (BOUGHT, "change_product", {"new_product_id": "pro_lifetime"}, "not a subscription"),
    (BOUGHT, "pause", {"resume_at_ms": ENDS}, "later"),
    ([], "store_outage", {"product_id": "coins_100"}, "grants no entitlement"),
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


@pytest.mark.parametrize(
    "action",
    [
        *("renew", "cancel", "uncancel", "fail_billing", "recover_billing", "expire", "refund", "reverse_refund"),
        *("change_product", "pause", "resume", "extend", "issue_invoice"),
    ],
)
async def test_who_has_bought_nothing_can_do_nothing_but_buy(steady_shop: Shop, action: str) -> None:
    await steady_shop.note("poor", plan="x")
    of_actions: dict[str, dict[str, Any]] = {
        "change_product": {"new_product_id": "pro_yearly"}, "pause": {"resume_at_ms": ENDS}, "extend": {"days": 1},
    }  # fmt: skip
    fields = of_actions.get(action, {})
    reply = await act(steady_shop, action, "poor", **fields)
    refused(reply, 422, "unprocessable_entity_error", "product_id")
    reply = await act(steady_shop, action, "poor", "pro_monthly", **fields)
    refused(reply, 422, "unprocessable_entity_error", "product_id")
    # It does not create an unknown customer.
    refused(await act(steady_shop, action, "stranger", "pro_monthly", **fields), 404, "resource_missing", "app_user_id")
    assert (await steady_shop.v2("stranger")).status == 404


async def test_products_that_do_not_exist_are_404_by_name(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "buyer", "pro_monthly")
    before = await count_rows(steady_shop)
    for action in ("purchase", "store_outage"):
        refused(await act(steady_shop, action, "stranger", "nothing"), 404, "resource_missing", "product_id")
    reply = await act(steady_shop, "change_product", "buyer", new_product_id="nothing")
    refused(reply, 404, "resource_missing", "new_product_id")
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"action": "steal"}, "action"),
        ({"action": None}, "action"),
        ({"app_user_id": "null"}, "app_user_id"),
        ({"app_user_id": ""}, "app_user_id"),
        ({"environment": "sandbox"}, "environment"),
        ({"environment": None}, "environment"),
        ({"trial": "true"}, "trial"),
        ({"trial": 1}, "trial"),
        ({"ownership_type": "STOLEN"}, "ownership_type"),
        ({"reason": "WEATHER"}, "reason"),
        ({"reason": "SUBSCRIPTION_PAUSED"}, "reason"),
        ({"grace_days": -1}, "grace_days"),
        ({"grace_days": 366}, "grace_days"),
        ({"grace_days": 1.5}, "grace_days"),
        ({"when": "later"}, "when"),
        ({"days": 0}, "days"),
        ({"days": 3651}, "days"),
        ({"resume_at_ms": 1_800_000_000}, "resume_at_ms"),
        ({"resume_at_ms": NOW * 1000}, "resume_at_ms"),
        ({"product_id": ""}, "product_id"),
        ({"product_id": 7}, "product_id"),
        ({"price": 1}, "price"),
    ],
)
async def test_a_field_that_is_wrong_is_400_by_name(steady_shop: Shop, fields: dict[str, Any], param: str) -> None:
    before = await count_rows(steady_shop)
    body = {"action": "purchase", "app_user_id": "stranger", "product_id": "pro_monthly", **fields}
    path = f"/v2/projects/{steady_shop.project_id}/test_store/actions"
    refused(await steady_shop.client.post(path, body), 400, "parameter_error", param)
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
