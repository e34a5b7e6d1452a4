"""GET …/customers/{id}/entitlements/{entitlement_id}/explanation: every reason there is, in data and in a sentence."""

from typing import Any, TypeAlias

import pytest

from latchkey.domain.formats import instant
from latchkey.domain.instants import Ms
from latchkey.wire.v2 import never_ends
from tests.http.client import DAY, NOW, Shop
from tests.http.doings import advance, clock_with, did
from tests.http.management import get, post

Step: TypeAlias = tuple[str, dict[str, Any]]

ENDS = NOW + 31 * DAY


async def why(shop: Shop, who: str, entitlement: str = "pro") -> dict[str, Any]:
    reply = await get(shop, f"customers/{who}/entitlements/{entitlement}/explanation")
    assert reply.status == 200, reply
    body: dict[str, Any] = reply.json()
    active = (await shop.v2(who)).json()["active_entitlements"]["items"]
    held = {item["entitlement_id"]: item["expires_at"] for item in active}
    # It always agrees with V2.
    assert body["has_access"] is (entitlement in held)
    if body["has_access"]:
        assert body["until"] == (None if never_ends(held[entitlement], NOW) else held[entitlement])
    assert body["sentence"].startswith(f"{who} {'has' if body['has_access'] else 'does not have'} {entitlement}")
    assert body["sentence"].endswith(".")
    assert body["would_change"]
    assert (body["object"], body["customer_id"], body["entitlement_id"]) == (
        "entitlement_explanation",
        who,
        entitlement,
    )
    return body


async def test_active_because_it_was_bought(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "active", "pro_monthly")
    body = await why(steady_shop, "active")
    assert (body["reason"], body["since"], body["until"], body["renews"]) == ("active", NOW, ENDS, True)
    assert (body["product_id"], body["store"]) == ("pro_monthly", "test_store")
    assert body["transaction_id"]
    assert set(body["granting_products"]) == {"pro_monthly", "pro_yearly", "pro_lifetime", "team_monthly"}
    assert instant(ENDS) in body["sentence"]


MONTH: Step = ("purchase", {"product_id": "pro_monthly"})
FOR_EVER: Step = ("purchase", {"product_id": "pro_lifetime"})
ON_TRIAL: Step = ("purchase", {"product_id": "pro_monthly", "trial": True})
GRACE: Step = ("fail_billing", {"grace_days": 3})
PAUSE: Step = ("pause", {"resume_at_ms": ENDS + 9 * DAY})
OUTAGE: Step = ("store_outage", {"product_id": "pro_monthly"})

# What is done, how far the clock is moved, and the reason, end and words in the explanation.
REASONS: dict[str, tuple[list[Step], Ms, str, Ms | None, str]] = {
    "cancelled": ([MONTH, ("cancel", {})], NOW, "active", ENDS, "does not renew"),
    "for ever": ([FOR_EVER], NOW, "active", None, "for ever"),
    "trial": ([ON_TRIAL], NOW, "trial", NOW + 7 * DAY, ""),
    "payment failed": ([MONTH, GRACE], NOW, "active", ENDS + 3 * DAY, "failed, and a grace"),
    "grace": ([MONTH, GRACE], ENDS, "grace_period", ENDS + 3 * DAY, ""),
    "retry": ([MONTH, GRACE], ENDS + 3 * DAY, "billing_retry", ENDS + 3 * DAY, ""),
    "paused": ([MONTH, PAUSE], ENDS, "paused", ENDS, ""),
    "refunded": ([MONTH, ("refund", {})], NOW, "refunded", NOW, ""),
    "refunded for ever": ([FOR_EVER, ("refund", {})], NOW, "refunded", NOW, ""),
    "refund of an early renewal": ([MONTH, ("renew", {}), ("refund", {})], NOW, "refunded", NOW, ""),
    "expired": ([MONTH, ("expire", {})], NOW, "expired", NOW, ""),
    "temporary": ([OUTAGE], NOW, "temporary", NOW + DAY, ""),
    "temporary, over": ([OUTAGE], NOW + DAY, "expired", NOW + DAY, ""),
}


@pytest.mark.parametrize("name", REASONS)
async def test_a_reason_and_its_end(steady_shop: Shop, name: str) -> None:
    steps, moved_to, reason, until, words = REASONS[name]
    who = name.replace(" ", "_").replace(",", "")
    clock = await clock_with(steady_shop, who)
    for action, fields in steps:
        await did(steady_shop, action, who, **fields)
    if moved_to > NOW:
        await advance(steady_shop, clock, to_ms=moved_to)
    body = await why(steady_shop, who)
    assert (body["reason"], body["until"]) == (reason, until)
    assert words in body["sentence"]


async def test_what_will_not_simply_renew_is_not_said_to(steady_shop: Shop) -> None:
    for who, action, more, says in (
        ("late1", "fail_billing", {"grace_days": 3}, "but the payment for the time after it failed, and a grace"),
        ("late2", "fail_billing", {}, "but the payment for the time after it failed"),
        ("rests", "pause", {"resume_at_ms": ENDS + 9 * DAY}, f"and it then pauses until {instant(ENDS + 9 * DAY)}"),
    ):
        await did(steady_shop, "purchase", who, "pro_monthly")
        await did(steady_shop, action, who, "pro_monthly", **more)
        body = await why(steady_shop, who)
        assert (body["reason"], body["renews"]) == ("active", False)
        assert says in body["sentence"]
    await did(steady_shop, "purchase", "grows", "pro_monthly")
    await did(steady_shop, "change_product", "grows", new_product_id="team_monthly", when="at_renewal")
    body = await why(steady_shop, "grows")
    assert body["renews"] is True
    assert body["sentence"].endswith("and it renews as team_monthly.")


async def test_a_failed_payment_made_good_is_among_what_would_change_it(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "hopes", "pro_monthly")
    await did(steady_shop, "fail_billing", "hopes")
    assert "A successful payment would renew it." in (await why(steady_shop, "hopes"))["would_change"]
    await did(steady_shop, "expire", "hopes")
    # Without access nothing can be taken away.
    assert not any("take it away" in line for line in (await why(steady_shop, "hopes"))["would_change"])


async def test_granted_and_revoked(steady_shop: Shop) -> None:
    await steady_shop.note("revoked", plan="x")
    await post(steady_shop, "customers/revoked/actions/grant_entitlement", {"entitlement_id": "pro"})
    assert (await why(steady_shop, "revoked"))["reason"] == "granted"
    await post(steady_shop, "customers/revoked/actions/revoke_granted_entitlement", {"entitlement_id": "pro"})
    assert (await why(steady_shop, "revoked"))["reason"] == "revoked"


async def test_never_granted_and_unknown(steady_shop: Shop) -> None:
    await steady_shop.note("plain", plan="x")
    body = await why(steady_shop, "plain", "team")
    assert (body["reason"], body["granting_products"]) == ("never_granted", ["team_monthly"])
    assert (body["since"], body["until"], body["product_id"], body["renews"]) == (None, None, None, None)
    assert (await why(steady_shop, "plain", "gold"))["reason"] == "unknown_entitlement"
