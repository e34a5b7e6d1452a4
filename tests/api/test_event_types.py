"""Every type, caused over HTTP, with every field that the specification's table of events names for it."""

from __future__ import annotations

from typing import Any

import pytest

from latchkey.domain.events.event import EventType
from latchkey.domain.instants import end_to_iso, to_iso
from latchkey.wire.event import OWN_FIELDS, Event
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import advance, did, make_clock, move_in, told
from tests.api.management import post

MONTH = NOW + 31 * DAY
# Every event has these, null where they do not apply.
COMMON = (
    *("id", "type", "app_user_id", "original_app_user_id", "aliases", "product_id", "period_type", "purchased_at_ms"),
    *("expiration_at_ms", "original_purchase_date_ms", "event_timestamp_ms", "environment", "store", "entitlements"),
    *("price", "price_in_purchased_currency", "currency", "takehome_percentage"),
)


class Life:
    """A customer on a test clock of its own."""

    def __init__(self, shop: Shop, who: str, clock: str) -> None:
        self.shop, self.who, self.clock = shop, who, clock

    async def do(self, action: str, product: str | None = None, **more: Any) -> None:
        await did(self.shop, action, self.who, product, **more)

    async def wait(self, by: str) -> None:
        await advance(self.shop, self.clock, by=by)

    async def last(self, type: str, **fields: Any) -> dict[str, Any]:
        """The last event. Checks its type, these fields, and the fields that every event has."""
        events = await told(self.shop, self.who)
        event = events[-1]
        assert event["type"] == type
        for name, value in fields.items():
            assert event[name] == value, (name, event)
        held = (await self.shop.v2(self.who)).json()["active_entitlements"]["items"]
        assert set(event["entitlements"]) == {item["entitlement_id"] for item in held}
        for name in ("id", "app_user_id", "original_app_user_id"):
            assert event[name], name
        if type != "SUBSCRIBER_ALIAS":
            assert event["app_user_id"] == event["original_app_user_id"] == self.who
            assert event["aliases"] == []
        assert event["environment"] == "SANDBOX"
        assert isinstance(event["event_timestamp_ms"], int)
        assert event["sequence"] == len(events)
        assert set(COMMON) | set(OWN_FIELDS.get(type, ())) <= set(event) <= set(Event.__struct_fields__)
        assert event["price_in_purchased_currency"] == event["price"]
        assert 0 < event["takehome_percentage"] <= 1
        return event


_lives = iter(range(1_000))


@pytest.fixture
async def life(steady_shop: Shop) -> Life:
    clock = await make_clock(steady_shop)
    who = f"user{next(_lives)}"
    await move_in(steady_shop, who, clock)
    return Life(steady_shop, who, clock)


