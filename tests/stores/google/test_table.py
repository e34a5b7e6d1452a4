"""Every row of Google's table: what happens in the store, the notification, and what is told; also heard twice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.purchases.subscription import Moment, Status
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.google.adapter import GoogleAdapter
from tests.stores.adapter_life import Life
from tests.stores.google.play import (
    MONTH,
    START,
    TOKEN,
    Json,
    Play,
    iso,
    notice,
    one_time_notice,
    voided_notice,
)

END = START + MONTH
NEXT = "GPA.9999-8888-7777-66666"
Happening = Callable[[Play], object]


def trial(play: Play) -> None:
    play.buy(phase="freeTrialDetails", ends_at=START + 7 * DAY, item={"offerPhase": {"freeTrial": {}}})


def later(at: int, happens: Happening) -> Happening:
    def it(play: Play) -> None:
        play.now = at
        happens(play)

    return it


def upgrade(play: Play) -> None:
    play.cancel("replacement", state="EXPIRED", ends_at=play.now)
    play.buy("second", NEXT, linkedPurchaseToken=TOKEN, item={"productId": "max"})


def resubscribe(play: Play) -> None:
    play.cancel("replacement", state="EXPIRED", ends_at=play.now)
    play.buy("second", NEXT, linkedPurchaseToken=TOKEN)


def prepaid(play: Play) -> None:
    play.buy(
        item={
            "prepaidPlan": {},
            "autoRenewingPlan": {"autoRenewEnabled": False},
            "offerDetails": {"basePlanId": "pass"},
        }
    )
    play.subscriptions[TOKEN]["lineItems"][0].pop("autoRenewingPlan")


def grace(play: Play) -> None:
    play.state("IN_GRACE_PERIOD", ends_at=END + 3 * DAY)


def revoke(play: Play) -> None:
    play.cancel("developer", state="EXPIRED", ends_at=play.now)


def revoke_with_refund(play: Play) -> None:
    revoke(play)
    play.now += 2_000
    play.refund()


def refund_on_hold(play: Play) -> None:
    play.cancel("developer", state="EXPIRED")
    play.refund()


def refund_in_grace(play: Play) -> None:
    play.cancel("developer", state="EXPIRED", ends_at=play.now)
    play.now += 2_000
    play.refund()


def defer_replacement(play: Play) -> None:
    item = play.subscriptions[TOKEN]["lineItems"][0]
    item["deferredItemReplacement"] = {"productId": "basic"}


def change_items(play: Play) -> None:
    replaced = {"productId": "pro", "basePlanId": "monthly"}
    play.renew(item={"productId": "max", "itemReplacement": replaced})


def schedule_pause(play: Play) -> None:
    play.resumes[TOKEN] = END + 10 * DAY


def pause(play: Play) -> None:
    play.state("PAUSED", ends_at=END, pausedStateContext={"autoResumeTime": iso(END + 10 * DAY)})


def schedule_cancellation(play: Play) -> None:
    plan = play.subscriptions[TOKEN]["lineItems"][0]["autoRenewingPlan"]
    plan["installmentDetails"] = {"pendingCancellation": {}}


def restart(play: Play) -> None:
    play.state("ACTIVE")
    play.subscriptions[TOKEN]["lineItems"][0]["autoRenewingPlan"]["autoRenewEnabled"] = True


def price_change(play: Play) -> None:
    plan = play.subscriptions[TOKEN]["lineItems"][0]["autoRenewingPlan"]
    plan["priceChangeDetails"] = {"newPrice": {"currencyCode": "EUR", "units": "12"}, "priceChangeState": "OUTSTANDING"}


def pending(play: Play) -> None:
    play.buy(subscriptionState="SUBSCRIPTION_STATE_PENDING")


def pending_cancelled(play: Play) -> None:
    play.buy(subscriptionState="SUBSCRIPTION_STATE_PENDING_PURCHASE_CANCELED")


def pending_one_time(play: Play) -> None:
    play.sell(purchaseStateContext={"purchaseState": "PENDING"})
    play.products[TOKEN].pop("purchaseCompletionTime")


def cancel_one_time(play: Play) -> None:
    play.products[TOKEN]["purchaseStateContext"] = {"purchaseState": "CANCELLED"}


def refund_one_time(play: Play) -> None:
    cancel_one_time(play)
    play.refund()


Step = tuple[Happening, Json]
BOUGHT: Step = (Play.buy, notice(4))
TRIED: Step = (trial, notice(4))
GRACE: Step = (later(END + HOUR, grace), notice(6))
MID = START + 10 * DAY
DEFERRED: Step = (later(MID, lambda play: play.state("ACTIVE", ends_at=END + 5 * DAY)), notice(9))

ROWS: dict[str, tuple[list[Step], list[str], bool]] = {
    # What happens and is heard; what is told of the last; whether there is access afterwards.
    "4 bought": ([BOUGHT], ["INITIAL_PURCHASE"], True),
    "4 trial": ([TRIED], ["TRIAL_STARTED"], True),
    "4 prepaid": ([(prepaid, notice(4))], ["NON_RENEWING_PURCHASE"], True),
    "4 upgrade": (
        [BOUGHT, (later(MID, upgrade), notice(4, "second"))],
        ["PRODUCT_CHANGE pro:monthly>max:monthly"],
        True,
    ),
    "4 same product again": ([BOUGHT, (later(MID, resubscribe), notice(4, "second"))], ["INITIAL_PURCHASE"], True),
    "4 the replaced one": ([BOUGHT, (later(MID, upgrade), notice(13))], [], True),
    "2 renewed": ([BOUGHT, (later(END, lambda play: play.renew()), notice(2))], ["RENEWAL"], True),
    "2 after a trial": (
        [TRIED, (later(START + 7 * DAY, lambda play: play.renew()), notice(2))],
        ["INITIAL_PURCHASE CONVERSION"],
        True,
    ),
    "1 recovered in grace": (
        [BOUGHT, GRACE, (later(END + DAY, lambda play: play.renew(begins_at=END)), notice(1))],
        ["RENEWAL"],
        True,
    ),
    "1 recovered from hold": (
        [
            BOUGHT,
            (later(END + HOUR, lambda play: play.state("ON_HOLD")), notice(5)),
            (later(END + 5 * DAY, lambda play: play.renew()), notice(1)),
        ],
        ["RENEWAL"],
        True,
    ),
    "3 by the user": (
        [BOUGHT, (later(MID, lambda play: play.cancel("user")), notice(3))],
        ["CANCELLATION UNSUBSCRIBE"],
        True,
    ),
    "3 by the system": (
        [BOUGHT, (later(MID, lambda play: play.cancel("system")), notice(3))],
        ["CANCELLATION BILLING_ERROR"],
        True,
    ),
    "3 by the developer": (
        [BOUGHT, (later(MID, lambda play: play.cancel("developer")), notice(3))],
        ["CANCELLATION DEVELOPER_INITIATED"],
        True,
    ),
    "3 by a replacement": ([BOUGHT, (later(MID, lambda play: play.cancel("replacement")), notice(3))], [], True),
    "3 in a trial": (
        [TRIED, (later(START + DAY, lambda play: play.cancel("user")), notice(3))],
        ["TRIAL_CANCELLED UNSUBSCRIBE"],
        True,
    ),
    "18 cancellation scheduled": (
        [BOUGHT, (later(MID, schedule_cancellation), notice(18))],
        ["CANCELLATION UNSUBSCRIBE"],
        True,
    ),
    "7 restarted": (
        [
            BOUGHT,
            (later(MID, lambda play: play.cancel("user")), notice(3)),
            (later(MID + DAY, restart), notice(7)),
        ],
        ["UNCANCELLATION"],
        True,
    ),
    "6 in grace": ([BOUGHT, GRACE], ["BILLING_ISSUE"], True),
    "5 on hold": (
        [BOUGHT, (later(END + HOUR, lambda play: play.state("ON_HOLD")), notice(5))],
        ["BILLING_ISSUE", "EXPIRATION BILLING_ERROR"],
        False,
    ),
    "5 on hold after grace": (
        [BOUGHT, GRACE, (later(END + 3 * DAY, lambda play: play.state("ON_HOLD")), notice(5))],
        ["EXPIRATION BILLING_ERROR"],
        False,
    ),
    "11 pause planned": ([BOUGHT, (later(MID, schedule_pause), notice(11))], ["SUBSCRIPTION_PAUSED"], True),
    "11 pause called off": (
        [
            BOUGHT,
            (later(MID, schedule_pause), notice(11)),
            (later(MID + DAY, lambda play: play.resumes.clear()), notice(11)),
        ],
        ["UNCANCELLATION"],
        True,
    ),
    "10 paused as planned": (
        [BOUGHT, (later(MID, schedule_pause), notice(11)), (later(END, pause), notice(10))],
        ["EXPIRATION SUBSCRIPTION_PAUSED"],
        False,
    ),
    "10 paused": (
        [BOUGHT, (later(END, pause), notice(10))],
        ["EXPIRATION SUBSCRIPTION_PAUSED", "SUBSCRIPTION_PAUSED"],
        False,
    ),
    "1 resumed": (
        [
            BOUGHT,
            (later(END, pause), notice(10)),
            (later(END + 10 * DAY, lambda play: play.renew()), notice(1)),
        ],
        ["RENEWAL"],
        True,
    ),
    "9 deferred": (
        [BOUGHT, (later(MID, lambda play: play.state("ACTIVE", ends_at=END + 5 * DAY)), notice(9))],
        ["SUBSCRIPTION_EXTENDED"],
        True,
    ),
    "12 refunded on hold": (
        [
            BOUGHT,
            (later(END + HOUR, lambda play: play.state("ON_HOLD")), notice(5)),
            (later(END + 4 * DAY, refund_on_hold), notice(12)),
        ],
        ["REFUND"],
        False,
    ),
    "12 refunded on hold after grace": (
        [
            BOUGHT,
            GRACE,
            (later(END + 3 * DAY, lambda play: play.state("ON_HOLD")), notice(5)),
            (later(END + 9 * DAY, refund_on_hold), voided_notice()),
        ],
        ["REFUND"],
        False,
    ),
    "12 refunded in grace": ([BOUGHT, GRACE, (later(END + DAY, refund_in_grace), notice(12))], ["REFUND"], False),
    "12 revoked in grace": (
        [BOUGHT, GRACE, (later(END + DAY, revoke), notice(12))],
        ["EXPIRATION DEVELOPER_INITIATED"],
        False,
    ),
    "12 revoked": ([BOUGHT, (later(MID, revoke), notice(12))], ["EXPIRATION DEVELOPER_INITIATED"], False),
    "12 revoked and refunded": ([BOUGHT, (later(MID, revoke_with_refund), notice(12))], ["REFUND"], False),
    "13 ran out": (
        [
            BOUGHT,
            (later(MID, lambda play: play.cancel("user")), notice(3)),
            (later(END, lambda play: play.cancel("user", state="EXPIRED")), notice(13)),
        ],
        ["EXPIRATION UNSUBSCRIBE"],
        False,
    ),
    "13 without a reason": (
        [BOUGHT, (later(END, lambda play: play.state("EXPIRED")), notice(13))],
        ["EXPIRATION UNKNOWN"],
        False,
    ),
    "13 not paid in time": (
        [
            BOUGHT,
            GRACE,
            (later(END + 3 * DAY, lambda play: play.state("ON_HOLD")), notice(5)),
            (later(END + 33 * DAY, lambda play: play.cancel("system", state="EXPIRED")), notice(13)),
        ],
        ["CANCELLATION BILLING_ERROR"],
        False,
    ),
    "17 another product": (
        [BOUGHT, (later(END, change_items), notice(17))],
        ["PRODUCT_CHANGE pro:monthly>max:monthly"],
        True,
    ),
    "17 another product at the end": (
        [BOUGHT, (later(MID, defer_replacement), notice(17))],
        ["PRODUCT_CHANGE pro:monthly>basic"],
        True,
    ),
    "8 price change": ([BOUGHT, (later(MID, price_change), notice(8))], [], True),
    "19 price change": ([BOUGHT, (later(MID, price_change), notice(19))], [], True),
    "22 price step up": ([BOUGHT, (later(MID, price_change), notice(22))], [], True),
    "pending": ([(pending, notice(4))], [], False),
    "20 pending called off": ([(pending_cancelled, notice(20))], [], False),
    "99 unknown": ([BOUGHT, (later(MID, lambda play: None), notice(99))], [], True),
    "one-time 1": ([(Play.sell, one_time_notice(1))], ["NON_RENEWING_PURCHASE"], True),
    "one-time pending": ([(pending_one_time, one_time_notice(1))], [], False),
    "one-time 2": ([(pending_one_time, one_time_notice(1)), (cancel_one_time, one_time_notice(2))], [], False),
    "voided": (
        [BOUGHT, (later(MID, revoke_with_refund), voided_notice())],
        ["REFUND"],
        False,
    ),
    "refunded, and access left": ([BOUGHT, (later(MID, Play.refund), notice(99))], [], True),
    "refunded after the end": (
        [
            BOUGHT,
            (later(END, lambda play: play.cancel("user", state="EXPIRED")), notice(13)),
            (later(END + DAY, Play.refund), voided_notice()),
        ],
        ["REFUND"],
        False,
    ),
    "one-time refunded, and left": (
        [(Play.sell, one_time_notice(1)), (later(MID, Play.refund), one_time_notice(1))],
        [],
        True,
    ),
    "voided after 12": (
        [BOUGHT, (later(MID, revoke_with_refund), notice(12)), (later(MID + DAY, lambda play: None), voided_notice())],
        [],
        False,
    ),
    "12 after voided": (
        [BOUGHT, (later(MID, revoke_with_refund), voided_notice()), (later(MID + DAY, lambda play: None), notice(12))],
        [],
        False,
    ),
    "voided one-time": (
        [(Play.sell, one_time_notice(1)), (later(MID, refund_one_time), voided_notice(type=2))],
        ["REFUND"],
        False,
    ),
    "voided in part": (
        [(Play.sell, one_time_notice(1)), (later(MID, lambda play: None), voided_notice(type=2, refund_type=2))],
        [],
        True,
    ),
}


@pytest.mark.parametrize(("steps", "told", "access"), ROWS.values(), ids=ROWS)
async def test_a_row_of_the_table(life: Life, play: Play, steps: list[Step], told: list[str], access: bool) -> None:
    heard: list[str] = []
    for happens, notification in steps:
        happens(play)
        heard = await life.hear(notification)
        known = life.customer
        assert await life.hear(notification) == [], "the same again tells nothing"
        assert life.customer == known, "and changes nothing"
    assert sorted(heard) == sorted(told)
    assert life.has_access() is access
    for token in life.ids | play.products:
        assert await life.read_again(token) == [], "nor does the safety net"


@pytest.mark.parametrize("steps", [steps for steps, _, _ in ROWS.values()], ids=ROWS)
async def test_notifications_that_come_late_and_in_any_order_lead_to_the_same_state(
    google: GoogleAdapter, play: Play, app: ConnectedApp, steps: list[Step]
) -> None:
    """All of it has happened before the first is heard: every order ends as the store has it, with the same money."""
    for happens, _ in steps:
        happens(play)
    ends = []
    # The three neighbours that came last; each also a second time.
    for order in permutations(notification for _, notification in steps[-3:]):
        life = Life(google, app, lambda: play.now)
        for notification in (*order, *reversed(order)):
            await life.hear(notification)
        standing = [(one.id, one.periods, undated(one.status), one.expired) for one in life.customer.subscriptions]
        told = sorted((event.type, event.transaction_id, event.at) for event in life.told.values())
        ends.append((standing, life.customer.purchases, told))
    assert all(end == ends[0] for end in ends)


async def test_a_payment_that_is_missed_after_a_deferral_is_dated_to_the_deferred_end(life: Life, play: Play) -> None:
    for happens, notification in (BOUGHT, DEFERRED):
        happens(play)
        await life.hear(notification)
    play.now = END + 5 * DAY + HOUR
    play.state("IN_GRACE_PERIOD", ends_at=END + 12 * DAY)
    assert await life.hear(notice(6)) == ["BILLING_ISSUE"]
    [issue] = [event for event in life.told.values() if event.type == "BILLING_ISSUE"]
    assert (issue.at, issue.expiration_at) == (END + 5 * DAY, END + 5 * DAY)
    assert issue.grace_period_expires_at == END + 12 * DAY
    assert await life.hear(notice(6)) == []
    play.now = END + 12 * DAY
    play.state("ON_HOLD")
    assert await life.hear(notice(5)) == ["EXPIRATION BILLING_ERROR"]
    play.now = END + 40 * DAY
    play.cancel("system", state="EXPIRED")
    assert await life.hear(notice(13)) == ["CANCELLATION BILLING_ERROR"]
    [ended] = [event for event in life.told.values() if event.type == "EXPIRATION"]
    assert ended.at == END + 12 * DAY
    assert life.subscription.current.ends_at == END + 5 * DAY


async def test_an_account_hold_after_a_deferral_begins_at_the_deferred_end(life: Life, play: Play) -> None:
    for happens, notification in (BOUGHT, DEFERRED):
        happens(play)
        await life.hear(notification)
    play.now = END + 5 * DAY + HOUR
    play.state("ON_HOLD")
    assert await life.hear(notice(5)) == ["BILLING_ISSUE", "EXPIRATION BILLING_ERROR"]
    [issue] = [event for event in life.told.values() if event.type == "BILLING_ISSUE"]
    assert (issue.at, issue.grace_period_expires_at) == (END + 5 * DAY, None)
    assert await life.read_again(TOKEN) == []


def undated(status: Status) -> Status:
    """Without the number of the reading that told it."""
    return replace(status, as_of=Moment(status.as_of.at))
