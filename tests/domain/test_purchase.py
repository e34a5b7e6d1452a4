"""One-time purchases, and what is kept of them when their customer was erased."""

import itertools

import pytest
from msgspec.structs import replace

from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import FREE
from latchkey.domain.purchases.lifecycle import EndedBy, Ending, endings, still_ended
from latchkey.domain.purchases.purchase import (
    Environment,
    Expired,
    MoneyBack,
    Purchase,
    PurchaseKind,
    Reason,
    observe_purchase,
    purchase_due_at,
    refunded_at,
    tick_purchase,
)
from latchkey.domain.purchases.subscription import Cause, Moment, Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.shop import NOON, PRO_LIFETIME, PRO_PASS, bought, subscribed

END = NOON + 10 * DAY
PASS = bought(PRO_PASS)
FOR_EVER = bought(PRO_LIFETIME)
GIVEN = Purchase(
    kind=PurchaseKind.PROMOTIONAL,
    store="promotional",
    id="gift",
    product_id="rc_promo_pro",
    environment=Environment.PRODUCTION,
    purchased_at=NOON,
    price=FREE,
    ends_at=END,
    entitlement_id="pro",
)

MONEY_BACK: list[tuple[tuple[MoneyBack, ...], Ms | None]] = [
    ((), None),
    ((MoneyBack(1),), 1),
    ((MoneyBack(1), MoneyBack(2, 1, reversal=True)), None),
    ((MoneyBack(1), MoneyBack(2, 1, reversal=True), MoneyBack(3, 2)), 3),
    ((MoneyBack(1, 0), MoneyBack(1, 1, reversal=True)), None),
]


@pytest.mark.parametrize(("facts", "expected"), MONEY_BACK)
def test_the_latest_fact_about_the_money_is_the_truth(facts: tuple[MoneyBack, ...], expected: Ms | None) -> None:
    assert refunded_at(facts) == expected


ENDS: list[tuple[str, Purchase, Ms | None, Ms | None, Reason | None]] = [
    ("for ever", FOR_EVER, None, None, None),
    ("with an end", PASS, END, END, Reason.UNKNOWN),
    ("refunded before its end", replace(PASS, money_back=(MoneyBack(NOON + 1),)), NOON + 1, None, None),
    ("refunded after its end", replace(PASS, money_back=(MoneyBack(END + 1),)), END, END, Reason.UNKNOWN),
    ("refunded though it had no end", replace(FOR_EVER, money_back=(MoneyBack(NOON + 1),)), NOON + 1, None, None),
    ("revoked", replace(GIVEN, revoked_at=NOON + 1), NOON + 1, NOON + 1, Reason.DEVELOPER_INITIATED),
    ("settled by the real purchase", replace(GIVEN, resolved_at=NOON + 1), NOON + 1, None, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("purchase", "access_ends_at", "due", "reason"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_when_access_ends_and_whether_that_is_told(
    purchase: Purchase, access_ends_at: Ms | None, due: Ms | None, reason: Reason | None
) -> None:
    assert purchase.access_ends_at == access_ends_at
    assert purchase_due_at(purchase) == due
    if due is None or reason is None:
        assert tick_purchase(purchase, END + 1_000 * DAY) is purchase
    else:
        assert tick_purchase(purchase, due - 1) is purchase
        ended = tick_purchase(purchase, due)
        assert ended.expired == Expired(purchase.id, due, reason)
        assert purchase_due_at(ended) is None


def test_a_purchase_is_observed_in_any_order_and_number() -> None:
    refunded = actions.refund(PASS, NOON + 1)
    restored = actions.reverse_refund(refunded, NOON + 2)
    for order in itertools.permutations([PASS, refunded, restored, PASS, refunded]):
        known: Purchase | None = None
        for one in order:
            assert isinstance(one, Purchase)
            known = observe_purchase(known, one)
        assert known == restored


def test_a_refund_after_the_end_is_told_and_the_end_not_again() -> None:
    book = Book.of(PASS)
    book.pass_time(END)
    told = book.take_in(actions.refund(book.customer.purchases[0], END + DAY), END + DAY)
    assert told == [EventType.REFUND]


def test_a_refund_that_was_reversed_lets_the_end_come_as_it_would_have() -> None:
    book = Book.of(PASS)
    book.take_in(actions.refund(book.customer.purchases[0], NOON + 1), NOON + 1)
    assert book.holds() == []
    assert book.take_in(actions.reverse_refund(book.customer.purchases[0], NOON + 2), NOON + 2) == [
        EventType.REFUND_REVERSED
    ]
    assert book.holds() == ["pro"]
    assert book.pass_time(END) == [EventType.EXPIRATION]


LATER = NOON + DAY


def ended(by: Reason | None) -> Subscription:
    shown = subscribed()
    return replace(shown, status=replace(shown.status, ended=by))


def replaced() -> Subscription:
    first = subscribed().current
    second = replace(first, id="two", purchased_at=LATER, cause=Cause.CHANGE, number=first.number + 1)
    return replace(subscribed(), periods=(replace(first, ends_at=LATER, as_of=Moment(LATER)), second))


@pytest.mark.parametrize(
    ("known", "kept"),
    [
        (bought(), []),
        (replace(bought(), money_back=(MoneyBack(LATER),), told_at=LATER), [EndedBy.REFUND]),
        (replace(bought(), money_back=(MoneyBack(NOON), MoneyBack(LATER, reversal=True))), []),
        (replace(bought(), revoked_at=LATER, told_at=LATER), [EndedBy.REVOCATION]),
        (subscribed(), []),
        (ended(Reason.UNSUBSCRIBE), []),
        (ended(Reason.UNKNOWN), [EndedBy.REVOCATION]),
        (replaced(), [EndedBy.REVOCATION]),
    ],
    ids=["bought", "refunded", "reversed", "revoked", "subscribed", "run out", "no longer shared", "upgraded"],
)
def test_only_what_was_taken_back_is_kept(known: Subscription | Purchase, kept: list[EndedBy]) -> None:
    assert [one.ended_by for one in endings(known)] == kept


def test_an_upgrade_leaves_nothing_of_the_period_before_it() -> None:
    old = still_ended(subscribed(), endings(replaced()))
    assert old.current.ends_at == LATER


@pytest.mark.parametrize("by", EndedBy)
def test_a_later_word_of_the_store_counts_more(by: EndedBy) -> None:
    shown = replace(bought(), told_at=LATER)
    assert still_ended(shown, [Ending(shown.id, by, NOON, LATER - 1)]) == shown
    assert still_ended(shown, [Ending(shown.id, by, NOON, LATER)]).access_ends_at == NOON
    subscription = subscribed()
    period = replace(subscription.current, as_of=Moment(LATER))
    subscription = replace(subscription, periods=(period,))
    assert still_ended(subscription, [Ending(period.id, by, NOON + 1, LATER - 1)]) == subscription
    assert still_ended(subscription, [Ending(period.id, by, NOON + 1, LATER)]).access_ends_at == NOON + 1