async def test_initial_purchase(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.last(
        "INITIAL_PURCHASE",
        product_id="pro_monthly",
        price=9.99,
        currency="USD",
        purchased_at_ms=NOW,
        expiration_at_ms=MONTH,
        original_purchase_date_ms=NOW,
        store="test_store",
        period_type="normal",
        is_trial_conversion=False,
        entitlements={
            "pro": {
                "expires_date": end_to_iso(MONTH, NOW),
                "grace_period_expires_date": None,
                "product_identifier": "pro_monthly",
                "purchase_date": to_iso(NOW),
            }
        },
    )


async def test_initial_purchase_after_a_trial(life: Life) -> None:
    await life.do("purchase", "pro_monthly", trial=True)
    await life.wait("P7D")
    await life.last(
        "INITIAL_PURCHASE",
        is_trial_conversion=True,
        period_type="normal",
        price=9.99,
        purchased_at_ms=NOW + 7 * DAY,
        original_purchase_date_ms=NOW,
        expiration_at_ms=NOW + 38 * DAY,
    )


async def test_renewal(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.wait("P31D")
    event = await life.last("RENEWAL", expiration_at_ms=MONTH + 28 * DAY, price=9.99, currency="USD")
    assert (event["event_timestamp_ms"], event["purchased_at_ms"]) == (MONTH, MONTH)
    assert "is_trial_conversion" not in event


async def test_non_renewing_purchase(life: Life) -> None:
    await life.do("purchase", "pro_lifetime")
    # It never ends, so the event has no end.
    event = await life.last("NON_RENEWING_PURCHASE", product_id="pro_lifetime", price=199.99, expiration_at_ms=None)
    assert event["entitlements"]["pro"]["expires_date"] is None
    grant = {"entitlement_id": "team", "expires_at": NOW + DAY}
    await post(life.shop, f"customers/{life.who}/actions/grant_entitlement", grant)
    await life.last("NON_RENEWING_PURCHASE", product_id="rc_promo_team_custom", expiration_at_ms=NOW + DAY)


async def test_cancellation(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("cancel")
    event = await life.last("CANCELLATION", expiration_at_ms=MONTH, cancellation_reason="UNSUBSCRIBE")
    assert event["entitlements"]["pro"]["expires_date"] == end_to_iso(MONTH, NOW)
    assert event["auto_resume_at_ms"] is None


async def test_cancellation_of_a_pause_that_is_scheduled_says_when_it_would_have_resumed(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("pause", resume_at_ms=MONTH + DAY)
    await life.do("cancel")
    await life.last("CANCELLATION", auto_resume_at_ms=MONTH + DAY)


async def test_uncancellation(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("cancel")
    await life.do("uncancel")
    await life.last("UNCANCELLATION", expiration_at_ms=MONTH)


async def test_trial_started(life: Life) -> None:
    await life.do("purchase", "pro_monthly", trial=True)
    await life.last(
        "TRIAL_STARTED", product_id="pro_monthly", expiration_at_ms=NOW + 7 * DAY, period_type="trial", price=0
    )
    assert len(await told(life.shop, life.who)) == 1


async def test_trial_cancelled(life: Life) -> None:
    await life.do("purchase", "pro_monthly", trial=True)
    await life.do("cancel")
    await life.last("TRIAL_CANCELLED", cancellation_reason="UNSUBSCRIBE", period_type="trial")


async def test_billing_issue(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("fail_billing", grace_days=6)
    grace = MONTH + 6 * DAY
    event = await life.last("BILLING_ISSUE", grace_period_expires_at_ms=grace, expiration_at_ms=MONTH)
    assert event["entitlements"]["pro"]["grace_period_expires_date"] == end_to_iso(grace, NOW)
    assert event["entitlements"]["pro"]["expires_date"] == end_to_iso(grace, NOW)


async def test_expiration(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("cancel")
    await life.wait("P1M")
    event = await life.last(
        "EXPIRATION", expiration_reason="UNSUBSCRIBE", expiration_at_ms=MONTH, product_id="pro_monthly", entitlements={}
    )
    assert event["event_timestamp_ms"] == MONTH


async def test_refund(life: Life) -> None:
    await life.do("purchase", "team_monthly")
    await life.do("refund")
    await life.last("REFUND", product_id="team_monthly", price=29.99, currency="USD", entitlements={})


async def test_refund_reversed(life: Life) -> None:
    await life.do("purchase", "team_monthly")
    await life.do("refund")
    await life.do("reverse_refund")
    event = await life.last("REFUND_REVERSED")
    assert set(event["entitlements"]) == {"pro", "team"}


async def test_product_change(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("change_product", new_product_id="pro_yearly")
    await life.last(
        "PRODUCT_CHANGE", product_id="pro_monthly", new_product_id="pro_yearly", expiration_at_ms=NOW + 365 * DAY
    )


async def test_subscription_paused(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("pause", resume_at_ms=MONTH + 5 * DAY)
    await life.last("SUBSCRIPTION_PAUSED", auto_resume_at_ms=MONTH + 5 * DAY)


async def test_subscription_extended(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("extend", days=2)
    await life.last("SUBSCRIPTION_EXTENDED", expiration_at_ms=MONTH + 2 * DAY)


async def test_transfer(life: Life) -> None:
    other = f"{life.who}.source"
    await move_in(life.shop, other, life.clock)
    await did(life.shop, "purchase", other, "pro_monthly")
    await post(life.shop, f"customers/{other}/actions/transfer", {"target_customer_id": life.who})
    event = await life.last("TRANSFER", transferred_from=[other], transferred_to=[life.who], app_user_id=life.who)
    assert set(event["entitlements"]) == {"pro"}


async def test_invoice_issuance(life: Life) -> None:
    await life.do("purchase", "pro_monthly")
    await life.do("issue_invoice")
    await life.last("INVOICE_ISSUANCE", product_id="pro_monthly", price=9.99, currency="USD", expiration_at_ms=MONTH)


async def test_temporary_entitlement_grant(life: Life) -> None:
    await life.do("store_outage", "pro_monthly")
    await life.last("TEMPORARY_ENTITLEMENT_GRANT", expiration_at_ms=NOW + DAY)


async def test_virtual_currency_transaction(life: Life) -> None:
    path = f"customers/{life.who}/virtual_currencies/transactions"
    await post(life.shop, path, {"adjustments": {"COIN": 12}})
    await life.last("VIRTUAL_CURRENCY_TRANSACTION", amount=12, currency="COIN", transaction_type="credit")
    await post(life.shop, path, {"adjustments": {"COIN": -5}})
    await life.last("VIRTUAL_CURRENCY_TRANSACTION", amount=5, currency="COIN", transaction_type="debit")


async def test_experiment_enrollment(life: Life) -> None:
    made = await post(life.shop, "experiments", {"name": "E", "variants": [{"id": x, "weight": 1} for x in "ab"]})
    enrolled = await post(life.shop, f"experiments/{made.json()['id']}/enroll", {"app_user_id": life.who})
    await life.last("EXPERIMENT_ENROLLMENT", experiment_id=made.json()["id"], variant_id=enrolled.json()["variant"])


async def test_subscriber_alias(life: Life) -> None:
    anonymous = f"$RCAnonymousID:{int(life.who.removeprefix('user')):032x}"
    await move_in(life.shop, anonymous, life.clock)
    await did(life.shop, "purchase", anonymous, "pro_monthly")
    await did(life.shop, "cancel", anonymous)
    body = {"app_user_id": anonymous, "new_app_user_id": life.who}
    assert (await life.shop.client.post("/v1/subscribers/identify", body)).status == 200
    parts = [{"app_user_id": anonymous, "sequence": 2}, {"app_user_id": life.who, "sequence": 0}]
    event = await life.last("SUBSCRIBER_ALIAS", aliases=[anonymous], merged_sequences=parts, sequence=3)
    assert set(event["entitlements"]) == {"pro"}


def test_no_type_was_left_out() -> None:
    # The nineteen of the specification, and one of ours.
    assert len(EventType) == 20
    for type in EventType:
        assert f"test_{type.lower()}" in globals()
