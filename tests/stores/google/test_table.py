"""Every row of Google's table: what happens in the store, the notification, and what is told; also heard twice."""

from collections.abc import Callable
from itertools import permutations

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.purchases.subscription import Moment, Status
from tests.stores.adapter_life import Life
from tests.stores.google.play import MONTH, START, TOKEN, Json, Play, iso, notice, one_time_notice, voided_notice

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
MID = START + 10 * DAY


def renew(play: Play) -> None:
    play.renew()


def nothing(play: Play) -> None:
    """Google only says it."""


def on_hold(at: int) -> Step:
    return later(at, lambda play: play.state("ON_HOLD")), notice(5)


def cancelled(by: str, at: int = MID) -> Step:
    return later(at, lambda play: play.cancel(by)), notice(3)


def ended(by: str, at: int = END) -> Step:
    return later(at, lambda play: play.cancel(by, state="EXPIRED")), notice(13)


BOUGHT: Step = (Play.buy, notice(4))
TRIED: Step = (trial, notice(4))
GRACE: Step = (later(END + HOUR, grace), notice(6))
HOLD = on_hold(END + HOUR)
HOLD_AFTER_GRACE = on_hold(END + 3 * DAY)
DEFERRED: Step = (later(MID, lambda play: play.state("ACTIVE", ends_at=END + 5 * DAY)), notice(9))
PAUSE_PLANNED: Step = (later(MID, schedule_pause), notice(11))
PAUSED: Step = (later(END, pause), notice(10))
SOLD: Step = (Play.sell, one_time_notice(1))
UNPAID: Step = (pending_one_time, one_time_notice(1))
REFUNDED: Step = (later(MID, revoke_with_refund), notice(12))
REFUND_VOIDED: Step = (later(MID, revoke_with_refund), voided_notice())
UPGRADE = "PRODUCT_CHANGE pro:monthly>max:monthly"
REVOKED = ["EXPIRATION DEVELOPER_INITIATED"]

