"""POST /v2/…/purchases: what is answered, what is refused, and whose the purchase is."""

import re
from typing import Any
from uuid import uuid4

import pytest

from tests.http.client import DAY, NOW, Shop
from tests.http.doings import advance, clock_with, count_rows
from tests.http.management import delete, holds, post, refused, walk
from tests.stores.external.bodies import MONTH, payments, period, purchase, status, subscription


def named(who: str, body: Any, **more: Any) -> Any:
    """The body with this buyer, and ids that only this test uses."""
    sent = {**body, "app_user_id": who, **more}
    for kind in ("subscription", "purchase"):
        if kind in body:
            sent[kind] = {**body[kind], f"store_{kind}_identifier": f"of {who}"}
    return sent


async def taken(shop: Shop, body: Any) -> Any:
    reply = await post(shop, "purchases", body)
    assert reply.status == 200, reply
    return reply.json()


async def test_an_older_snapshot_changes_nothing_and_says_so(steady_shop: Shop) -> None:
    cancelled = named("late", subscription(auto_renew=False, as_of=NOW))
    older = named("late", subscription(as_of=NOW - 1))
    older["subscription"]["periods"] = cancelled["subscription"]["periods"] = [period(purchased_at=NOW - 5)]
    await taken(steady_shop, cancelled)
    body = await taken(steady_shop, older)
    assert (body["outcome"], body["events"]) == ("overtaken", [])
    assert body["subscription"]["auto_renewal_status"] == "will_not_renew"


async def test_two_snapshots_of_one_moment_that_differ_are_409(steady_shop: Shop) -> None:
    await taken(steady_shop, named("twice", subscription()))
    for other in (
        subscription(auto_renew=False),
        subscription(period(expires_at=NOW + DAY)),
        subscription(period(refunded_at=NOW)),
        subscription(period(refunded_amount=1)),
        subscription(billing_issues_detected_at=NOW),
    ):
        refused(await post(steady_shop, "purchases", named("twice", other)), 409, "resource_already_exists", "as_of")
    await taken(steady_shop, named("twice", purchase()) | {"store": "shop"})
    differs = named("twice", purchase(refunded_at=NOW)) | {"store": "shop"}
    refused(await post(steady_shop, "purchases", differs), 409, "resource_already_exists", "as_of")


async def test_a_payment_may_come_after_a_status_that_is_newer(steady_shop: Shop) -> None:
    await taken(steady_shop, named("paid", payments(period())))
    await taken(steady_shop, named("paid", status(NOW + 5, auto_renew=False)))
    body = await taken(steady_shop, named("paid", payments(period(refunded_amount=1), as_of=NOW + 3)))
    assert (body["outcome"], body["subscription"]["auto_renewal_status"]) == ("applied", "will_not_renew")
    for again in (
        payments(period()),
        status(NOW + 5, auto_renew=False),
        payments(period(refunded_amount=1), as_of=NOW + 3),
    ):
        assert (await taken(steady_shop, named("paid", again)))["outcome"] == "unchanged"
    differs = named("paid", payments(period(refunded_amount=2), as_of=NOW + 3))
    refused(await post(steady_shop, "purchases", differs), 409, "resource_already_exists", "as_of")


PERIODS = "subscription.periods"


@pytest.mark.parametrize(
    ("known", "then", "param"),
    [
        (subscription(), subscription(period(price=8)), PERIODS),
        (subscription(), subscription(period(currency="USD")), PERIODS),
        (subscription(), subscription(period(product_id="pro_yearly")), PERIODS),
        (subscription(), subscription(period(purchased_at=NOW - 1)), PERIODS),
        (subscription(), subscription(period(period_type="intro")), PERIODS),
        (subscription(), subscription(sent={"environment": "sandbox"}), "environment"),
        (subscription(), {**purchase(), "store": "paddle"}, "purchase"),
        (purchase(), {**subscription(), "store": "bank_transfer"}, "subscription"),
        (purchase(), purchase(price=5), "purchase.price"),
        (purchase(), purchase(product_id="pro_yearly"), "purchase.product_id"),
        (purchase(), purchase(purchased_at=NOW - 1), "purchase.purchased_at"),
        (purchase(), purchase(expires_at=NOW + DAY), "purchase.expires_at"),
    ],
)
async def test_what_was_paid_for_does_not_change(steady_shop: Shop, known: Any, then: Any, param: str) -> None:
    who = f"fixed_{uuid4()}"
    await taken(steady_shop, named(who, known))
    before = await count_rows(steady_shop)
    later = named(who, {**then, "as_of": NOW + 1})
    refused(await post(steady_shop, "purchases", later), 409, "resource_already_exists", param)
    assert {**await count_rows(steady_shop), "audit_log": 0} == {**before, "audit_log": 0}


