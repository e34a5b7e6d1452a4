"""Every action of the test store in every state: it does what it says, or it refuses and says why."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, with_purchase, with_subscription
from latchkey.domain.customers.promotion import grant
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment, Purchase, Reason
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store import actions, billing
from tests.domain.book import Book
from tests.domain.shop import (
    CATALOG,
    COINS,
    NOON,
    PRO_LIFETIME,
    PRO_MONTHLY,
    PRO_PASS,
    PRO_YEARLY,
    TEAM_MONTHLY,
    at,
    bought,
    owner_of,
    someone,
    subscribed,
)

END = at("2026-02-15T12:00")
SANDBOX, PRODUCTION = Environment.SANDBOX, Environment.PRODUCTION


@dataclass(frozen=True)
class State:
    subscription: Subscription
    now: Ms = NOON + 2 * DAY


def a_refund(one: Subscription, now: Ms) -> Subscription:
    refunded = actions.refund(one, now)
    assert isinstance(refunded, Subscription)
    return refunded


def a_reversal(one: Subscription, now: Ms) -> Subscription:
    restored = actions.reverse_refund(one, now)
    assert isinstance(restored, Subscription)
    return restored


SUB = subscribed()
CANCELLED = actions.cancel(SUB, NOON + DAY)
FAILING = actions.fail_billing(SUB, NOON + DAY)
PAUSED = actions.pause(SUB, NOON + DAY, END + 20 * DAY)
REFUNDED = a_refund(SUB, NOON + DAY)
CHANGED = actions.change_product(SUB, TEAM_MONTHLY, NOON + DAY, at_renewal=False)

STATES = {
    "running": State(SUB),
    "on trial": State(subscribed(trial=True)),
    "cancelled": State(CANCELLED),
    "failing": State(FAILING),
    "in grace": State(actions.fail_billing(SUB, NOON + DAY, grace_days=6), END + DAY),
    "in billing retry": State(FAILING, END + DAY),
    "failing and cancelled": State(actions.cancel(FAILING, NOON + DAY)),
    "pause scheduled": State(PAUSED),
    "pause scheduled and cancelled": State(actions.cancel(PAUSED, NOON + DAY)),
    "paused": State(PAUSED, END + DAY),
    "refunded": State(REFUNDED),
    "refunded and paused": State(a_refund(PAUSED, NOON + DAY), END + DAY),
    "refund reversed too late to renew": State(a_reversal(REFUNDED, END + DAY), END + DAY),
    "ended": State(actions.expire(SUB, NOON + DAY)),
    "run out": State(CANCELLED, END),
    "change pending": State(actions.change_product(SUB, PRO_YEARLY, NOON + DAY, at_renewal=True)),
    "renewing into what is gone": State(actions.renew(SUB, Catalog(), NOON + DAY)),
}

RUNNING = {
    "running",
    "on trial",
    "cancelled",
    "failing",
    "failing and cancelled",
    "in grace",
    "pause scheduled",
    "pause scheduled and cancelled",
    "change pending",
    "renewing into what is gone",
}
RENEWING = {"running", "on trial", "change pending"}
OFF = {"cancelled", "failing and cancelled", "pause scheduled and cancelled"}

ACTIONS: dict[str, tuple[Callable[[State], Subscription | Purchase], set[str]]] = {
    "renew": (lambda s: actions.renew(s.subscription, CATALOG, s.now), RENEWING),
    "cancel": (lambda s: actions.cancel(s.subscription, s.now), RUNNING - OFF),
    "uncancel": (lambda s: actions.uncancel(s.subscription, s.now), OFF),
    "fail_billing": (lambda s: actions.fail_billing(s.subscription, s.now, 3), RENEWING),
    "recover_billing": (
        lambda s: actions.recover_billing(s.subscription, CATALOG, s.now),
        {"failing", "in grace", "in billing retry"},
    ),
    "expire": (lambda s: actions.expire(s.subscription, s.now), RUNNING),
    "refund": (
        lambda s: actions.refund(s.subscription, s.now),
        STATES.keys() - {"on trial", "refunded", "refunded and paused"},
    ),
    "reverse_refund": (
        lambda s: actions.reverse_refund(s.subscription, s.now),
        {"refunded", "refunded and paused"},
    ),
    "change_product now": (
        lambda s: actions.change_product(s.subscription, TEAM_MONTHLY, s.now, at_renewal=False),
        RUNNING,
    ),
    "change_product at renewal": (
        lambda s: actions.change_product(s.subscription, TEAM_MONTHLY, s.now, at_renewal=True),
        RENEWING,
    ),
    "pause": (lambda s: actions.pause(s.subscription, s.now, END + 30 * DAY), RENEWING),
    "resume": (lambda s: actions.resume(s.subscription, CATALOG, s.now), {"pause scheduled", "paused"}),
    "extend": (lambda s: actions.extend(s.subscription, s.now, until=END + 3 * DAY), RUNNING),
    "issue_invoice": (lambda s: actions.issue_invoice(s.subscription, s.now), set(STATES)),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_does_something_or_says_why_it_makes_no_sense(action: str, state: str) -> None:
    do, sensible = ACTIONS[action]
    situation = STATES[state]
    if state in sensible:
        assert do(situation) != situation.subscription
    else:
        with pytest.raises(Refusal) as refused:
            do(situation)
        assert refused.value.message.endswith(".")
        assert refused.value.param == "action"


# What each does.


def test_renewing_early_adds_a_period_to_the_paid_time() -> None:
    after = actions.renew(SUB, CATALOG, NOON + DAY)
    assert [(one.purchased_at, one.ends_at) for one in after.periods] == [
        (NOON, NOON + DAY),
        (NOON + DAY, at("2026-03-15T12:00")),
    ]


def test_after_renewing_early_one_period_runs_and_what_ends_it_ends_access() -> None:
    renewed = actions.renew(SUB, CATALOG, NOON + DAY)
    recovered = actions.recover_billing(FAILING, CATALOG, NOON + 2 * DAY)
    changed = actions.change_product(subscribed(TEAM_MONTHLY), PRO_MONTHLY, NOON + DAY, at_renewal=True)
    now = NOON + 3 * DAY
    for one in (
        actions.expire(renewed, now),
        actions.expire(recovered, now),
        a_refund(renewed, now),
        a_refund(recovered, now),
    ):
        assert active(with_subscription(someone(), one), CATALOG, now) == {}
    back = with_subscription(someone(), a_reversal(a_refund(renewed, now), now))
    assert active(back, CATALOG, now)["pro"].ends_at == at("2026-03-15T12:00")
    # The next product comes with the next period, not beside the last one.
    next_one = with_subscription(someone(), actions.renew(changed, CATALOG, now))
    assert set(active(next_one, CATALOG, now)) == {"pro"}


def test_what_cannot_renew_is_told_what_would_help() -> None:
    for one, now, help in (
        (CANCELLED, NOON + 2 * DAY, "use uncancel first"),
        (CANCELLED, END, "make a new purchase"),
        (actions.expire(SUB, NOON + DAY), NOON + 2 * DAY, "make a new purchase"),
    ):
        with pytest.raises(Refusal, match=help):
            actions.renew(one, CATALOG, now)


def test_renewing_takes_the_next_product() -> None:
    after = actions.renew(STATES["change pending"].subscription, CATALOG, NOON + 2 * DAY)
    assert (after.current.product_id, after.current.cause) == ("pro_yearly", Cause.RENEWAL)
    assert after.status.next_product_id is None


def test_cancelling_keeps_access_and_says_when_and_why() -> None:
    assert CANCELLED.access_ends_at == END
    assert (CANCELLED.status.renewal_off_at, CANCELLED.status.renewal_off_reason) == (NOON + DAY, Reason.UNSUBSCRIBE)
    assert actions.cancel(SUB, NOON, Reason.PRICE_INCREASE).status.renewal_off_reason is Reason.PRICE_INCREASE


@pytest.mark.parametrize(("days", "ends_at"), [(0, None), (3, END + 3 * DAY), (16, END + 16 * DAY)])
def test_grace_is_counted_from_the_paid_end(days: int, ends_at: Ms | None) -> None:
    assert actions.fail_billing(SUB, NOON + DAY, days).status.grace_ends_at == ends_at


@pytest.mark.parametrize(
    ("state", "begins"),
    [("failing", END), ("in grace", END), ("in billing retry", END + DAY)],
)
def test_a_recovered_period_follows_the_paid_one_unless_access_was_lost_meanwhile(state: str, begins: Ms) -> None:
    situation = STATES[state]
    after = actions.recover_billing(situation.subscription, CATALOG, situation.now)
    assert after.current.ends_at == begins + 28 * DAY
    assert after.status.billing_issue_at is None


def test_after_a_grace_period_longer_than_the_product_the_recovered_period_begins_with_the_payment() -> None:
    failing = actions.fail_billing(SUB, NOON + DAY, grace_days=60)
    now = END + 40 * DAY
    assert failing.access_ends_at > now
    after = actions.recover_billing(failing, CATALOG, now)
    assert (after.current.starts_at, after.access_ends_at) == (now, at("2026-04-27T12:00"))
    # The store goes on from there, and does not renew in the past.
    assert billing.due_at(after) == after.current.ends_at


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("running", Reason.UNSUBSCRIBE),
        ("cancelled", Reason.UNSUBSCRIBE),
        ("failing", Reason.BILLING_ERROR),
        ("in grace", Reason.BILLING_ERROR),
        ("pause scheduled", Reason.UNSUBSCRIBE),
    ],
)
def test_ending_now_ends_access_now_for_the_reason_at_hand(state: str, reason: Reason) -> None:
    situation = STATES[state]
    after = actions.expire(situation.subscription, situation.now)
    assert after.access_ends_at == situation.now
    assert after.status.ended is reason
    assert actions.expire(situation.subscription, situation.now, Reason.CUSTOMER_SUPPORT).status.ended is (
        Reason.CUSTOMER_SUPPORT
    )


def test_changing_now_ends_the_old_period_and_begins_a_paid_one() -> None:
    after = actions.change_product(CANCELLED, TEAM_MONTHLY, NOON + 2 * DAY, at_renewal=False)
    old, new = after.periods
    assert old.ends_at == new.purchased_at == NOON + 2 * DAY
    assert (new.cause, new.changed_from, new.price) == (Cause.CHANGE, "pro_monthly", TEAM_MONTHLY.price)
    assert new.ends_at == at("2026-02-17T12:00")
    # A change of product turns renewal on again.
    assert after.status.auto_renew


def test_changing_now_in_a_grace_period_does_not_extend_what_was_paid() -> None:
    situation = STATES["in grace"]
    book = Book.of(situation.subscription)
    book.pass_time(situation.now)
    changed = actions.change_product(book.subscription, TEAM_MONTHLY, situation.now, at_renewal=False)
    assert book.take_in(changed) == [EventType.PRODUCT_CHANGE]
    old, new = book.subscription.periods
    assert (old.ends_at, new.purchased_at, list(book.holds())) == (END, situation.now, ["pro", "team"])


@pytest.mark.parametrize(
    ("product_id", "at_renewal", "says"),
    [
        ("pro_monthly", False, "is 'pro_monthly' already"),
        ("pro_monthly", True, "next period is 'pro_monthly' already"),
        ("pro_lifetime", False, "is not a subscription"),
        ("coins_100", True, "is not a subscription"),
    ],
)
def test_a_change_into_the_same_or_into_no_subscription_is_refused(
    product_id: str, at_renewal: bool, says: str
) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        actions.change_product(SUB, CATALOG.products[product_id], NOON, at_renewal=at_renewal)
    assert refused.value.param == "new_product_id"


def test_a_pending_change_is_called_off_by_choosing_the_present_product() -> None:
    pending = STATES["change pending"].subscription
    assert actions.change_product(pending, PRO_MONTHLY, NOON + 2 * DAY, at_renewal=True).status.next_product_id is None
    with pytest.raises(Refusal, match="next period is 'pro_yearly' already"):
        actions.change_product(pending, PRO_YEARLY, NOON + 2 * DAY, at_renewal=True)


@pytest.mark.parametrize("resumes_at", [END, END - 1, NOON])
def test_a_pause_that_would_end_before_it_begins_is_refused(resumes_at: Ms) -> None:
    with pytest.raises(Refusal, match="A pause begins when the current period ends") as refused:
        actions.pause(SUB, NOON, resumes_at)
    assert refused.value.param == "resume_at_ms"


def test_resuming_early_lifts_the_pause_and_resuming_late_bills_from_then() -> None:
    early = actions.resume(PAUSED, CATALOG, NOON + 2 * DAY)
    assert (early.status.pause, len(early.periods)) == (None, 1)

    late = actions.resume(PAUSED, CATALOG, END + DAY)
    assert (late.current.purchased_at, late.current.ends_at) == (END + DAY, at("2026-03-16T12:00"))


@pytest.mark.parametrize("until", [END, END - DAY])
def test_an_extension_that_extends_nothing_is_refused(until: Ms) -> None:
    with pytest.raises(Refusal, match="already runs until 2026-02-15 12:00:00 UTC"):
        actions.extend(SUB, NOON, until=until)


def test_an_invoice_is_over_the_running_period_and_has_a_number_of_its_own() -> None:
    one = actions.issue_invoice(SUB, NOON)
    two = actions.issue_invoice(one, NOON)
    assert [(invoice.id, invoice.total) for invoice in two.invoices] == [
        ("sub.invoice.1", PRO_MONTHLY.price),
        ("sub.invoice.2", PRO_MONTHLY.price),
    ]


# Buying.


def buying(customer: Customer, product_id: str, now: Ms = NOON, *, trial: bool = False) -> Subscription | Purchase:
    return actions.buy(customer, CATALOG.products[product_id], now, id="new", environment=SANDBOX, trial=trial)


REFUSED: list[tuple[str, Customer, str, bool, Ms, str]] = [
    ("subscribed", owner_of(SUB), "pro_monthly", False, NOON + DAY, "is subscribed to 'pro_monthly' already"),
    ("cancelled", owner_of(CANCELLED), "pro_monthly", False, END - 1, "is subscribed to 'pro_monthly' already"),
    ("trial twice", owner_of(subscribed(trial=True)), "pro_monthly", True, END, "has used the trial"),
    ("no trial", someone(), "pro_yearly", True, NOON, "has no trial on offer"),
    ("no trial of a one-time product", someone(), "pro_lifetime", True, NOON, "has no trial on offer"),
    ("owned", owner_of(bought(PRO_LIFETIME)), "pro_lifetime", False, END, "owns 'pro_lifetime' already"),
    ("pass runs", owner_of(bought(PRO_PASS)), "pro_pass", False, NOON + 10 * DAY - 1, "owns 'pro_pass' already"),
]


@pytest.mark.parametrize(
    ("customer", "product_id", "trial", "now", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_one_has_cannot_be_bought_again(
    customer: Customer, product_id: str, trial: bool, now: Ms, says: str
) -> None:
    with pytest.raises(Refusal, match=says):
        buying(customer, product_id, now, trial=trial)


AGAIN: list[tuple[str, Customer, str, Ms]] = [
    ("after it ran out", owner_of(CANCELLED), "pro_monthly", END),
    ("after a refund", owner_of(REFUNDED), "pro_monthly", NOON + DAY),
    ("another product beside it", owner_of(SUB), "pro_yearly", NOON + DAY),
    ("the product changed away from", owner_of(CHANGED), "pro_monthly", NOON + DAY),
    ("a pass after it ran out", owner_of(bought(PRO_PASS)), "pro_pass", NOON + 10 * DAY),
    ("a refunded lifetime", owner_of(actions.refund(bought(PRO_LIFETIME), NOON)), "pro_lifetime", NOON),
    ("coins as often as one likes", owner_of(bought(COINS)), "coins_100", NOON),
    ("a lifetime beside a gift", grant(someone(), "pro", None, NOON), "pro_lifetime", NOON),
]


@pytest.mark.parametrize(("customer", "product_id", "now"), [row[1:] for row in AGAIN], ids=[row[0] for row in AGAIN])
def test_what_one_does_not_have_any_more_can_be_bought_again(customer: Customer, product_id: str, now: Ms) -> None:
    assert buying(customer, product_id, now).id == "new"


def test_who_lives_on_a_test_clock_buys_in_the_sandbox_only() -> None:
    customer = someone(test_clock_id="clock")
    for buy in (actions.buy, actions.store_outage):
        assert buy(customer, PRO_MONTHLY, NOON, id="new", environment=SANDBOX)
        with pytest.raises(Refusal, match="SANDBOX") as refused:
            buy(customer, PRO_MONTHLY, NOON, id="new", environment=PRODUCTION)
        assert refused.value.param == "environment"


# One-time purchases and outages.


def test_a_one_time_purchase_is_refunded_once_and_reversed_once() -> None:
    refunded = actions.refund(bought(), NOON + 1)
    with pytest.raises(Refusal, match="refunded already"):
        actions.refund(refunded, NOON + 2)
    restored = actions.reverse_refund(refunded, NOON + 2)
    with pytest.raises(Refusal, match="Nothing was refunded"):
        actions.reverse_refund(restored, NOON + 3)


def test_a_trial_has_no_money_to_give_back() -> None:
    with pytest.raises(Refusal, match="was free"):
        actions.refund(subscribed(trial=True), NOON)


def outage(customer: Customer, product_id: str, now: Ms = NOON) -> Purchase:
    return actions.store_outage(customer, CATALOG.products[product_id], now, id="meanwhile", environment=SANDBOX)


def test_an_outage_of_what_grants_nothing_or_of_what_runs_already_is_refused() -> None:
    with pytest.raises(Refusal, match="grants no entitlement"):
        outage(someone(), "coins_100")
    customer = with_purchase(someone(), outage(someone(), "pro_monthly"))
    with pytest.raises(Refusal, match="running already"):
        outage(customer, "pro_monthly", NOON + DAY - 1)
    assert outage(customer, "pro_yearly")
    assert outage(customer, "pro_monthly", NOON + DAY)


# Finding.


def test_the_newest_purchase_of_a_product_is_found() -> None:
    older = actions.expire(subscribed(id="older"), NOON + DAY)
    newer = subscribed(now=NOON + 2 * DAY, id="newer")
    customer = owner_of(older, newer, bought(PRO_LIFETIME, id="life"))
    assert actions.find(customer, "pro_monthly").id == "newer"
    assert actions.find(customer, "pro_lifetime").id == "life"
    assert actions.find(customer, None).id == "newer"


@pytest.mark.parametrize(
    ("customer", "product_id", "says"),
    [
        (someone(), None, "has bought nothing"),
        (owner_of(SUB), "pro_yearly", "has not bought 'pro_yearly'"),
        (owner_of(replace(SUB, store="app_store")), "pro_monthly", "has not bought 'pro_monthly'"),
        (grant(someone(), "pro", None, NOON), None, "has bought nothing"),
        (with_purchase(someone(), outage(someone(), "pro_monthly")), "pro_monthly", "has not bought 'pro_monthly'"),
    ],
)
def test_what_was_not_bought_in_the_test_store_is_not_found(
    customer: Customer, product_id: str | None, says: str
) -> None:
    with pytest.raises(Refusal, match=says):
        actions.find(customer, product_id)
