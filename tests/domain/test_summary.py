"""What V2 says of a subscription at a moment: tables, and that its access is the access of V2's active entitlements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.promotion import grant, revoke
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import MoneyBack, Ownership, Purchase, PurchaseKind, Rate, Terms
from latchkey.domain.purchases.reference import issued
from latchkey.domain.purchases.revenue import Earned, Revenue, revenue
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription
from latchkey.domain.purchases.summary import (
    AutoRenewal,
    SubscriptionStatus,
    gives_access,
    granted_by,
    purchase_status,
    summary_of,
)
from latchkey.domain.stores.test_store import actions
from latchkey.engine.due_transitions import at_present
from tests.domain.lives import lives as any_lives
from tests.domain.shop import CATALOG, NOON, PRO_LIFETIME, PRO_PASS, TEAM_MONTHLY, bought, someone, subscribed
from tests.domain.test_properties_access import instants, state_at
from tests.domain.test_standing import END, FAILED, FAILED_WITH_GRACE, GRACE, PAUSE, SUB, stood

S, R = SubscriptionStatus, AutoRenewal
LATER = END + DAY

TABLE: list[tuple[str, Subscription, Ms, SubscriptionStatus, AutoRenewal, bool]] = [
    ("it renews", stood(), NOON, S.ACTIVE, R.WILL_RENEW, True),
    ("not reported yet", stood(), LATER, S.EXPIRED, R.WILL_RENEW, False),
    ("renewal off", stood(auto_renew=False), NOON, S.ACTIVE, R.WILL_NOT_RENEW, True),
    ("it has ended", stood(auto_renew=False), LATER, S.EXPIRED, R.WILL_NOT_RENEW, False),
    ("another product follows", stood(next_product_id="pro_yearly"), NOON, S.ACTIVE, R.WILL_CHANGE_PRODUCT, True),
    ("a pause follows", stood(pause=PAUSE), NOON, S.ACTIVE, R.WILL_PAUSE, True),
    ("paused", stood(pause=PAUSE), LATER, S.PAUSED, R.WILL_RENEW, False),
    ("a payment failed early", stood(**FAILED), NOON + 2 * DAY, S.ACTIVE, R.WILL_RENEW, True),
    ("grace", stood(**FAILED_WITH_GRACE), LATER, S.IN_GRACE_PERIOD, R.WILL_RENEW, True),
    ("billing retry", stood(**FAILED_WITH_GRACE), GRACE, S.IN_BILLING_RETRY, R.WILL_RENEW, False),
    ("refunded", stood(NOON + DAY), NOON + DAY, S.EXPIRED, R.WILL_NOT_RENEW, False),
    ("refund reversed", stood(NOON + DAY, NOON + 2 * DAY), NOON + 2 * DAY, S.ACTIVE, R.WILL_RENEW, True),
]


@pytest.mark.parametrize(("what", "subscription", "now", "status", "renewal", "access"), TABLE, ids=lambda one: one)
def test_status_renewal_and_access(
    what: str, subscription: Subscription, now: Ms, status: SubscriptionStatus, renewal: AutoRenewal, access: bool
) -> None:
    said = summary_of(subscription, CATALOG, now)
    assert (said.status, said.auto_renewal, said.gives_access) == (status, renewal, access), what


def test_a_trial_is_trialing_and_converts_into_active() -> None:
    trial = subscribed(trial=True)
    assert summary_of(trial, CATALOG, NOON).status is S.TRIALING
    paid = actions.renew(trial, CATALOG, NOON + DAY)
    assert summary_of(paid, CATALOG, NOON + DAY).status is S.ACTIVE


def test_a_refund_ends_the_period_where_it_ends_access() -> None:
    said = summary_of(stood(NOON + DAY), CATALOG, NOON + DAY)
    assert (said.period_ends_at, said.ends_at) == (NOON + DAY, NOON + DAY)


def test_a_grace_period_moves_access_and_not_the_paid_end() -> None:
    said = summary_of(stood(**FAILED_WITH_GRACE), CATALOG, LATER)
    assert (said.period_ends_at, said.gives_access) == (END, True)


def renewed_early() -> Subscription:
    """Apple charges up to a day before the end. The new period begins where the running one ends."""
    following = Period(
        id="next",
        number=1,
        cause=SUB.current.cause,
        product_id="team_monthly",
        period_type=PeriodType.NORMAL,
        purchased_at=END,
        ends_at=END + 28 * DAY,
        as_of=SUB.current.as_of,
        price=TEAM_MONTHLY.price,
    )
    return replace(SUB, periods=(SUB.current, following))


def test_a_subscription_that_has_already_renewed_shows_the_running_period_and_the_later_end() -> None:
    said = summary_of(renewed_early(), CATALOG, END - 1)
    assert said.auto_renewal is R.HAS_ALREADY_RENEWED
    assert (said.product_id, said.period_starts_at, said.period_ends_at) == ("pro_monthly", NOON, END)
    assert said.ends_at == END + 28 * DAY
    said = summary_of(renewed_early(), CATALOG, END)
    assert (said.auto_renewal, said.product_id, said.ends_at) == (R.WILL_RENEW, "team_monthly", END + 28 * DAY)


def test_what_still_runs_gives_access_although_the_period_after_it_was_refunded() -> None:
    early = renewed_early()
    refunded = replace(early.current, money_back=(MoneyBack(END - 10),))
    said = summary_of(replace(early, periods=(early.periods[0], refunded)), CATALOG, END - 1)
    assert (said.status, said.auto_renewal, said.gives_access) == (S.ACTIVE, R.WILL_NOT_RENEW, True)
    assert said.entitlement_ids == ("pro",)


def test_a_grant_is_a_subscription_without_product_that_does_not_renew() -> None:
    customer = grant(someone(), "pro", None, NOON)
    said = summary_of(customer.purchases[0], CATALOG, NOON)
    assert (said.status, said.auto_renewal, said.product_id) == (S.ACTIVE, R.WILL_NOT_RENEW, None)
    assert (said.period_ends_at, said.entitlement_ids) == (None, ("pro",))
    said = summary_of(revoke(customer, "pro", NOON + 1).purchases[0], CATALOG, NOON + 1)
    assert (said.status, said.period_ends_at, said.gives_access) == (S.EXPIRED, NOON + 1, False)


def test_a_prepaid_plan_is_a_subscription_with_a_product_that_does_not_renew() -> None:
    plan = replace(bought(PRO_PASS), store="play_store", product_id="pro_pass:prepaid")
    said = summary_of(plan, CATALOG, NOON)
    assert (said.status, said.auto_renewal, said.product_id) == (S.ACTIVE, R.WILL_NOT_RENEW, "pro_pass:prepaid")
    assert (said.period_ends_at, said.entitlement_ids) == (NOON + 10 * DAY, ("pro",))


def test_an_invoice_is_for_the_period_that_ran_when_it_was_issued() -> None:
    first = actions.issue_invoice(SUB, NOON)
    second = actions.issue_invoice(actions.renew(first, CATALOG, END), END + DAY)
    assert [(one.invoice.issued_at, one.period.number) for one in issued([second])] == [(NOON, 0), (END + DAY, 1)]


def test_a_purchase_is_owned_until_it_is_taken_back() -> None:
    one = bought(PRO_LIFETIME)
    assert purchase_status(one) == "owned"
    assert purchase_status(replace(one, money_back=(MoneyBack(NOON),))) == "refunded"
    assert purchase_status(replace(one, revoked_at=NOON)) == "refunded"


@given(st.data())
def test_all_subscriptions_and_purchases_together_give_what_v2_calls_active(data: st.DataObject) -> None:
    life = data.draw(any_lives())
    now = data.draw(instants(life))
    customer = at_present(state_at(life.book, now), CATALOG, now)
    # A temporary grant stands in for a purchase that the store has not confirmed: it is neither.
    known = [one for one in customer.purchases if one.kind is not PurchaseKind.TEMPORARY]
    everything: list[Subscription | Purchase] = [*customer.subscriptions, *known]
    granted = {id for one in everything if gives_access(one, now) for id in granted_by(one, CATALOG, now)}
    assert granted == set(active(replace(customer, purchases=tuple(known)), CATALOG, now))
    for one in customer.subscriptions:
        said = summary_of(one, CATALOG, now)
        over = {S.EXPIRED, S.IN_BILLING_RETRY, S.PAUSED}
        assert said.gives_access is (said.status not in over), said
        assert said.starts_at <= said.period_starts_at


# Money.


def test_revenue_is_what_was_paid_and_not_given_back() -> None:
    def by_currency(one: Subscription | Purchase) -> tuple[Earned, ...]:
        return revenue(one).by_currency

    paid = actions.renew(subscribed(), CATALOG, NOON + DAY)
    assert by_currency(paid) == (Earned("USD", 19_980_000),)
    refunded = actions.refund(paid, NOON + 2 * DAY)
    assert by_currency(refunded) == (Earned("USD", 9_990_000),)
    assert by_currency(replace(paid, ownership=Ownership.FAMILY_SHARED)) == ()
    assert by_currency(subscribed(trial=True)) == ()
    assert by_currency(bought(PRO_PASS)) == (Earned("EUR", 4_990_000),)
    assert by_currency(grant(someone(), "pro", None, NOON).purchases[0]) == ()


def test_revenue_in_usd_is_of_the_payments_that_could_be_converted() -> None:
    euros = bought(PRO_PASS)
    assert revenue(euros) == Revenue((Earned("EUR", 4_990_000),), Earned("USD", 0), 1)
    terms = Terms(Rate("1.1", "2026-01-08"), tax=0.2, commission=0.25)
    earned = revenue(replace(euros, terms=terms, given_back=990_000))
    assert earned.by_currency == (Earned("EUR", 4_000_000, 1_000_000, 800_000),)
    assert earned.usd == Earned("USD", 4_400_000, 1_100_000, 880_000)
    assert earned.usd.proceeds == 2_420_000
    assert earned.unconverted == 0
