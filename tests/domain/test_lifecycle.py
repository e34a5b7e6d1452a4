import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.purchases.lifecycle import RENEWAL_LEEWAY, due_at, observe, tick
from latchkey.domain.purchases.purchase import Expired, MoneyBack, Ownership, Purchase, Reason
from latchkey.domain.purchases.subscription import Moment, Pause, Status, Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain.shop import CATALOG, NOON, at, subscribed

END = at("2026-02-15T12:00")
SUB = subscribed()


def with_status(at: Ms = NOON + 1, **changes: object) -> Subscription:
    return replace(SUB, status=Status(as_of=Moment(at), **changes))  # type: ignore[arg-type]  # fields of Status


# When and why a subscription ends if its store sends nothing more.
ENDS: list[tuple[str, Subscription, Ms | None, Ms, Reason | None]] = [
    ("renewing, the store has its leeway", SUB, END + RENEWAL_LEEWAY, END, Reason.UNKNOWN),
    ("renewal off", with_status(auto_renew=False), END, END, Reason.UNSUBSCRIBE),
    (
        "renewal off by the developer",
        with_status(auto_renew=False, renewal_off_reason=Reason.DEVELOPER_INITIATED),
        END,
        END,
        Reason.DEVELOPER_INITIATED,
    ),
    ("payment failed, no grace", with_status(billing_issue_at=NOON), END, END, Reason.BILLING_ERROR),
    (
        "payment failed, in grace",
        with_status(billing_issue_at=NOON, grace_ends_at=END + 6 * DAY),
        END + 6 * DAY,
        END + 6 * DAY,
        Reason.BILLING_ERROR,
    ),
    (
        "a grace that ends before the paid time is none",
        with_status(billing_issue_at=NOON, grace_ends_at=NOON + DAY),
        END,
        END,
        Reason.BILLING_ERROR,
    ),
    ("a pause begins", with_status(pause=Pause(NOON, END + DAY)), END, END, Reason.SUBSCRIPTION_PAUSED),
    ("the store says it is over", with_status(ended=Reason.PRICE_INCREASE), END, END, Reason.PRICE_INCREASE),
    (
        "cancelled while paying failed",
        with_status(auto_renew=False, billing_issue_at=NOON, renewal_off_reason=Reason.UNSUBSCRIBE),
        END,
        END,
        Reason.UNSUBSCRIBE,
    ),
]