WRONG: list[tuple[Any, str]] = [
    (subscription(sent={"store": "App Store"}), "store"),
    (subscription(sent={"store": "app_store"}), "store"),
    (subscription(sent={"store": "play_store"}), "store"),
    (subscription(sent={"store": "stripe"}), "store"),
    (subscription(sent={"store": "test_store"}), "store"),
    (subscription(sent={"store": "promotional"}), "store"),
    (subscription(sent={"app_user_id": "no/slash"}), "app_user_id"),
    (subscription(sent={"app_user_id": None}), "app_user_id"),
    (subscription(sent={"purchase": purchase()["purchase"]}), "subscription"),
    (subscription(sent={"subscription": None}), "subscription"),
    (subscription(as_of=NOW + DAY), "as_of"),
    (subscription(as_of=NOW // 1000), "as_of"),
    (subscription(period(), period()), "subscription.periods.1.transaction_id"),
    (subscription(period(purchased_at=NOW + 1)), "subscription.periods.0.purchased_at"),
    (subscription(period(expires_at=NOW)), "subscription.periods.0.expires_at"),
    (subscription(period(starts_at=NOW + 1)), "subscription.periods.0.starts_at"),
    (subscription(period(price=None)), "subscription.periods.0.price"),
    (subscription(period(currency=None)), "subscription.periods.0.currency"),
    (subscription(period(currency="XXX")), "subscription.periods.0.currency"),
    (subscription(period(currency="ABC")), "subscription.periods.0.currency"),
    (subscription(period(currency="euro")), "subscription.periods.0.currency"),
    (subscription(period(price=-1)), "subscription.periods.0.price"),
    (subscription(period(price="9.99")), "subscription.periods.0.price"),
    (subscription(period(country="XX")), "subscription.periods.0.country"),
    (subscription(period(cause="change")), "subscription.periods.0.cause"),
    (subscription(period(refunded_at=NOW - 1)), "subscription.periods.0.refunded_at"),
    (subscription(period(refunded_at=NOW, refunded_amount=1)), "subscription.periods.0.refunded_amount"),
    (subscription(period(refunded_amount=9.99)), "subscription.periods.0.refunded_amount"),
    (subscription(period(refunded_amount=1, price=None, currency=None)), "subscription.periods.0.refunded_amount"),
    (subscription(period(refunded_amount_at=NOW)), "subscription.periods.0.refunded_amount_at"),
    (subscription(period(refunded_amount=1, refunded_amount_at=NOW + 1)), "subscription.periods.0.refunded_amount_at"),
    (subscription(period(refunded_amount=1, refunded_amount_at=NOW - 1)), "subscription.periods.0.refunded_amount_at"),
    (subscription(period(refunded_at=NOW, refunded_amount_at=NOW)), "subscription.periods.0.refunded_amount_at"),
    (subscription(period(refund_reversed_at=NOW)), "subscription.periods.0.refund_reversed_at"),
    (subscription(period(refunded_at=NOW + 1)), "subscription.periods.0.refunded_at"),
    (subscription(period(refunded_at=NOW, refund_reversed_at=NOW + 1)), "subscription.periods.0.refund_reversed_at"),
    (
        subscription(period(refunded_at=NOW, refund_reversed_at=NOW, refunded_amount=10)),
        "subscription.periods.0.refunded_amount",
    ),
    (
        subscription(period(refunded_at=NOW, refund_reversed_at=NOW, refunded_amount_at=NOW)),
        "subscription.periods.0.refunded_amount_at",
    ),
    (subscription(unsubscribe_detected_at=NOW), "subscription.unsubscribe_detected_at"),
    (subscription(auto_renew=False, unsubscribe_detected_at=NOW + 1), "subscription.unsubscribe_detected_at"),
    (subscription(cancellation_reason="UNSUBSCRIBE"), "subscription.cancellation_reason"),
    (subscription(auto_renew=False, cancellation_reason="MOOD"), "subscription.cancellation_reason"),
    (subscription(grace_period_expires_at=NOW), "subscription.grace_period_expires_at"),
    (subscription(paused_at=NOW), "subscription.paused_at"),
    (subscription(periods=[], auto_renew=None), "subscription.periods"),
    (subscription(auto_renew=None, ended_reason="UNKNOWN"), "subscription.ended_reason"),
    (subscription(ended_at=NOW), "subscription.ended_at"),
    (subscription(ended_reason="UNKNOWN", ended_at=NOW + 1), "subscription.ended_at"),
    (purchase(purchased_at=NOW + 1), "purchase.purchased_at"),
    (purchase(expires_at=NOW), "purchase.expires_at"),
    (purchase(refunded_at=NOW + 1), "purchase.refunded_at"),
    (purchase(revoked_at=NOW + 1), "purchase.revoked_at"),
    (purchase(sent={"refund": 5}), "refund"),
]


async def test_a_snapshot_that_makes_no_sense_is_400_and_changes_nothing(steady_shop: Shop) -> None:
    before = await count_rows(steady_shop)
    for body, param in WRONG:
        reply = await post(steady_shop, "purchases", body)
        refused(reply, 400, "parameter_error", param)
    assert {**await count_rows(steady_shop), "audit_log": 0} == {**before, "audit_log": 0}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (subscription(period(product_id="unheard_of")), "subscription.periods"),
        (subscription(next_product_id="unheard_of"), "subscription.next_product_id"),
        (purchase(product_id="unheard_of"), "purchase.product_id"),
        (status(NOW), "subscription.periods"),
        (purchase(sent={"app_id": "app_unheard_of"}), "app_id"),
    ],
)
async def test_what_the_project_does_not_have_is_404(steady_shop: Shop, body: Any, param: str) -> None:
    refused(await post(steady_shop, "purchases", named("nobody", body)), 404, "resource_missing", param)
    assert (await steady_shop.v2("nobody")).status == 404


