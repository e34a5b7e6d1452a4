"""When the test store bills, and for how long."""

import pytest
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.instants import DAY, Duration, Ms, to_iso
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.subscription import Cause, PeriodType, Subscription
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store import actions
from latchkey.domain.stores.test_store.billing import due_at, next_moment, pass_time
from tests.domain.shop import CATALOG, NOON, PRO_MONTHLY, PRO_YEARLY, TEAM_MONTHLY, at, subscribed

END = at("2026-02-15T12:00")


def billed(start: str, product: Product, times: int, *, trial: bool = False) -> list[str]:
    """The days on which the periods end, when nothing else happens."""
    catalog = Catalog({product.id: product})
    one = subscribed(product, at(start), trial=trial)
    for _ in range(times):
        due = due_at(one)
        assert due is not None
        one = pass_time(one, catalog, due)
    return [to_iso(period.ends_at)[:10] for period in one.periods]


WEEKLY = replace(PRO_MONTHLY, id="weekly", duration=Duration(days=7))
QUARTERLY = replace(PRO_MONTHLY, id="quarterly", duration=Duration(months=3))
FOUR_WEEK_TRIAL = replace(PRO_MONTHLY, trial=Duration(days=28))


@pytest.mark.parametrize(
    ("start", "product", "trial", "ends"),
    [
        ("2026-01-15", PRO_MONTHLY, False, ["2026-02-15", "2026-03-15", "2026-04-15"]),
        ("2026-01-31", PRO_MONTHLY, False, ["2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]),
        ("2028-01-31", PRO_MONTHLY, False, ["2028-02-29", "2028-03-31"]),
        ("2026-01-30", PRO_MONTHLY, False, ["2026-02-28", "2026-03-30", "2026-04-30", "2026-05-30"]),
        ("2026-01-29", PRO_MONTHLY, False, ["2026-02-28", "2026-03-29"]),
        ("2026-02-28", PRO_MONTHLY, False, ["2026-03-28", "2026-04-28"]),
        ("2026-04-30", PRO_MONTHLY, False, ["2026-05-30", "2026-06-30"]),
        ("2028-02-29", PRO_YEARLY, False, ["2029-02-28", "2030-02-28", "2031-02-28", "2032-02-29", "2033-02-28"]),
        ("2026-11-30", QUARTERLY, False, ["2027-02-28", "2027-05-30", "2027-08-30"]),
        ("2026-01-31", WEEKLY, False, ["2026-02-07", "2026-02-14", "2026-02-21", "2026-02-28", "2026-03-07"]),
        ("2026-01-24", PRO_MONTHLY, True, ["2026-01-31", "2026-02-28", "2026-03-31"]),
        # The trial began on the 31st; billing begins on the 28th and stays there.
        ("2026-01-31", FOUR_WEEK_TRIAL, True, ["2026-02-28", "2026-03-28", "2026-04-28"]),
    ],
)
def test_periods_end_as_the_calendar_says(start: str, product: Product, trial: bool, ends: list[str]) -> None:
    assert billed(start, product, len(ends) - 1, trial=trial) == ends


SUB = subscribed()
REFUNDED = actions.refund(SUB, NOON + DAY)
assert isinstance(REFUNDED, Subscription)


@pytest.mark.parametrize(
    ("subscription", "due"),
    [
        (SUB, END),
        (subscribed(trial=True), NOON + 7 * DAY),
        (actions.cancel(SUB, NOON), None),
        (actions.uncancel(actions.cancel(SUB, NOON), NOON), END),
        (actions.fail_billing(SUB, NOON), None),
        (actions.fail_billing(SUB, NOON, grace_days=3), None),
        (actions.recover_billing(actions.fail_billing(SUB, NOON), CATALOG, NOON), at("2026-03-15T12:00")),
        (actions.expire(SUB, NOON + 1), None),
        (REFUNDED, None),
        (actions.reverse_refund(REFUNDED, NOON + 2 * DAY), END),
        (actions.reverse_refund(REFUNDED, END), None),
        (actions.pause(SUB, NOON, END + DAY), END + DAY),
        (actions.extend(actions.pause(SUB, NOON, END + DAY), NOON, until=END + 5 * DAY), END + 5 * DAY),
        (actions.resume(actions.pause(SUB, NOON, END + DAY), CATALOG, NOON), END),
        (actions.extend(SUB, NOON, until=END + DAY), END + DAY),
        (actions.change_product(SUB, PRO_YEARLY, NOON, at_renewal=True), END),
        (actions.change_product(SUB, PRO_YEARLY, NOON, at_renewal=False), at("2027-01-15T12:00")),
        (replace(SUB, store="app_store"), None),
    ],
    ids=[
        "renewing",
        "on trial",
        "cancelled",
        "uncancelled",
        "failing",
        "in grace",
        "recovered",
        "expired",
        "refunded",
        "refund reversed in time",
        "refund reversed too late",
        "paused",
        "paused and extended beyond it",
        "resumed",
        "extended",
        "change at renewal",
        "changed now",
        "another store's",
    ],
)
def test_when_the_store_acts_by_itself(subscription: Subscription, due: Ms | None) -> None:
    assert due_at(subscription) == due
    if due is not None:
        assert pass_time(subscription, CATALOG, due - 1) is subscription
        after = pass_time(subscription, CATALOG, due)
        assert after.current.purchased_at == due
        assert after.current.number == subscription.current.number + 1


def test_after_a_trial_comes_the_full_price_as_a_conversion() -> None:
    after = pass_time(subscribed(trial=True), CATALOG, NOON + 7 * DAY).current
    assert (after.cause, after.period_type, after.price) == (Cause.CONVERSION, PeriodType.NORMAL, PRO_MONTHLY.price)


def test_a_subscriber_keeps_the_price_they_had_until_the_product_changes() -> None:
    dearer = replace(PRO_MONTHLY, price=Price(99_000_000, "USD"))
    catalog = Catalog({**CATALOG.products, dearer.id: dearer})
    assert pass_time(SUB, catalog, END).current.price == PRO_MONTHLY.price

    changing = actions.change_product(SUB, TEAM_MONTHLY, NOON, at_renewal=True)
    assert pass_time(changing, catalog, END).current.price == TEAM_MONTHLY.price


def test_what_was_said_last_is_said_later_also_within_one_millisecond() -> None:
    one = SUB
    for _ in range(3):
        moment = next_moment(one, NOON)
        assert moment > one.status.as_of
        one = replace(one, status=replace(one.status, as_of=moment))
    assert next_moment(one, NOON + 1) > one.status.as_of
    # Also where a clock was set back.
    assert next_moment(one, NOON - 1) > one.status.as_of


def test_renewing_into_what_is_gone_ends_the_subscription() -> None:
    gone = pass_time(SUB, Catalog(), END)
    assert gone.status.ended is not None
    assert due_at(gone) is None
    with pytest.raises(Refusal):
        actions.renew(gone, CATALOG, END)
