"""What is kept of the purchases of an erased customer, and what it means for an old receipt."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY
from latchkey.domain.purchases.ending import EndedBy, Ending, endings, still_ended
from latchkey.domain.purchases.purchase import MoneyBack, Purchase, Reason
from latchkey.domain.purchases.subscription import Cause, Moment, Subscription
from tests.domain.shop import NOON, bought, subscribed

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
