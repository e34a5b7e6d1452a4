"""Every event that snapshots of a store without an adapter can cause, over HTTP, with both reads."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.http.client import DAY, NOW, Shop
from tests.http.management import holds, post, walk
from tests.stores.external.bodies import MONTH, payments, period, purchase, status, subscription


@dataclass(frozen=True, slots=True)
class Row:
    """Snapshots one after the other, each sent when it is about, and the events of the last one."""

    name: str
    sent: tuple[dict[str, Any], ...]
    tells: tuple[str, ...]
    access: bool = True
    # How long after the last snapshot the reads are made, and what time alone tells until then.
    later: int = 0
    then: tuple[str, ...] = ()


LATER = NOW + DAY
TRIAL = period(1, period_type="trial", price=0)
YEARLY = period(2, product_id="pro_yearly", expires_at=NOW + 13 * MONTH, price=79.99)
SECOND = NOW + MONTH

ROWS = (
    Row("bought", (subscription(),), ("INITIAL_PURCHASE",)),
    Row("bought with a trial", (subscription(TRIAL),), ("TRIAL_STARTED",)),
    Row(
        "a trial needs no price",
        (subscription(period(period_type="trial", price=None, currency=None)),),
        ("TRIAL_STARTED",),
    ),
    Row(
        "a trial becomes paid",
        (subscription(TRIAL), subscription(TRIAL, period(2), as_of=SECOND)),
        ("INITIAL_PURCHASE",),
    ),
    Row(
        "a trial is cancelled",
        (subscription(TRIAL), subscription(TRIAL, auto_renew=False, as_of=LATER)),
        ("TRIAL_CANCELLED",),
    ),
    Row("renewed", (subscription(), subscription(period(), period(2), as_of=SECOND)), ("RENEWAL",)),
    Row(
        "renewed, told alone",
        (subscription(), subscription(period(2, cause="renewal"), as_of=SECOND)),
        ("RENEWAL",),
    ),
    Row(
        "its whole past at once", (subscription(TRIAL, period(2), as_of=SECOND),), ("TRIAL_STARTED", "INITIAL_PURCHASE")
    ),
    Row(
        "cancelled",
        (subscription(), subscription(auto_renew=False, unsubscribe_detected_at=NOW + 1, as_of=LATER)),
        ("CANCELLATION",),
    ),
    Row(
        "cancelled, then ends",
        (subscription(), subscription(auto_renew=False, as_of=LATER)),
        ("CANCELLATION",),
        access=False,
        later=MONTH,
        then=("EXPIRATION",),
    ),
    Row(
        "cancelled and taken back",
        (subscription(), subscription(auto_renew=False, as_of=LATER), subscription(as_of=LATER + 1)),
        ("UNCANCELLATION",),
    ),
    Row(
        "another product at the next renewal",
        (subscription(), subscription(next_product_id="pro_yearly", as_of=LATER)),
        ("PRODUCT_CHANGE",),
    ),
    Row(
        "the product that was announced",
        (
            subscription(),
            subscription(next_product_id="pro_yearly", as_of=LATER),
            subscription(period(), YEARLY, as_of=SECOND),
        ),
        ("RENEWAL",),
    ),
    Row(
        "another product at once",
        (
            subscription(),
            subscription(
                period(expires_at=LATER),
                period(2, product_id="pro_yearly", purchased_at=LATER, cause="change"),
                as_of=LATER,
            ),
        ),
        ("PRODUCT_CHANGE",),
    ),
    Row(
        "another product at once, found by its time",
        (subscription(), subscription(period(), period(2, product_id="pro_yearly", purchased_at=LATER), as_of=LATER)),
        ("PRODUCT_CHANGE",),
    ),
    Row(
        "a payment fails, with a grace period",
        (
            subscription(),
            subscription(billing_issues_detected_at=SECOND, grace_period_expires_at=SECOND + 3 * DAY, as_of=SECOND),
        ),
        ("BILLING_ISSUE",),
    ),
    Row(
        "a payment fails, without one",
        (subscription(), subscription(billing_issues_detected_at=SECOND, as_of=SECOND)),
        ("BILLING_ISSUE", "EXPIRATION"),
        access=False,
    ),
    Row(
        "the store ends it",
        (subscription(), subscription(period(expires_at=LATER), ended_reason="BILLING_ERROR", as_of=LATER)),
        ("EXPIRATION",),
        access=False,
    ),
    Row("paused", (subscription(), subscription(auto_resume_at=SECOND + MONTH, as_of=LATER)), ("SUBSCRIPTION_PAUSED",)),
    Row(
        "extended",
        (subscription(), subscription(period(expires_at=SECOND + DAY), as_of=LATER)),
        ("SUBSCRIPTION_EXTENDED",),
    ),
    Row("refunded", (subscription(), subscription(period(refunded_at=LATER), as_of=LATER)), ("REFUND",), access=False),
    Row("refunded in part", (subscription(), subscription(period(refunded_amount=5), as_of=LATER)), ()),
    Row(
        "the refund was taken back",
        (
            subscription(),
            subscription(period(refunded_at=LATER), as_of=LATER),
            subscription(period(refunded_at=LATER, refund_reversed_at=LATER + 5), as_of=LATER + 5),
        ),
        ("REFUND_REVERSED",),
    ),
    Row(
        "the refund is not told any more",
        (subscription(), subscription(period(refunded_at=LATER), as_of=LATER), subscription(as_of=LATER + 5)),
        ("REFUND_REVERSED",),
    ),
    Row("bought, payments alone", (payments(period()),), ("INITIAL_PURCHASE",)),
    Row("renewed, payments alone", (subscription(), payments(period(2, cause="renewal"), as_of=SECOND)), ("RENEWAL",)),
    Row("cancelled, status alone", (payments(period()), status(LATER, auto_renew=False)), ("CANCELLATION",)),
    Row(
        "a refund takes no cancellation back",
        (payments(period()), status(LATER, auto_renew=False), payments(period(refunded_amount=5), as_of=LATER + 5)),
        (),
    ),
    Row(
        "ended at once, status alone",
        (subscription(), status(LATER, auto_renew=False, ended_reason="UNSUBSCRIBE", ended_at=LATER)),
        ("CANCELLATION", "EXPIRATION"),
        access=False,
    ),
    Row("bought once", (purchase(),), ("NON_RENEWING_PURCHASE",)),
    Row(
        "bought once, with an end",
        (purchase(product_id="pro_yearly", expires_at=NOW + DAY),),
        ("NON_RENEWING_PURCHASE",),
        access=False,
        later=DAY,
        then=("EXPIRATION",),
    ),
    Row(
        "bought virtual currency",
        (purchase(product_id="coins_100"),),
        ("NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"),
        access=False,
    ),
    Row("bought once and refunded", (purchase(), purchase(refunded_at=LATER, as_of=LATER)), ("REFUND",), access=False),
    Row(
        "bought once and taken away",
        (purchase(), purchase(revoked_at=LATER, as_of=LATER)),
        ("EXPIRATION",),
        access=False,
    ),
    Row(
        "bought once, refunded, taken back",
        (
            purchase(),
            purchase(refunded_at=LATER, as_of=LATER),
            purchase(refunded_at=LATER, refund_reversed_at=LATER + 5, as_of=LATER + 5),
        ),
        ("REFUND_REVERSED",),
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_snapshot_tells(steady_shop: Shop, row: Row) -> None:
    shop, who = steady_shop, row.name.replace(" ", "_")
    told: list[str] = []
    for body in row.sent:
        shop.clock.now = body["as_of"]
        sent = _of(who, body)
        reply = await post(shop, "purchases", sent)
        assert reply.status == 200, reply
        told = [event["type"] for event in reply.json()["events"]]
        # The same again is known.
        again = await post(shop, "purchases", sent)
        assert (again.status, again.json()["outcome"], again.json()["events"]) == (200, "unchanged", []), again
    assert tuple(told) == row.tells

    shop.clock.now += row.later
    # Time passes with the next change, or in the clock role.
    assert (await post(shop, "purchases", _of(who, row.sent[-1]))).status == 200
    store = row.sent[0]["store"]
    listed = await walk(shop, f"customers/{who}/events?limit=100")
    expected = (*row.tells, *row.then)
    assert tuple(item["type"] for item in listed)[len(listed) - len(expected) :] == expected
    assert {item["store"] for item in listed if item["store"] is not None} == {store}
    assert (await holds(shop, who) == {"pro"}) is row.access
    v1 = (await shop.v1(who)).json()["subscriber"]
    bought = [
        *v1["subscriptions"].values(),
        *(bought_once for many in v1["non_subscriptions"].values() for bought_once in many),
    ]
    assert {purchase["store"] for purchase in bought} == {store}


def _of(who: str, body: dict[str, Any]) -> dict[str, Any]:
    """The same for a customer of this row only."""
    sent = {**body, "app_user_id": who}
    for kind in ("subscription", "purchase"):
        if kind in body:
            sent[kind] = {**body[kind], f"store_{kind}_identifier": f"of {who}"}
    return sent