@pytest.mark.parametrize(
    ("subscription", "due", "end", "reason"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_time_ends_access_for_a_reason(subscription: Subscription, due: Ms, end: Ms, reason: Reason) -> None:
    assert due_at(subscription) == due
    assert tick(subscription, due - 1) is subscription

    ended = tick(subscription, due)

    assert ended.expired == Expired("sub.0", end, reason)
    assert due_at(ended) is None
    assert tick(ended, due + DAY) is ended


def test_a_refund_before_the_end_ends_in_silence() -> None:
    refunded = actions.refund(SUB, NOON + DAY)
    assert isinstance(refunded, Subscription)
    assert due_at(refunded) is None
    assert refunded.access_ends_at == NOON + DAY


LATER = END + 28 * DAY
EARLY: list[tuple[str, Ms, Ms, Ms | None, Ms | None]] = [
    ("the period before still runs", END - DAY, END - HOUR, None, END),
    ("the period before is over", END - DAY, END + DAY, None, None),
    ("the period before ends at that moment", END - DAY, END, None, None),
    ("the period before was refunded too", END - 2 * DAY, END - DAY, END - HOUR, END - HOUR),
    ("the period before was refunded earlier", END - 2 * DAY, END - DAY, END - 2 * DAY, None),
]


@pytest.mark.parametrize(
    ("renewed_at", "refunded_at", "first_refunded_at", "ends_at"),
    [row[1:] for row in EARLY],
    ids=[row[0] for row in EARLY],
)
def test_after_the_refund_of_an_early_renewal_the_end_of_the_period_before_is_told(
    renewed_at: Ms, refunded_at: Ms, first_refunded_at: Ms | None, ends_at: Ms | None
) -> None:
    first = SUB.current
    if first_refunded_at is not None:
        first = replace(first, money_back=(MoneyBack(first_refunded_at),))
    renewal = replace(SUB.current, id="sub.1", number=1, purchased_at=renewed_at, ends_at=LATER)
    for status in (SUB.status, Status(as_of=Moment(refunded_at), auto_renew=False)):
        renewed = replace(SUB, periods=(first, renewal), status=status)
        refunded = replace(renewed, periods=(first, replace(renewal, money_back=(MoneyBack(refunded_at),))))
        for told in (refunded, observe(tick(renewed, LATER + DAY), refunded)):
            expired = tick(told, LATER + DAY).expired
            assert (None if expired is None else expired.at) == ends_at
            leeway = RENEWAL_LEEWAY if status.auto_renew else 0
            assert due_at(told) == (None if ends_at is None else ends_at + leeway)


def test_a_refund_after_the_end_leaves_the_end_where_it_was() -> None:
    period = replace(SUB.current, money_back=(MoneyBack(END + DAY),))
    refunded = replace(with_status(auto_renew=False), periods=(period,))
    assert refunded.access_ends_at == END
    assert due_at(refunded) == END


# Observing.


def test_the_first_word_is_taken_as_it_is_but_in_order() -> None:
    later = replace(SUB.current, id="sub.1", number=1, purchased_at=END, ends_at=END + 30 * DAY)
    seen = replace(SUB, periods=(later, SUB.current))
    assert [one.id for one in observe(None, seen).periods] == ["sub.0", "sub.1"]


def test_a_revision_orders_what_was_said_in_one_millisecond() -> None:
    first = replace(SUB, status=Status(as_of=Moment(NOON, 1), auto_renew=False))
    second = replace(SUB, status=Status(as_of=Moment(NOON, 2)))
    assert observe(first, second).status == observe(second, first).status == second.status


def test_ownership_follows_the_newest_status() -> None:
    shared = replace(with_status(NOON + 5), ownership=Ownership.FAMILY_SHARED)
    assert observe(SUB, shared).ownership is Ownership.FAMILY_SHARED
    assert observe(shared, SUB).ownership is Ownership.FAMILY_SHARED


# Late snapshots after an end was marked.

CANCELLED = actions.cancel(SUB, NOON + DAY)
ENDED = tick(CANCELLED, END)


LATE: list[tuple[str, Subscription, bool]] = [
    ("a renewal", actions.renew(SUB, CATALOG, END), True),
    ("an extension", actions.extend(CANCELLED, NOON + 2 * DAY, until=END + DAY), True),
    ("renewal was on again", actions.uncancel(CANCELLED, NOON + 2 * DAY), True),
    ("the cancellation itself, again", CANCELLED, False),
    ("the purchase itself, again", SUB, False),
    ("an invoice", actions.issue_invoice(CANCELLED, NOON + 2 * DAY), False),
]


@pytest.mark.parametrize(("late", "open_again"), [row[1:] for row in LATE], ids=[row[0] for row in LATE])
def test_a_late_word_opens_an_end_again_only_if_it_bears_on_it(late: Subscription, open_again: bool) -> None:
    assert (observe(ENDED, late).expired is None) is open_again


def test_a_late_refund_before_the_end_takes_its_place() -> None:
    refunded = actions.refund(CANCELLED, NOON + 2 * DAY)
    assert isinstance(refunded, Subscription)
    after = tick(observe(ENDED, refunded), END + DAY)
    assert after.expired is None
    assert after.access_ends_at == NOON + 2 * DAY


def test_a_late_cancellation_corrects_the_reason_of_an_end() -> None:
    unexplained = tick(SUB, END + RENEWAL_LEEWAY)
    assert unexplained.expired == Expired("sub.0", END, Reason.UNKNOWN)

    explained = tick(observe(unexplained, CANCELLED), END + RENEWAL_LEEWAY)

    assert explained.expired == Expired("sub.0", END, Reason.UNSUBSCRIBE)


def test_a_late_cancellation_does_not_revive_an_expired_user() -> None:
    ended = tick(actions.expire(SUB, NOON + 2 * DAY), NOON + 2 * DAY)
    after = tick(observe(ended, CANCELLED), NOON + 3 * DAY)
    assert after.access_ends_at == NOON + 2 * DAY
    assert after.expired == ended.expired


def test_a_late_word_that_renewal_was_on_gives_the_store_its_leeway_again() -> None:
    on_again = observe(ENDED, actions.uncancel(CANCELLED, NOON + 2 * DAY))
    assert due_at(on_again) == END + RENEWAL_LEEWAY
    assert tick(on_again, END + HOUR).expired is None


# Grace.


FAILING = actions.fail_billing(SUB, NOON + DAY, grace_days=6)

GRACE: list[tuple[str, Subscription | Purchase, bool, Ms]] = [
    ("with grace", FAILING, True, END + 6 * DAY),
    ("without grace", actions.fail_billing(SUB, NOON + DAY), False, END),
    ("refunded", actions.refund(FAILING, NOON + 2 * DAY), False, NOON + 2 * DAY),
    ("refunded in it", actions.refund(FAILING, END + 2 * DAY), False, END + 2 * DAY),
    ("refunded when it was over", actions.refund(FAILING, END + 9 * DAY), True, END + 6 * DAY),
    ("recovered", actions.recover_billing(FAILING, CATALOG, END + DAY), False, at("2026-03-15T12:00")),
    ("ended in it", actions.expire(FAILING, END + 2 * DAY), True, END + 2 * DAY),
    ("ended before it", actions.expire(FAILING, NOON + 2 * DAY), False, NOON + 2 * DAY),
    ("extended beyond it", actions.extend(FAILING, NOON + DAY, until=END + 9 * DAY), False, END + 9 * DAY),
]


@pytest.mark.parametrize(
    ("after", "in_grace", "access_ends_at"), [row[1:] for row in GRACE], ids=[row[0] for row in GRACE]
)
def test_grace_moves_access_and_leaves_the_paid_end(after: Subscription, in_grace: bool, access_ends_at: Ms) -> None:
    assert after.in_grace is in_grace
    assert after.access_ends_at == access_ends_at
