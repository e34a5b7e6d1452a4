"""What a subscription is at a moment: one table, and that the explanation, the picture and the clock's page agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.customer import with_subscription
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import MoneyBack, Reason
from latchkey.domain.purchases.subscription import Moment, Pause, Status, Subscription
from latchkey.domain.purchases.summary import SubscriptionState, standing_of
from latchkey.domain.stores.test_store import actions
from latchkey.engine.due_transitions import at_present
from latchkey.subjects.customers.rules.explanation import explain
from latchkey.subjects.customers.rules.subscription_timeline import SpanKind, lives
from latchkey.subjects.test_clocks.page import WORDS, in_words
from tests.domain.lives import lives as any_lives
from tests.domain.shop import CATALOG, NOON, at, someone, subscribed
from tests.domain.test_properties_access import instants, state_at

END = at("2026-02-15T12:00")
GRACE = END + 6 * DAY
SUB = subscribed()


def stood(*refunds: Ms, **status: object) -> Subscription:
    """A month from NOON to END with this status. Of `refunds`, every second one is a reversal."""
    money_back = tuple(MoneyBack(one, number, reversal=number % 2 == 1) for number, one in enumerate(refunds))
    period = replace(SUB.current, money_back=money_back)
    made = Status(as_of=Moment(NOON + 1), **status)  # type: ignore[arg-type]  # fields of Status
    return replace(SUB, periods=(period,), status=made)


PAUSE = Pause(NOON, END + 30 * DAY)
FAILED: dict[str, object] = {"billing_issue_at": NOON + DAY}
FAILED_WITH_GRACE: dict[str, object] = FAILED | {"grace_ends_at": GRACE}
S = SubscriptionState

# Each with what it is while the paid time runs, in the grace period if it has one, and after access has ended.
TABLE: list[tuple[str, Subscription, SubscriptionState, SubscriptionState, SubscriptionState]] = [
    ("renewal on", stood(), S.RENEWS, S.OVERDUE, S.OVERDUE),
    ("renewal off", stood(auto_renew=False), S.ENDS, S.ENDED, S.ENDED),
    ("ended by the store", stood(ended=Reason.DEVELOPER_INITIATED), S.ENDS, S.ENDED, S.ENDED),
    ("payment failed, no grace", stood(**FAILED), S.PAYMENT_FAILED, S.BILLING_RETRY, S.BILLING_RETRY),
    ("payment failed, grace", stood(**FAILED_WITH_GRACE), S.PAYMENT_FAILED, S.IN_GRACE, S.BILLING_RETRY),
    ("payment failed, renewal off", stood(auto_renew=False, **FAILED), S.ENDS, S.ENDED, S.ENDED),
    ("grace, renewal off", stood(auto_renew=False, **FAILED_WITH_GRACE), S.ENDS, S.IN_GRACE, S.ENDED),
    ("grace, ended by the store", stood(ended=Reason.UNKNOWN, **FAILED_WITH_GRACE), S.ENDS, S.IN_GRACE, S.ENDED),
    (
        "a grace that ends before the paid time is none",
        stood(billing_issue_at=NOON, grace_ends_at=NOON + DAY),
        S.PAYMENT_FAILED,
        S.BILLING_RETRY,
        S.BILLING_RETRY,
    ),
    ("pause", stood(pause=PAUSE), S.PAUSES, S.PAUSED, S.PAUSED),
    ("pause, renewal off", stood(pause=PAUSE, auto_renew=False), S.ENDS, S.ENDED, S.ENDED),
    ("pause, payment failed", stood(pause=PAUSE, **FAILED), S.PAYMENT_FAILED, S.BILLING_RETRY, S.BILLING_RETRY),
    ("refunded", stood(NOON + DAY), S.REFUNDED, S.REFUNDED, S.REFUNDED),
    ("refunded, pause", stood(NOON + DAY, pause=PAUSE), S.REFUNDED, S.REFUNDED, S.REFUNDED),
    ("refund reversed", stood(NOON + DAY, NOON + 2 * DAY), S.RENEWS, S.OVERDUE, S.OVERDUE),
    ("refund dated ahead", stood(END), S.ENDS, S.REFUNDED, S.REFUNDED),
    ("refunded in the grace period", stood(END, **FAILED_WITH_GRACE), S.ENDS, S.REFUNDED, S.REFUNDED),
]


@pytest.mark.parametrize(
    ("subscription", "paid", "grace", "over"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_subscription_is(
    subscription: Subscription, paid: SubscriptionState, grace: SubscriptionState, over: SubscriptionState
) -> None:
    assert standing_of(subscription, NOON + 10 * DAY) is paid
    assert standing_of(subscription, END - 1) is paid
    assert standing_of(subscription, END) is grace
    assert standing_of(subscription, GRACE - 1) is grace
    assert standing_of(subscription, GRACE) is over


def test_the_table_has_every_standing() -> None:
    assert {one for row in TABLE for one in row[2:]} == set(SubscriptionState)
    assert WORDS.keys() == set(SubscriptionState)


def test_a_trial_stands_as_paid_time_does() -> None:
    trial = subscribed(trial=True)
    assert standing_of(trial, NOON) is S.RENEWS
    assert standing_of(actions.cancel(trial, NOON), NOON) is S.ENDS
    assert in_words(trial, NOON) == ("on trial, renews 2026-01-22 12:00 UTC", "accent")
    assert in_words(actions.cancel(trial, NOON), NOON) == ("on trial, ends 2026-01-22 12:00 UTC", "warn")


def test_a_pause_of_a_subscription_that_was_cancelled_does_not_come() -> None:
    cancelled = actions.cancel(actions.pause(SUB, NOON, PAUSE.resumes_at), NOON + DAY)
    assert in_words(cancelled, NOON + DAY) == ("ends 2026-02-15 12:00 UTC", "warn")
    assert in_words(cancelled, END) == ("ended 2026-02-15 12:00 UTC", "bad")


@pytest.mark.parametrize("moment", [NOON + 10 * DAY, END, GRACE])
@pytest.mark.parametrize("subscription", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_explanation_and_the_picture_say_the_same(subscription: Subscription, moment: Ms) -> None:
    customer = with_subscription(someone(), subscription)
    standing = standing_of(subscription, moment)
    said = explain(customer, CATALOG, "pro", moment)
    [life] = lives(customer, CATALOG, moment)
    drawn = {span.kind for span in life.spans if span.start <= moment and (span.end is None or span.end >= moment)}

    assert said.has_access is (subscription.access_ends_at > moment)
    assert (said.reason == "grace_period") is (standing is S.IN_GRACE)
    assert (said.reason == "paused") is (standing is S.PAUSED)
    assert (said.reason == "billing_retry") is (standing is S.BILLING_RETRY)
    if standing is S.PAUSED:
        assert SpanKind.PAUSE in drawn
    if standing is S.IN_GRACE:
        assert SpanKind.GRACE in drawn
    if standing in (S.ENDED, S.REFUNDED):
        assert not drawn & {SpanKind.PAUSE, SpanKind.RETRY}


@given(st.data())
def test_every_life_stands_as_its_access_does(data: st.DataObject) -> None:
    life = data.draw(any_lives())
    now = data.draw(instants(life))
    runs = {S.RENEWS, S.ENDS, S.PAUSES, S.PAYMENT_FAILED, S.IN_GRACE}
    for one in at_present(state_at(life.book, now), CATALOG, now).subscriptions:
        assert (standing_of(one, now) in runs) is (one.access_ends_at > now)