async def test_an_app_must_be_one_of_the_store(steady_shop: Shop) -> None:
    body = named("of_app", subscription(sent={"app_id": "app_demo"}))
    refused(await post(steady_shop, "purchases", body), 400, "parameter_error", "app_id")
    app = (await post(steady_shop, "apps", {"name": "Shop", "store": "paddle"})).json()
    await taken(steady_shop, {**body, "app_id": app["id"]})
    (event,) = await walk(steady_shop, "customers/of_app/events")
    assert event["app_id"] == app["id"]


async def test_another_buyer_is_409_unless_the_purchase_is_to_move(steady_shop: Shop) -> None:
    await taken(steady_shop, named("first", subscription()))
    other = named("first", subscription(period(), period(2), as_of=NOW + MONTH)) | {"app_user_id": "second"}
    steady_shop.clock.now = NOW + MONTH
    try:
        refused(await post(steady_shop, "purchases", other), 409, "resource_already_exists", "app_user_id")
        assert (await steady_shop.v2("second")).status == 404
        body = await taken(steady_shop, {**other, "transfer": True})
        assert [one["type"] for one in body["events"]] == ["TRANSFER", "RENEWAL"]
        assert body["subscription"]["customer_id"] == "second"
        assert await holds(steady_shop, "first") == set()
        # Without a name it belongs to whoever owns it.
        del other["app_user_id"]
        assert (await taken(steady_shop, other))["outcome"] == "unchanged"
    finally:
        steady_shop.clock.now = NOW


@pytest.mark.parametrize("make", [subscription, payments, purchase])
async def test_a_late_or_repeated_move_moves_nothing(steady_shop: Shop, make: Any) -> None:
    of = f"of {make.__name__}"
    mine = [
        named(of, make(as_of=NOW + number)) | {"app_user_id": f"{make.__name__} {who}", "transfer": bool(number)}
        for number, who in enumerate("abc")
    ]
    for body in mine:
        assert (await taken(steady_shop, body))["outcome"] == "applied"
    for late in (mine[1], mine[2], mine[1]):
        answer = await taken(steady_shop, late)
        assert answer["outcome"] in ("overtaken", "unchanged")
        assert answer["events"] == []
        assert (answer["subscription"] or answer["purchase"])["customer_id"] == f"{make.__name__} c"


async def test_a_purchase_of_somebody_who_was_deleted_comes_back_only_on_request(steady_shop: Shop) -> None:
    sent = named("gone", purchase())
    await taken(steady_shop, sent)
    assert (await delete(steady_shop, "customers/gone")).status == 200
    refused(await post(steady_shop, "purchases", sent), 409, "resource_already_exists", "app_user_id")
    assert (await steady_shop.v2("gone")).status == 404
    body = await taken(steady_shop, {**sent, "app_user_id": "returned", "transfer": True})
    assert "TRANSFER" in [one["type"] for one in body["events"]]
    assert await holds(steady_shop, "returned") == {"pro"}


async def test_customer_id_is_another_name_of_the_buyer(steady_shop: Shop) -> None:
    sent = named("by_id", purchase())
    sent["customer_id"] = sent.pop("app_user_id")
    assert (await taken(steady_shop, sent))["purchase"]["customer_id"] == "by_id"
    refused(await post(steady_shop, "purchases", {**sent, "app_user_id": "x"}), 400, "parameter_error", "customer_id")


async def test_a_customer_on_a_test_clock_lives_in_its_time(steady_shop: Shop) -> None:
    clock = await clock_with(steady_shop, "clocked", NOW)
    future = named("clocked", subscription(period(), period(2), as_of=NOW + MONTH))
    reply = await post(steady_shop, "purchases", future)
    refused(reply, 400, "parameter_error", "as_of")
    assert re.fullmatch(
        r"as_of: It is in the future\. The time here is \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", reply.json()["message"]
    )
    await advance(steady_shop, clock, to_ms=NOW + MONTH)
    assert (await taken(steady_shop, future))["outcome"] == "applied"


async def test_the_operator_cannot_cancel_in_a_store_that_nobody_can_ask(steady_shop: Shop) -> None:
    body = await taken(steady_shop, named("stuck", subscription()))
    reply = await post(steady_shop, f"subscriptions/{body['subscription']['id']}/actions/cancel", None)
    refused(reply, 422, "store_error", None)
