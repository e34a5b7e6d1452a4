"""Longer lives in Google Play: what one notification alone does not show."""

import pytest

from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Reason
from latchkey.domain.purchases.subscription import PeriodType
from tests.stores.adapter_life import Life
from tests.stores.google.play import MONTH, ORDER, START, TOKEN, Play, error, notice, voided_notice
from tests.stores.google.test_table import BOUGHT, END, GRACE, MID, NEXT, ROWS, prepaid, trial, upgrade


async def test_a_recovered_payment_misses_no_time(life: Life, play: Play) -> None:
    steps = ROWS["1 recovered in grace"][0]
    for happens, notification in steps:
        happens(play)
        await life.hear(notification)
    paid = life.subscription.current
    assert (paid.purchased_at, paid.paid_from, paid.ends_at) == (END + DAY, END, END + MONTH)
    assert life.subscription.status.billing_issue_at is None


async def test_a_grace_period_that_google_extends_day_by_day_is_one_billing_issue(life: Life, play: Play) -> None:
    for happens, notification in (BOUGHT, GRACE):
        happens(play)
        await life.hear(notification)
    play.state("IN_GRACE_PERIOD", ends_at=END + 4 * DAY)
    assert await life.hear(notice(6)) == ["BILLING_ISSUE"]  # with the new end of access
    status = life.subscription.status
    assert (status.billing_issue_at, status.grace_ends_at) == (END, END + 4 * DAY)
    assert life.subscription.current.ends_at == END


async def test_a_planned_pause_survives_readings_that_do_not_tell_of_it(life: Life, play: Play) -> None:
    for happens, notification in ROWS["11 pause planned"][0]:
        happens(play)
        await life.hear(notification)
    assert await life.hear(notice(8)) == []
    assert await life.read_again(TOKEN) == []
    assert life.subscription.status.pause is not None


@pytest.mark.parametrize("position", [0, 1])
async def test_an_item_that_vanishes_from_a_purchase_ends_there(life: Life, play: Play, position: int) -> None:
    bought = play.buy()
    bought["lineItems"].append(bought["lineItems"][0] | {"productId": "extra"})
    play.orders[ORDER]["lineItems"].append(play.orders[ORDER]["lineItems"][0] | {"productId": "extra"})
    assert await life.hear(notice(4)) == ["INITIAL_PURCHASE", "INITIAL_PURCHASE"]
    play.now = MID
    gone = bought["lineItems"].pop(position)["productId"]
    assert await life.hear(notice(17, at=MID)) == ["EXPIRATION UNSUBSCRIBE"]
    play.now = MID + DAY
    assert await life.read_again(TOKEN) == []
    ends = {
        subscription.current.product_id: (subscription.access_ends_at, subscription.status.ended)
        for subscription in life.customer.subscriptions
    }
    kept = "extra" if position == 0 else "pro"
    assert ends == {f"{gone}:monthly": (MID, Reason.UNSUBSCRIBE), f"{kept}:monthly": (END, None)}


async def test_renewals_that_were_never_heard_of_are_filled_in(life: Life, play: Play) -> None:
    trial(play)
    await life.hear(notice(4))
    for month in range(3):
        play.now = START + 7 * DAY + month * MONTH
        play.renew()
    assert await life.hear(notice(2)) == ["INITIAL_PURCHASE CONVERSION", "RENEWAL", "RENEWAL"]
    assert [period.id for period in life.subscription.periods] == [
        ORDER,
        *(f"{ORDER}..{number}" for number in range(3)),
    ]
    assert [period.number for period in life.subscription.periods] == [0, 1, 2, 3]
    assert [period.price.micros for period in life.subscription.periods] == [0, 9_990_000, 9_990_000, 9_990_000]
    assert life.subscription.periods[0].period_type is PeriodType.TRIAL


