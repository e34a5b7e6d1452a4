"""Every row of Stripe's table: what happens in the account, the signed event, and what is told; also heard twice."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.purchases.subscription import Moment, Status
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.google.life import Life
from tests.stores.stripe.account import MONTH, SESSION, START, SUB, Json, event, sent
from tests.stores.stripe.shop import CHARGED, END, Shop
from tests.stores.stripe.steps import (
    BASIC,
    BOUGHT,
    CANCELLED,
    CHANGED,
    CREATED,
    DELETED,
    DISPUTED,
    FAILED,
    FIRST,
    INCOMPLETE,
    ITEM_ROWS,
    MAX,
    MID,
    PAUSED,
    PRO,
    REFUNDED,
    RENEWAL,
    RENEWED,
    SOLD,
    TRIAL,
    TRIED,
    UPDATED,
    Step,
    at,
    begin_with_a_trial,
    cancel_at,
    charge,
    dispute,
    invoice,
    nothing,
    pay_later,
    refund,
    session,
    subscription,
    to_unpaid,
    trial_ends_without_card,
)

ROWS: dict[str, tuple[list[Step], list[str], bool]] = {
    # What happens and is heard; what is told of the last; whether there is access afterwards.
    "created active": ([BOUGHT], FIRST, True),
    "created trialing": ([TRIED], ["TRIAL_STARTED"], True),
    "created incomplete": ([INCOMPLETE], [], False),
    "incomplete, then active": ([INCOMPLETE, (at(START + HOUR, Shop.pay), UPDATED, subscription)], FIRST, True),
    "incomplete, then trialing": (
        [
            (at(START, Shop.subscribe, status="incomplete"), CREATED, subscription),
            (
                begin_with_a_trial,
                UPDATED,
                subscription,
            ),
        ],
        ["TRIAL_STARTED"],
        True,
    ),
    "incomplete, then expired": (
        [INCOMPLETE, (lambda shop: shop.sub.update(status="incomplete_expired"), UPDATED, subscription)],
        [],
        False,
    ),
    "paid for a cycle": ([BOUGHT, RENEWED], RENEWAL, True),
    "paid after a trial": (
        [TRIED, (at(START + TRIAL + HOUR, Shop.renew), "invoice.paid", invoice)],
        ["INITIAL_PURCHASE CONVERSION", "INVOICE_ISSUANCE"],
        True,
    ),
    "past_due, then active": (
        [BOUGHT, FAILED, (at(END + 3 * DAY, Shop.pay), "invoice.paid", invoice)],
        ["RENEWAL"],
        True,
    ),
    "unpaid, then active": (
        [
            BOUGHT,
            FAILED,
            (at(END + 9 * DAY, to_unpaid), UPDATED, subscription),
            (at(END + 12 * DAY, Shop.pay), "invoice.paid", invoice),
        ],
        ["RENEWAL"],
        True,
    ),
    "cancel_at_period_end set": ([BOUGHT, CANCELLED], ["CANCELLATION UNSUBSCRIBE"], True),
    "cancel_at_period_end set in a trial": (
        [TRIED, (at(START + DAY, Shop.cancel), UPDATED, subscription)],
        ["TRIAL_CANCELLED UNSUBSCRIBE"],
        True,
    ),
    "cancel_at_period_end cleared": (
        [BOUGHT, CANCELLED, (at(MID + DAY, Shop.uncancel), UPDATED, subscription)],
        ["UNCANCELLATION"],
        True,
    ),
    "cancel_at in this period": (
        [BOUGHT, (at(MID, cancel_at, MID + DAY), UPDATED, subscription)],
        ["CANCELLATION UNSUBSCRIBE"],
        True,
    ),
    "cancel_at in a later period": ([BOUGHT, (at(MID, cancel_at, END + MONTH), UPDATED, subscription)], [], True),
    "past_due": ([BOUGHT, FAILED], ["BILLING_ISSUE", "INVOICE_ISSUANCE"], True),
    # Nothing was ever paid, so there is no grace.
    "past_due after a trial": (
        [TRIED, (at(START + TRIAL + HOUR, Shop.renew, paid=False), "invoice.payment_failed", invoice)],
        ["BILLING_ISSUE", "EXPIRATION BILLING_ERROR", "INVOICE_ISSUANCE"],
        False,
    ),
    "past_due after a trial, then active": (
        [
            TRIED,
            (at(START + TRIAL + HOUR, Shop.renew, paid=False), "invoice.payment_failed", invoice),
            (at(START + TRIAL + 3 * DAY, Shop.pay), "invoice.paid", invoice),
        ],
        ["INITIAL_PURCHASE CONVERSION"],
        True,
    ),
    "past_due, tried again": (
        [BOUGHT, FAILED, (at(END + 3 * DAY, Shop.try_again), "invoice.payment_failed", invoice)],
        [],
        True,
    ),
    "unpaid": (
        [BOUGHT, FAILED, (at(END + 9 * DAY, to_unpaid), UPDATED, subscription)],
        ["EXPIRATION BILLING_ERROR"],
        False,
    ),
    "deleted, payment_failed": (
        [BOUGHT, FAILED, (at(END + 9 * DAY, Shop.end, "payment_failed"), DELETED, subscription)],
        ["EXPIRATION BILLING_ERROR"],
        False,
    ),
    "deleted, payment_failed, after unpaid": (
        [
            BOUGHT,
            FAILED,
            (at(END + 9 * DAY, to_unpaid), UPDATED, subscription),
            (at(END + 30 * DAY, Shop.end, "payment_failed"), DELETED, subscription),
        ],
        [],
        False,
    ),
    "deleted, cancellation_requested, after unpaid": (
        [
            BOUGHT,
            FAILED,
            (at(END + 9 * DAY, to_unpaid), UPDATED, subscription),
            (at(END + 12 * DAY, Shop.end, "cancellation_requested"), DELETED, subscription),
        ],
        [],
        False,
    ),
    "deleted, cancellation_requested, at once": (
        [BOUGHT, (at(MID, Shop.end, "cancellation_requested"), DELETED, subscription)],
        ["EXPIRATION UNSUBSCRIBE"],
        False,
    ),
    "deleted, cancellation_requested, at the end": (
        [BOUGHT, CANCELLED, (at(END, Shop.end, "cancellation_requested"), DELETED, subscription)],
        ["EXPIRATION UNSUBSCRIBE"],
        False,
    ),
    "deleted, payment_disputed": (
        [BOUGHT, (at(MID, Shop.end, "payment_disputed"), DELETED, subscription)],
        ["EXPIRATION CUSTOMER_SUPPORT"],
        False,
    ),
    "deleted, no reason": ([BOUGHT, (at(MID, Shop.end, None), DELETED, subscription)], ["EXPIRATION UNKNOWN"], False),
    "price changed, charged at once": (
        [BOUGHT, (at(MID, Shop.upgrade), UPDATED, subscription)],
        ["INVOICE_ISSUANCE", f"PRODUCT_CHANGE {PRO}>{MAX}"],
        True,
    ),
    "price changed, charged later": (
        [BOUGHT, (at(MID, Shop.upgrade_later_paid), UPDATED, subscription)],
        [f"PRODUCT_CHANGE {PRO}>{MAX}"],
        True,
    ),
    "price changed, charged with the renewal": (
        [
            BOUGHT,
            (at(MID, Shop.upgrade_later_paid), UPDATED, subscription),
            (at(CHARGED, Shop.renew), "invoice.paid", invoice),
        ],
        RENEWAL,
        True,
    ),
    "price changed and changed back, charged later": (
        [BOUGHT, CHANGED, (at(MID + DAY, Shop.upgrade_later_paid, "pro"), UPDATED, subscription)],
        [f"PRODUCT_CHANGE {MAX}>{PRO}"],
        True,
    ),
    "price changed and changed back, charged with the renewal": (
        [
            BOUGHT,
            CHANGED,
            (at(MID + DAY, Shop.upgrade_later_paid, "pro"), UPDATED, subscription),
            (at(CHARGED, Shop.renew), "invoice.paid", invoice),
        ],
        RENEWAL,
        True,
    ),
    "price changed and charged at once, changed back and charged later": (
        [
            BOUGHT,
            (at(MID, Shop.upgrade), UPDATED, subscription),
            (at(MID + DAY, Shop.upgrade_later_paid, "pro"), UPDATED, subscription),
            (at(CHARGED, Shop.renew), "invoice.paid", invoice),
        ],
        RENEWAL,
        True,
    ),
    "price changed, charged later, and the renewal fails": (
        [
            BOUGHT,
            CHANGED,
            (at(CHARGED, Shop.renew, paid=False), "invoice.payment_failed", invoice),
        ],
        ["BILLING_ISSUE", "INVOICE_ISSUANCE"],
        True,
    ),
    "price changed in a trial": (
        [TRIED, (at(START + DAY, Shop.upgrade_later_paid), UPDATED, subscription)],
        [f"PRODUCT_CHANGE {PRO}>{MAX}"],
        True,
    ),
    "change scheduled": (
        [BOUGHT, (at(MID, Shop.schedule, "basic"), UPDATED, subscription)],
        [f"PRODUCT_CHANGE {PRO}>{BASIC}"],
        True,
    ),
    "scheduled change called off": (
        [
            BOUGHT,
            (at(MID, Shop.schedule, "basic"), UPDATED, subscription),
            (at(MID + DAY, Shop.schedule, None), UPDATED, subscription),
        ],
        [f"PRODUCT_CHANGE {BASIC}>{PRO}"],
        True,
    ),
    "pause_collection set": ([BOUGHT, PAUSED], ["SUBSCRIPTION_PAUSED"], True),
    "pause_collection set until a day": (
        [BOUGHT, (at(MID, Shop.pause, END + 10 * DAY), UPDATED, subscription)],
        ["SUBSCRIPTION_PAUSED"],
        True,
    ),
    "pause_collection cleared": (
        [BOUGHT, PAUSED, (at(MID + DAY, Shop.resume), UPDATED, subscription)],
        ["UNCANCELLATION"],
        True,
    ),
    "paused beyond the end": (
        [BOUGHT, PAUSED, (at(END + DAY, nothing), "invoice.voided", invoice)],
        ["EXPIRATION SUBSCRIPTION_PAUSED"],
        False,
    ),
    "trial ended without a card": (
        [TRIED, (at(START + TRIAL, trial_ends_without_card), "customer.subscription.paused", subscription)],
        ["EXPIRATION SUBSCRIPTION_PAUSED", "SUBSCRIPTION_PAUSED"],
        False,
    ),
    "trial_end moved later": (
        [TRIED, (at(START + DAY, Shop.extend, START + 14 * DAY), UPDATED, subscription)],
        ["SUBSCRIPTION_EXTENDED"],
        True,
    ),
    "trial_end given to who has paid": (
        [BOUGHT, (at(MID, Shop.extend, END + 10 * DAY), UPDATED, subscription)],
        ["SUBSCRIPTION_EXTENDED"],
        True,
    ),
    "invoice finalized": (
        [
            BOUGHT,
            (
                at(CHARGED, lambda shop: (shop.renew(paid=False), shop.sub.update(status="active"))),
                "invoice.finalized",
                invoice,
            ),
        ],
        ["INVOICE_ISSUANCE"],
        True,
    ),
    "a period begins with a draft": ([BOUGHT, (at(END, Shop.begin_period), UPDATED, subscription)], [], True),
    "a draft that nobody charges": (
        [
            BOUGHT,
            (at(END, Shop.begin_period), UPDATED, subscription),
            (at(END + 3 * DAY, nothing), UPDATED, subscription),
        ],
        ["EXPIRATION UNKNOWN"],
        False,
    ),
    "an invoice is sent": (
        [
            BOUGHT,
            (at(END, Shop.send_invoice), "invoice.finalized", invoice),
            (at(END + 9 * DAY, nothing), UPDATED, subscription),
        ],
        [],
        True,
    ),
    "checkout of a payment": ([SOLD], ["NON_RENEWING_PURCHASE"], True),
    "checkout that is paid later": (
        [
            (at(START, Shop.checkout, "coins", paid=False), "checkout.session.completed", session),
            (at(START + DAY, pay_later), "checkout.session.async_payment_succeeded", session),
        ],
        ["NON_RENEWING_PURCHASE"],
        True,
    ),
    "checkout not paid": (
        [(at(START, Shop.checkout, "coins", paid=False), "checkout.session.completed", session)],
        [],
        False,
    ),
    "checkout of a subscription": (
        [BOUGHT, (at(START, Shop.checkout, mode="subscription"), "checkout.session.completed", session)],
        [],
        True,
    ),
    "charge.refunded": ([BOUGHT, REFUNDED], ["REFUND"], False),
    "charge.refunded, in part": ([BOUGHT, (at(MID, Shop.refund, amount=100), "charge.refunded", charge)], [], True),
    "charge.refunded, of a purchase": ([SOLD, REFUNDED], ["REFUND"], False),
    "charge.refunded, of an earlier invoice": (
        [
            BOUGHT,
            RENEWED,
            (
                at(CHARGED + DAY, lambda shop: shop.refund(shop.charges[0])),
                "charge.refunded",
                lambda shop: shop.charges[0],
            ),
        ],
        [],
        True,
    ),
    "refund.failed": (
        [BOUGHT, REFUNDED, (at(MID + DAY, Shop.refund_fails), "refund.failed", refund)],
        ["REFUND_REVERSED"],
        True,
    ),
    "refund.failed, of a purchase": (
        [SOLD, REFUNDED, (at(MID + DAY, Shop.refund_fails), "refund.failed", refund)],
        ["REFUND_REVERSED"],
        True,
    ),
    "refunded and deleted at once": (
        [BOUGHT, (at(MID, lambda shop: (shop.end("cancellation_requested"), shop.refund())), DELETED, subscription)],
        ["REFUND"],
        False,
    ),
    "price changed, charged later, then refunded": (
        [BOUGHT, CHANGED, (at(MID + DAY, Shop.refund), "charge.refunded", charge)],
        ["REFUND"],
        False,
    ),
    "refunded, then price changed, charged later": (
        [BOUGHT, REFUNDED, (at(MID + DAY, Shop.upgrade_later_paid), UPDATED, subscription)],
        [f"PRODUCT_CHANGE {PRO}>{MAX}"],
        False,
    ),
    "price changed, charged later, refunded, and the refund fails": (
        [
            BOUGHT,
            CHANGED,
            (at(MID + DAY, Shop.refund), "charge.refunded", charge),
            (at(MID + 2 * DAY, Shop.refund_fails), "refund.failed", refund),
        ],
        ["REFUND_REVERSED"],
        True,
    ),
    "refunded, price changed, charged later, and the refund fails": (
        [
            BOUGHT,
            REFUNDED,
            (at(MID + DAY, Shop.upgrade_later_paid), UPDATED, subscription),
            (at(MID + 2 * DAY, Shop.refund_fails), "refund.failed", refund),
        ],
        ["REFUND_REVERSED"],
        True,
    ),
    "price changed, charged later, then disputed": (
        [BOUGHT, CHANGED, (at(MID + DAY, Shop.dispute), "charge.dispute.funds_withdrawn", dispute)],
        ["REFUND"],
        False,
    ),
    "dispute.funds_withdrawn": ([BOUGHT, DISPUTED], ["REFUND"], False),
    "dispute.funds_reinstated": (
        [BOUGHT, DISPUTED, (at(MID + DAY, Shop.reinstate), "charge.dispute.funds_reinstated", dispute)],
        ["REFUND_REVERSED"],
        True,
    ),
    **ITEM_ROWS,
    "an event about nothing": ([BOUGHT, (nothing, "customer.updated", lambda shop: shop.customer)], [], True),
}


async def hear(life: Life, shop: Shop, told: Json) -> list[str]:
    """From the signed body to what is told."""
    filed = await life.adapter.verify(life.app, sent(told, received_at=shop.now))
    return await life.take(await life.adapter.read(life.app, filed.payload))


@pytest.mark.parametrize(("steps", "told", "access"), ROWS.values(), ids=ROWS)
async def test_a_row_of_the_table(life: Life, shop: Shop, steps: list[Step], told: list[str], access: bool) -> None:
    heard: list[str] = []
    for happens, type, about in steps:
        happens(shop)
        notification = event(type, about(shop), shop.now)
        heard = await hear(life, shop, notification)
        known = life.customer
        assert await hear(life, shop, notification) == [], "the same again tells nothing"
        assert life.customer == known, "and changes nothing"
    assert sorted(heard) == sorted(told)
    assert life.has_access() is access
    for handle in (SUB, SESSION):
        assert await life.read_again(handle) == [], "nor does the safety net"


@pytest.mark.parametrize("steps", [steps for steps, _, _ in ROWS.values()], ids=ROWS)
async def test_events_that_come_late_and_in_any_order_lead_to_the_same_state(
    stripe: StripeAdapter, shop: Shop, app: ConnectedApp, steps: list[Step]
) -> None:
    """All of it has happened before the first is heard: every order ends as Stripe has it, with the same money."""
    notifications = []
    for happens, type, about in steps:
        happens(shop)
        notifications.append(event(type, about(shop), shop.now))
    ends = []
    # The three neighbours that came last; each also a second time.
    for order in permutations(notifications[-3:]):
        life = Life(stripe, app, lambda: shop.now)
        for notification in (*order, *reversed(order)):
            await hear(life, shop, notification)
        standing = [(one.id, one.periods, undated(one.status), one.expired) for one in life.customer.subscriptions]
        told = sorted((event.type, event.transaction_id, event.at) for event in life.told.values())
        ends.append((standing, life.customer.purchases, told))
    assert all(end == ends[0] for end in ends)


async def test_a_change_that_nothing_dates_ends_with_the_money_that_paid_for_its_time(life: Life, shop: Shop) -> None:
    """In later free time. No row of the table: the change is dated by the event that is heard first."""
    heard = []
    for happens, type, about in (
        BOUGHT,
        (at(MID, Shop.extend, END + 10 * DAY), UPDATED, subscription),
        (at(MID + DAY, Shop.change_for_nothing), UPDATED, subscription),
        (at(MID + 2 * DAY, Shop.refund), "charge.refunded", charge),
        (at(MID + 3 * DAY, nothing), UPDATED, subscription),
    ):
        happens(shop)
        heard.append(await hear(life, shop, event(type, about(shop), shop.now)))
    assert heard[2:] == [[f"PRODUCT_CHANGE {PRO}>{MAX}"], ["REFUND"], []]
    assert not life.has_access()
    shop.now = MID + 4 * DAY
    shop.refund_fails()
    assert await hear(life, shop, event("refund.failed", refund(shop), shop.now)) == ["REFUND_REVERSED"]
    assert life.has_access()


def undated(status: Status) -> Status:
    """Without the moment of the reading, of which several may fall into one millisecond."""
    return replace(status, as_of=Moment(0))
