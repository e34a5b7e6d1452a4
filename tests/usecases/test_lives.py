"""Customers of the test store, from the first purchase to the last event."""

from __future__ import annotations

import asyncio

import pytest

from latchkey.domain.access.entitlements import active
from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.refusal import InsufficientBalance, OwnedByAnother, Refusal
from latchkey.usecases.customers.currency import adjust
from latchkey.usecases.customers.grants import grant, revoke
from latchkey.usecases.customers.identities import log_in, transfer
from latchkey.usecases.customers.receipts import Receipt, take_receipt
from latchkey.usecases.experiments.enrollments import enroll_customer
from tests.usecases.conftest import Shop

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


async def test_a_subscription_renews_by_itself_until_it_is_cancelled_and_ends(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    await shop.wait(31 * DAY)
    await shop.act("cancel")
    await shop.wait(31 * DAY)
    events = await shop.events()
    assert [event.type for event in events] == ["INITIAL_PURCHASE", "RENEWAL", "CANCELLATION", "EXPIRATION"]
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert events[-1].entitlements == {}
    assert events[-1].expiration_reason == "UNSUBSCRIBE"
    assert set(events[2].entitlements) == {"pro"}


async def test_a_trial_becomes_a_purchase(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly", trial=True)
    await shop.wait(7 * DAY)
    events = await shop.events()
    assert [event.type for event in events] == ["TRIAL_STARTED", "INITIAL_PURCHASE"]
    assert events[1].is_trial_conversion is True
    assert (events[0].price, events[1].price) == (0, 9.99)


async def test_a_failed_payment_keeps_access_through_its_grace_and_not_longer(shop: Shop) -> None:
    bought = await shop.act("purchase", product="pro_monthly")
    paid_until = bought.customer.subscriptions[0].current.ends_at
    failed = await shop.act("fail_billing", grace_days=3)
    assert failed.events[0].grace_period_expires_at_ms == paid_until + 3 * DAY
    access = active(failed.customer, failed.catalog, paid_until + 2 * DAY)["pro"]
    assert access.ends_at == paid_until + 3 * DAY
    await shop.wait(paid_until + 3 * DAY - shop.time)
    assert await shop.told() == ["INITIAL_PURCHASE", "BILLING_ISSUE", "EXPIRATION"]
    assert (await shop.events())[-1].expiration_reason == "BILLING_ERROR"
    await shop.act("recover_billing")
    assert (await shop.told())[-1] == "RENEWAL"


async def test_every_type_happens(shop: Shop) -> None:
    project = shop.project_id
    variants = b'[{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]'
    await shop.database.pool.execute("insert into experiments values ($1, 'exp', 'Prices', $2, 0)", project, variants)
    await shop.act("purchase", product="pro_monthly", trial=True)
    await shop.act("cancel")
    await shop.act("uncancel")
    await shop.wait(8 * DAY)
    await shop.act("extend", days=3)
    await shop.act("change_product", new_product_id="pro_yearly")
    await shop.act("cancel")
    await shop.act("refund")
    await shop.act("reverse_refund")
    await shop.act("expire")
    await shop.act("purchase", product="pro_monthly")
    await shop.act("issue_invoice", product="pro_monthly")
    paid_until = (await shop.act("fail_billing", product="pro_monthly")).customer.subscriptions[-1].current.ends_at
    await shop.act("recover_billing", product="pro_monthly")
    await shop.act("pause", product="pro_monthly", resumes_at=paid_until + 90 * DAY)
    await shop.act("purchase", product="coins_100")
    await shop.act("store_outage", product="team_monthly")
    await enroll_customer(shop.changes, project, "exp", "alice")
    await shop.act("purchase", user="bob", product="pro_yearly")
    await transfer(shop.changes, project, "bob", "alice")
    await shop.act("purchase", user=ANONYMOUS, product="pro_yearly")
    assert [event.sequence for event in await shop.events()] == list(range(1, len(await shop.told()) + 1))
    await log_in(shop.changes, project, ANONYMOUS, "alice")
    assert set(await shop.told()) == set(EventType)


async def test_a_temporary_grant_ends_after_a_day_when_the_purchase_never_arrives(shop: Shop) -> None:
    await shop.act("store_outage", product="pro_monthly")
    await shop.wait(24 * HOUR)
    assert await shop.told() == ["TEMPORARY_ENTITLEMENT_GRANT", "EXPIRATION"]


async def test_a_temporary_grant_gives_way_to_the_real_purchase(shop: Shop) -> None:
    await shop.act("store_outage", product="pro_monthly")
    await shop.act("purchase", product="pro_monthly")
    await shop.wait(2 * DAY)
    assert await shop.told() == ["TEMPORARY_ENTITLEMENT_GRANT", "INITIAL_PURCHASE"]


async def test_a_pause_ends_access_and_resumes_by_itself(shop: Shop) -> None:
    bought = await shop.act("purchase", product="pro_monthly")
    paid_until = bought.customer.subscriptions[0].current.ends_at
    await shop.act("pause", resumes_at=paid_until + 10 * DAY)
    await shop.wait(paid_until + 10 * DAY - shop.time)
    events = await shop.events()
    assert [event.type for event in events] == ["INITIAL_PURCHASE", "SUBSCRIPTION_PAUSED", "EXPIRATION", "RENEWAL"]
    assert events[1].auto_resume_at_ms == paid_until + 10 * DAY
    assert events[2].expiration_reason == "SUBSCRIPTION_PAUSED"
    assert set(events[3].entitlements) == {"pro"}


async def test_a_refused_action_changes_nothing(shop: Shop) -> None:
    before = await shop.act("purchase", product="pro_monthly")
    with pytest.raises(Refusal, match="subscribed to 'pro_monthly' already"):
        await shop.act("purchase", product="pro_monthly")
    after = await shop.act("issue_invoice")
    assert after.customer.subscriptions[0].periods == before.customer.subscriptions[0].periods
    assert await shop.told() == ["INITIAL_PURCHASE", "INVOICE_ISSUANCE"]


async def test_a_refused_purchase_leaves_no_customer_behind(shop: Shop) -> None:
    with pytest.raises(Refusal, match="no product 'nothing'"):
        await shop.act("purchase", user="carol", product="nothing")
    with pytest.raises(Refusal):
        await shop.show("carol", "test_1_x", "nothing")
    assert await shop.database.pool.fetchval("select count(*) from customers") == 0


async def test_a_project_that_keeps_purchases_refuses_a_restore_and_makes_nobody(shop: Shop) -> None:
    await shop.database.pool.execute("update projects set restore_behavior = 'keep'")
    await shop.show("alice", "test_1_a", "pro_yearly")
    with pytest.raises(OwnedByAnother):
        await shop.show("bob", "test_1_a")
    assert await shop.database.pool.fetchval("select count(*) from customers") == 1


async def test_a_grant_and_its_revocation_are_told(shop: Shop) -> None:
    await grant(shop.changes, shop.project_id, "alice", "pro", create=True)
    await revoke(shop.changes, shop.project_id, "alice", "pro")
    events = await shop.events()
    assert [(event.type, set(event.entitlements)) for event in events] == [
        ("NON_RENEWING_PURCHASE", {"pro"}),
        ("EXPIRATION", set()),
    ]
    assert events[0].store == "promotional"


async def test_the_same_receipt_is_one_purchase(shop: Shop) -> None:
    receipt = Receipt(
        app_user_id="alice", token="test_1_abc", product_id="pro_monthly", app_id="app_shop", store="test_store"
    )
    answers = await asyncio.gather(*(take_receipt(shop.changes, shop.project_id, receipt) for _ in range(20)))
    assert sum(len(answer.events) for answer in answers) == 1
    assert await shop.told() == ["INITIAL_PURCHASE"]


async def test_a_receipt_shown_by_somebody_else_is_transferred(shop: Shop) -> None:
    await shop.show("alice", "test_1_a", "pro_yearly")
    restored = await shop.show("bob", "test_1_a")
    assert [event.type for event in restored.events] == ["TRANSFER"]
    assert restored.events[0].transferred_from == ["alice"]
    assert restored.events[0].transferred_to == ["bob"]
    assert set(restored.events[0].entitlements) == {"pro"}
    assert await shop.told("alice") == ["INITIAL_PURCHASE"]
    back = await shop.show("alice", "test_1_a")
    assert [event.type for event in back.events] == ["TRANSFER"]


async def test_a_receipt_of_an_anonymous_owner_makes_an_alias(shop: Shop) -> None:
    await shop.show(ANONYMOUS, "test_1_a", "pro_yearly")
    restored = await shop.show("bob", "test_1_a")
    assert [event.type for event in restored.events] == ["SUBSCRIBER_ALIAS"]
    assert set(restored.events[0].entitlements) == {"pro"}
    assert set(restored.customer.aliases) == {ANONYMOUS, "bob"}
    assert "pro" in active(restored.customer, restored.catalog, shop.time)
    assert await shop.told(ANONYMOUS) == await shop.told("bob") == ["INITIAL_PURCHASE", "SUBSCRIBER_ALIAS"]


async def test_logging_in_merges_an_anonymous_customer_into_an_existing_one(shop: Shop) -> None:
    await shop.act("purchase", user=ANONYMOUS, product="pro_monthly")
    await shop.act("purchase", user="alice", product="coins_100")
    merged = await log_in(shop.changes, shop.project_id, ANONYMOUS, "alice")
    assert not merged.created
    assert merged.customer.original_app_user_id == ANONYMOUS
    assert "pro" in active(merged.customer, merged.project.catalog, shop.time)
    cancelled = await shop.act("cancel", user=ANONYMOUS, product="pro_monthly")
    assert cancelled.events[0].app_user_id == "alice"
    assert cancelled.events[0].sequence == 4  # coins, their credit, the merge, and now this
    assert await shop.told("alice") == [
        "INITIAL_PURCHASE",
        "NON_RENEWING_PURCHASE",
        "VIRTUAL_CURRENCY_TRANSACTION",
        "SUBSCRIBER_ALIAS",
        "CANCELLATION",
    ]


async def test_currency_is_moved_once_for_one_key_and_never_below_zero(shop: Shop) -> None:
    await shop.act("purchase", product="coins_100")
    for _ in range(3):
        after = await adjust(shop.changes, shop.project_id, "alice", {"COIN": -30}, "once")
        assert after.customer.balances == {"COIN": 70}
    with pytest.raises(InsufficientBalance, match="balance of COIN is 70"):
        await adjust(shop.changes, shop.project_id, "alice", {"COIN": -71}, "more")
    events = await shop.events()
    assert [(event.type, event.amount, event.transaction_type) for event in events[1:]] == [
        ("VIRTUAL_CURRENCY_TRANSACTION", 100, "credit"),
        ("VIRTUAL_CURRENCY_TRANSACTION", 30, "debit"),
    ]


async def test_many_customers_at_once_lose_nothing(shop: Shop) -> None:
    await asyncio.gather(*(shop.act("purchase", user=f"user{n % 40}", product="coins_100") for n in range(200)))
    feed = await shop.events(None)
    assert len(feed) == 400
    for n in range(40):
        events = await shop.events(f"user{n}")
        assert [event.sequence for event in events] == list(range(1, 11))