async def test_a_chain_of_upgrades_is_one_subscription_also_where_one_was_never_heard_of(
    life: Life, play: Play
) -> None:
    play.buy()
    await life.hear(notice(4))
    play.now = MID
    upgrade(play)
    play.now = MID + DAY
    play.cancel("replacement", "second", state="EXPIRED", ends_at=play.now)
    play.buy("third", "GPA.5", linkedPurchaseToken="second", item={"productId": "ultra"})
    assert await life.hear(notice(4, "third")) == [
        "PRODUCT_CHANGE pro:monthly>max:monthly",
        "PRODUCT_CHANGE max:monthly>ultra:monthly",
    ]
    assert life.subscription.id == ORDER
    assert [period.product_id for period in life.subscription.periods] == [
        "pro:monthly",
        "max:monthly",
        "ultra:monthly",
    ]
    assert [period.ends_at for period in life.subscription.periods] == [MID, MID + DAY, MID + DAY + MONTH]


async def test_what_was_paid_before_an_upgrade_is_told_even_if_the_upgrade_is_heard_of_first(
    life: Life, play: Play
) -> None:
    play.buy()
    play.now = MID
    upgrade(play)
    assert await life.hear(notice(4, "second")) == ["INITIAL_PURCHASE", "PRODUCT_CHANGE pro:monthly>max:monthly"]
    assert life.subscription.id == ORDER
    assert await life.hear(notice(4)) == []
    assert await life.hear(notice(13)) == []
    assert life.subscription.status.auto_renew is True


async def test_a_change_that_waits_for_the_end_is_announced_and_then_a_renewal(life: Life, play: Play) -> None:
    """Google gives the purchase a new token and an order without a price, while the old product goes on."""
    play.buy()
    await life.hear(notice(4))
    play.now = MID
    play.cancel("replacement", state="EXPIRED", ends_at=play.now)
    waiting = {"deferredItemReplacement": {"productId": "basic"}}
    play.buy("second", NEXT, ends_at=END, linkedPurchaseToken=TOKEN, item=waiting)
    free(play, NEXT)
    assert await life.hear(notice(4, "second")) == ["PRODUCT_CHANGE pro:monthly>basic"]
    assert await life.read_again("second") == []
    assert [period.id for period in life.subscription.periods] == [ORDER]
    play.now = END
    play.subscriptions["second"]["lineItems"][0].pop("deferredItemReplacement")
    play.renew("second", item={"productId": "basic"})
    # It was told when it was announced.
    assert await life.hear(notice(2, "second")) == ["RENEWAL"]
    assert await life.hear(notice(17, "second")) == []
    assert await life.read_again("second") == []
    assert [period.id for period in life.subscription.periods] == [ORDER, f"{NEXT}..0"]
    play.now = END + MONTH
    play.renew("second")
    assert await life.hear(notice(2, "second")) == ["RENEWAL"]


async def test_a_cancelled_subscription_that_is_taken_up_again_without_a_payment_goes_on(
    life: Life, play: Play
) -> None:
    play.buy()
    await life.hear(notice(4))
    play.cancel("user")
    await life.hear(notice(3))
    play.now = MID
    play.cancel("replacement", state="EXPIRED", ends_at=play.now)
    play.buy("second", NEXT, ends_at=END, linkedPurchaseToken=TOKEN)
    free(play, NEXT)
    assert await life.hear(notice(4, "second")) == ["UNCANCELLATION"]
    assert life.subscription.current.id == ORDER


async def test_whoever_subscribes_again_after_the_end_buys_anew(life: Life, play: Play) -> None:
    play.buy()
    await life.hear(notice(4))
    play.cancel("user")
    play.now = END
    play.cancel("user", state="EXPIRED")
    await life.hear(notice(13))
    play.now = END + MONTH
    play.buy("second", NEXT, linkedPurchaseToken=TOKEN, item={"productId": "max"})
    assert await life.hear(notice(4, "second")) == ["INITIAL_PURCHASE"]
    assert await life.hear(notice(13)) == [], "the old purchase no longer counts"
    assert life.has_access()