ROWS: dict[str, tuple[list[Step], list[str], bool]] = {
    # What happens and is heard; what is told of the last; whether there is access afterwards.
    "4 bought": ([BOUGHT], ["INITIAL_PURCHASE"], True),
    "4 trial": ([TRIED], ["TRIAL_STARTED"], True),
    "4 prepaid": ([(prepaid, notice(4))], ["NON_RENEWING_PURCHASE"], True),
    "4 upgrade": ([BOUGHT, (later(MID, upgrade), notice(4, "second"))], [UPGRADE], True),
    "4 same product again": ([BOUGHT, (later(MID, resubscribe), notice(4, "second"))], ["INITIAL_PURCHASE"], True),
    "4 the replaced one": ([BOUGHT, (later(MID, upgrade), notice(13))], [], True),
    "2 renewed": ([BOUGHT, (later(END, renew), notice(2))], ["RENEWAL"], True),
    "2 after a trial": ([TRIED, (later(START + 7 * DAY, renew), notice(2))], ["INITIAL_PURCHASE CONVERSION"], True),
    "1 recovered in grace": (
        [BOUGHT, GRACE, (later(END + DAY, lambda play: play.renew(begins_at=END)), notice(1))],
        ["RENEWAL"],
        True,
    ),
    "1 recovered from hold": ([BOUGHT, HOLD, (later(END + 5 * DAY, renew), notice(1))], ["RENEWAL"], True),
    "3 by the user": ([BOUGHT, cancelled("user")], ["CANCELLATION UNSUBSCRIBE"], True),
    "3 by the system": ([BOUGHT, cancelled("system")], ["CANCELLATION BILLING_ERROR"], True),
    "3 by the developer": ([BOUGHT, cancelled("developer")], ["CANCELLATION DEVELOPER_INITIATED"], True),
    "3 by a replacement": ([BOUGHT, cancelled("replacement")], [], True),
    "3 in a trial": ([TRIED, cancelled("user", START + DAY)], ["TRIAL_CANCELLED UNSUBSCRIBE"], True),
    "18 cancellation scheduled": (
        [BOUGHT, (later(MID, schedule_cancellation), notice(18))],
        ["CANCELLATION UNSUBSCRIBE"],
        True,
    ),
    "7 restarted": (
        [BOUGHT, cancelled("user"), (later(MID + DAY, restart), notice(7))],
        ["UNCANCELLATION"],
        True,
    ),
    "6 in grace": ([BOUGHT, GRACE], ["BILLING_ISSUE"], True),
    "5 on hold": ([BOUGHT, HOLD], ["BILLING_ISSUE", "EXPIRATION BILLING_ERROR"], False),
    "5 on hold after grace": ([BOUGHT, GRACE, HOLD_AFTER_GRACE], ["EXPIRATION BILLING_ERROR"], False),
    "11 pause planned": ([BOUGHT, PAUSE_PLANNED], ["SUBSCRIPTION_PAUSED"], True),
    "11 pause called off": (
        [BOUGHT, PAUSE_PLANNED, (later(MID + DAY, lambda play: play.resumes.clear()), notice(11))],
        ["UNCANCELLATION"],
        True,
    ),
    "10 paused as planned": ([BOUGHT, PAUSE_PLANNED, PAUSED], ["EXPIRATION SUBSCRIPTION_PAUSED"], False),
    "10 paused": ([BOUGHT, PAUSED], ["EXPIRATION SUBSCRIPTION_PAUSED", "SUBSCRIPTION_PAUSED"], False),
    "1 resumed": ([BOUGHT, PAUSED, (later(END + 10 * DAY, renew), notice(1))], ["RENEWAL"], True),
    "9 deferred": ([BOUGHT, DEFERRED], ["SUBSCRIPTION_EXTENDED"], True),
    "12 refunded on hold": ([BOUGHT, HOLD, (later(END + 4 * DAY, refund_on_hold), notice(12))], ["REFUND"], False),
    "12 refunded on hold after grace": (
        [BOUGHT, GRACE, HOLD_AFTER_GRACE, (later(END + 9 * DAY, refund_on_hold), voided_notice())],
        ["REFUND"],
        False,
    ),
    "12 refunded in grace": ([BOUGHT, GRACE, (later(END + DAY, revoke_with_refund), notice(12))], ["REFUND"], False),
    "12 revoked in grace": ([BOUGHT, GRACE, (later(END + DAY, revoke), notice(12))], REVOKED, False),
    "12 revoked": ([BOUGHT, (later(MID, revoke), notice(12))], REVOKED, False),
    "12 revoked and refunded": ([BOUGHT, REFUNDED], ["REFUND"], False),
    "13 ran out": ([BOUGHT, cancelled("user"), ended("user")], ["EXPIRATION UNSUBSCRIBE"], False),
    "13 without a reason": (
        [BOUGHT, (later(END, lambda play: play.state("EXPIRED")), notice(13))],
        ["EXPIRATION UNKNOWN"],
        False,
    ),
    "13 not paid in time": (
        [BOUGHT, GRACE, HOLD_AFTER_GRACE, ended("system", END + 33 * DAY)],
        ["CANCELLATION BILLING_ERROR"],
        False,
    ),
    "17 another product": ([BOUGHT, (later(END, change_items), notice(17))], [UPGRADE], True),
    "17 another product at the end": (
        [BOUGHT, (later(MID, defer_replacement), notice(17))],
        ["PRODUCT_CHANGE pro:monthly>basic"],
        True,
    ),
    **{f"{code} price change": ([BOUGHT, (later(MID, price_change), notice(code))], [], True) for code in (8, 19, 22)},
    "pending": ([(pending, notice(4))], [], False),
    "20 pending called off": ([(pending_cancelled, notice(20))], [], False),
    "99 unknown": ([BOUGHT, (later(MID, nothing), notice(99))], [], True),
    "one-time 1": ([SOLD], ["NON_RENEWING_PURCHASE"], True),
    "one-time pending": ([UNPAID], [], False),
    "one-time 2": ([UNPAID, (cancel_one_time, one_time_notice(2))], [], False),
    "voided": ([BOUGHT, REFUND_VOIDED], ["REFUND"], False),
    "refunded, and access left": ([BOUGHT, (later(MID, Play.refund), notice(99))], [], True),
    "refunded after the end": (
        [BOUGHT, ended("user"), (later(END + DAY, Play.refund), voided_notice())],
        ["REFUND"],
        False,
    ),
    "one-time refunded, and left": ([SOLD, (later(MID, Play.refund), one_time_notice(1))], [], True),
    "voided after 12": ([BOUGHT, REFUNDED, (later(MID + DAY, nothing), voided_notice())], [], False),
    "12 after voided": ([BOUGHT, REFUND_VOIDED, (later(MID + DAY, nothing), notice(12))], [], False),
    "voided one-time": ([SOLD, (later(MID, refund_one_time), voided_notice(type=2))], ["REFUND"], False),
    "voided in part": ([SOLD, (later(MID, nothing), voided_notice(type=2, refund_type=2))], [], True),
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
    play: Play, steps: list[Step]
) -> None:
    """All of it has happened before the first is heard: every order ends as the store has it, with the same money."""
    for happens, _ in steps:
        happens(play)
    ends = []
    # The three neighbours that came last; each also a second time.
    for order in permutations(notification for _, notification in steps[-3:]):
        life = Life(play.adapter, play.app, lambda: play.now)
        for notification in (*order, *reversed(order)):
            await life.hear(notification)
        standing = [
            (subscription.id, subscription.periods, undated(subscription.status), subscription.expired)
            for subscription in life.customer.subscriptions
        ]
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