def free(play: Play, order_id: str) -> None:
    play.orders[order_id]["lineItems"][0]["total"] = play.orders[order_id]["total"] = {"currencyCode": "EUR"}


async def test_a_top_up_of_a_prepaid_plan_is_a_purchase_of_its_own(life: Life, play: Play) -> None:
    prepaid(play)
    await life.hear(notice(4))
    item = play.subscriptions[TOKEN]["lineItems"][0]
    play.now = MID
    play.cancel("replacement", state="EXPIRED")
    play.buy("second", NEXT, linkedPurchaseToken=TOKEN, ends_at=END + MONTH, item={"prepaidPlan": {}})
    play.subscriptions["second"]["lineItems"][0] |= {"offerDetails": item["offerDetails"]}
    assert await life.hear(notice(4, "second")) == ["NON_RENEWING_PURCHASE"]
    first, second = life.customer.purchases
    assert (first.id, first.product_id, first.ends_at) == (ORDER, "pro:pass", END)
    assert (second.id, second.purchased_at, second.ends_at) == (NEXT, MID, END + MONTH)


async def test_a_refund_of_an_older_order_leaves_its_date_and_access_goes_on(life: Life, play: Play) -> None:
    play.buy()
    await life.hear(notice(4))
    play.now = END
    play.renew()
    await life.hear(notice(2))
    play.now = END + DAY
    play.refund(ORDER)
    assert await life.hear(voided_notice(order_id=ORDER)) == []
    assert life.subscription.periods[0].refunded_at == END + DAY
    assert life.has_access()


async def test_without_the_right_to_read_orders_access_is_still_right(life: Life, play: Play) -> None:
    play.refuse = lambda path: error(403, "permissionDenied") if path.startswith("/orders") else None
    play.buy()
    assert await life.hear(notice(4)) == ["INITIAL_PURCHASE"]
    assert life.subscription.current.price.micros == 9_990_000
    play.now = END
    play.renew()
    assert await life.hear(notice(2)) == ["RENEWAL"]
    assert life.subscription.current.purchased_at == START + MONTH
    play.now = END + MONTH
    play.state("ON_HOLD")
    assert await life.hear(notice(5)) == ["BILLING_ISSUE", "EXPIRATION BILLING_ERROR"]
    assert not life.has_access()


async def top_up(life: Life, play: Play) -> None:
    prepaid(play)
    await life.hear(notice(4))
    plan = play.subscriptions[TOKEN]["lineItems"][0]["offerDetails"]
    play.now = MID
    play.cancel("replacement", state="EXPIRED", ends_at=MID)
    item = {"prepaidPlan": {}, "offerDetails": plan}
    play.buy("second", NEXT, linkedPurchaseToken=TOKEN, ends_at=END + MONTH, item=item)


async def test_a_refunded_top_up_leaves_what_was_paid_before_where_google_leaves_it(life: Life, play: Play) -> None:
    await top_up(life, play)
    await life.hear(notice(4, "second"))
    play.now = MID + DAY
    play.refund(NEXT)
    play.state("ACTIVE", "second", ends_at=END)
    assert await life.hear(voided_notice("second", NEXT)) == ["REFUND"]
    assert life.has_access()
    assert await life.read_again("second") == []
    play.now = END
    play.state("EXPIRED", "second")
    assert await life.hear(notice(13, "second")) == ["EXPIRATION UNKNOWN"]
    assert not life.has_access()


async def test_a_top_up_tells_of_the_purchase_before_it_that_nobody_heard_of(life: Life, play: Play) -> None:
    await top_up(Life(life.adapter, life.app, life.now), play)
    assert await life.hear(notice(4, "second")) == ["NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE"]
    first, second = life.customer.purchases
    assert (first.purchased_at, first.ends_at, first.access_ends_at) == (START, END, MID)
    assert (second.purchased_at, second.access_ends_at) == (MID, END + MONTH)
    play.now = END + DAY
    assert await life.read_again("second") == []
