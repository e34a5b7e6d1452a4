"""Whatever the order and number of times in which the snapshots of a life are sent, the result is the same."""

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from latchkey.domain.charts.period_rows import PeriodRow, rows_of
from latchkey.domain.customers.customer import Customer
from latchkey.domain.events.customer_event import Event, EventType
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.purchases.purchase import MoneyBack, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Moment, Period, Subscription
from latchkey.domain.refusal import NotFound
from latchkey.engine.changes import Situation
from latchkey.subjects.purchases.api.snapshot_bodies import NewSnapshot, SentSubscription
from latchkey.subjects.purchases.usecases.external_snapshots import ExternalSnapshot, applied
from tests.domain.book import MONEY, Book
from tests.domain.lives import Life, lives
from tests.domain.shop import NOON
from tests.http.client import NOW
from tests.stores.external.bodies import MONTH, payments, period, subscription

DELAYS = st.sampled_from((0, 1_000, HOUR, 2 * DAY, 40 * DAY))
CAUSES = {Cause.CHANGE: "change", Cause.RENEWAL: "renewal", Cause.CONVERSION: "renewal"}


def body_of(seen: Subscription | Purchase, as_of: Ms, announced: frozenset[str] = frozenset()) -> NewSnapshot:
    """As a server would tell it that knows everything. `announced`: the periods that began with a change which had been
    announced for the end of the period before. They are renewals."""
    said: dict[str, Any]
    if isinstance(seen, Subscription):
        status = seen.status
        told = {
            "unsubscribe_detected_at": None if status.auto_renew else status.renewal_off_at,
            "cancellation_reason": None if status.auto_renew else status.renewal_off_reason,
            "next_product_id": status.next_product_id,
            "billing_issues_detected_at": status.billing_issue_at,
            "grace_period_expires_at": status.grace_ends_at if status.billing_issue_at is not None else None,
            "paused_at": status.pause.asked_at if status.pause is not None else None,
            "auto_resume_at": status.pause.resumes_at if status.pause is not None else None,
            "ended_reason": status.ended,
        }
        periods = [_period(period) for period in seen.periods]
        periods = [{**one, "cause": "renewal"} if one["transaction_id"] in announced else one for one in periods]
        said = {
            "subscription": {
                "store_subscription_identifier": seen.id,
                "periods": periods,
                "auto_renew": status.auto_renew,
                **told,
            }
        }
    else:
        said = {
            "purchase": {
                "store_purchase_identifier": seen.id,
                "product_id": seen.product_id,
                "purchased_at": seen.purchased_at,
                "expires_at": seen.ends_at,
                "price": seen.price.amount,
                "currency": seen.price.currency,
                **_money_back(seen.money_back),
            }
        }
    return NewSnapshot.model_validate_json(json.encode({"store": "paddle", "as_of": as_of, **said}))


def _period(one: Period) -> dict[str, Any]:
    return {
        "transaction_id": one.id,
        "product_id": one.product_id,
        "period_type": one.period_type,
        "cause": CAUSES.get(one.cause, "purchase"),
        "purchased_at": one.purchased_at,
        "starts_at": one.paid_from,
        # The test store may sell a period and change it within one millisecond.
        "expires_at": max(one.ends_at, one.purchased_at + 1),
        "price": one.price.amount,
        "currency": one.price.currency,
        **_money_back(one.money_back),
    }


def _money_back(facts: tuple[MoneyBack, ...]) -> dict[str, Any]:
    refunds = [fact.at for fact in facts if not fact.reversal]
    reversals = [fact.at for fact in facts[-1:] if fact.reversal]
    return {
        "refunded_at": refunds[-1] if refunds else None,
        "refund_reversed_at": reversals[-1] if reversals else None,
    }


def snapshots_of(life: Life) -> list[tuple[Ms, NewSnapshot]]:
    """One for each moment: a server that sends two of the same moment sends the last state in both."""
    last: dict[tuple[Ms, str], NewSnapshot] = {}
    before: dict[str, Subscription] = {}
    announced: frozenset[str] = frozenset()
    for at, seen in life.snapshots:
        if isinstance(seen, Subscription):
            if seen.id in before and _as_announced(before[seen.id], seen.current):
                announced |= {seen.current.id}
            before[seen.id] = seen
        if isinstance(seen, Subscription) or seen.kind is PurchaseKind.ONE_TIME:
            last[at, seen.id] = body_of(seen, at, announced)
    return [(at, one) for (at, _), one in last.items()]


def _as_announced(before: Subscription, period: Period) -> bool:
    at_its_end = period.purchased_at >= before.current.ends_at - HOUR
    return period.id != before.current.id and period.product_id == before.status.next_product_id and at_its_end


def in_two(sent: NewSnapshot) -> list[NewSnapshot]:
    """The same as a store tells it that sends payments and statuses apart."""
    subscription = sent.subscription
    if subscription is None:
        return [sent]
    id = subscription.store_subscription_identifier
    payments = SentSubscription(store_subscription_identifier=id, periods=subscription.periods)
    status = subscription.model_copy(update={"periods": []})
    return [sent.model_copy(update={"subscription": part}) for part in (payments, status)]


def replay(arrivals: list[tuple[Ms, NewSnapshot]], until: Ms) -> Book:
    book = Book()
    waiting = deque(arrivals)
    while waiting:
        now, sent = waiting.popleft()
        now = max(now, book.now)
        book.pass_time(now)
        snapshot = ExternalSnapshot(
            bought=sent.bought(),
            as_of=sent.as_of,
            app_user_id=None,
            tells_status=sent.subscription is None or sent.subscription.tells_status,
        )
        try:
            after = applied(Situation(book.customer, book.catalog, now), snapshot)
        except NotFound:
            # A status before the first payment: whoever sends it tries again.
            waiting.append((now, sent))
        else:
            book.change(after, now)
    book.pass_time(until)
    return book


def told(data: st.DataObject) -> tuple[Book, Book]:
    """A life told in order as it happened, and the same in any order, some of it several times."""
    life = data.draw(lives(with_own_acts=False))
    known = snapshots_of(life)
    straight = list(known)
    if data.draw(st.booleans()):
        known = [(at, part) for at, one in known for part in in_two(one)]
    order = data.draw(st.permutations(range(len(known))))
    again = data.draw(st.lists(st.sampled_from(range(len(known))), max_size=4)) if known else []
    arrivals, now = [], 0
    for index in (*order, *again):
        now = max(now, known[index][0]) + data.draw(DELAYS)
        arrivals.append((now, known[index][1]))
    until = max(now, life.ended_at) + data.draw(DELAYS)
    return replay(straight, until), replay(arrivals, until)


def state(customer: Customer) -> Customer:
    """Without the number of events and the revisions of moments, which count how often something was concluded."""
    subscriptions = tuple(
        replace(
            subscription,
            status=replace(subscription.status, as_of=Moment(subscription.status.as_of.at)),
            periods=tuple(replace(period, as_of=Moment(period.as_of.at)) for period in subscription.periods),
        )
        for subscription in customer.subscriptions
    )
    balances = {code: one for code, one in customer.balances.items() if one}
    return replace(customer, sequence=0, subscriptions=subscriptions, balances=balances)


def of_money(book: Book) -> list[tuple[str, EventType]]:
    def speaks(event: Event) -> bool:
        return event.type in MONEY or (event.type is EventType.PRODUCT_CHANGE and event.price is not None)

    return [(event.event.id, event.event.type) for event in book.told if speaks(event.event)]


@given(st.data())
def test_any_order_and_duplication_ends_in_the_same_state_and_tells_of_the_same_money(data: st.DataObject) -> None:
    check_same(*told(data))


def check_same(straight: Book, retold: Book) -> None:
    assert state(retold.customer) == state(straight.customer)
    assert sorted(of_money(retold)) == sorted(of_money(straight))
    assert len(set(of_money(retold))) == len(of_money(retold))
    # A cancellation that was taken back before it was told may be missing. None is invented, and the last is emitted.
    assert cancellations(retold) <= turned_off(straight)
    assert still_off(retold) <= {id for id, _ in cancellations(retold)}


# Lives that once ended differently: what happened, day by day, and what arrives first. "2" is the whole third snapshot,
# "2p" its payments, "2s" its status. Then everything arrives in order.
LIVES = {
    "a cancellation together with the reversal of a refund": ("buy pro_monthly, cancel, refund, reverse refund", "3"),
    "a cancellation after changes, the last snapshot first": (
        "buy pro_monthly, fail billing with grace, change to team_monthly now, change to pro_yearly now, "
        "change to pro_monthly at renewal, cancel, refund, reverse refund",
        "7 6 5 4 3 2 1",
    ),
    "a change announced in a period that is not known yet, and then made at once": (
        "buy team_monthly, a month later, change to pro_yearly now, change to pro_monthly at renewal, "
        "change to pro_monthly now",
        "0p 3s 4p",
    ),
    "an announced change, and later one to the same product": (
        "buy pro_monthly, change to team_monthly at renewal, a month later, change to pro_monthly now, "
        "change to team_monthly now",
        "1p 1s 4p",
    ),
    "a failed payment, after the payment that made it good": (
        "buy pro_yearly, fail billing with grace, recover billing",
        "2p 1s",
    ),
    "a failed payment with grace, after one without in a period that is not known yet": (
        "buy pro_yearly, fail billing with grace, change to pro_monthly now, fail billing",
        "0p 3s",
    ),
    "a failed payment with grace, after the end of a period that is not known yet": (
        "buy pro_yearly, fail billing with grace, change to pro_monthly now, expire",
        "0p 3s",
    ),
}


@pytest.mark.parametrize(("acts", "first"), LIVES.values(), ids=LIVES)
def test_a_life_ends_in_the_same_state_whatever_arrives_first(acts: str, first: str) -> None:
    life = Life(with_own_acts=False)
    for act in acts.split(", "):
        if act == "a month later":
            life.wait(31 * DAY)
        else:
            life.wait(DAY)
            life.act(f"{act} as p0" if act.startswith("buy") else f"{act} p0")
    known = snapshots_of(life)
    parts = {}
    for number, (_, whole) in enumerate(known):
        parts[f"{number}"] = whole
        parts[f"{number}p"], parts[f"{number}s"] = in_two(whole)
    arrivals = [*(parts[name] for name in first.split()), *(whole for _, whole in known)]
    until = life.ended_at

    check_same(replay(known, until), replay([(until, sent) for sent in arrivals], until))


UNPAID = {"billing_issues_detected_at": NOW + MONTH, "grace_period_expires_at": NOW + MONTH + 3 * DAY}
PAUSED = {"paused_at": NOW + DAY, "auto_resume_at": NOW + 2 * MONTH}
# The status, the product and the moment of a payment that is told alone a day later, and what is left of the status.
PAYMENTS: dict[str, tuple[dict[str, Any], str, Ms, set[str]]] = {
    "a missing payment": (UNPAID, "pro_monthly", DAY, set()),
    "a missing payment, the new period dated back": (UNPAID, "pro_monthly", 0, set()),
    "a pause": (PAUSED, "pro_monthly", DAY, set()),
    "the product that was announced": ({"next_product_id": "pro_yearly"}, "pro_yearly", DAY, set()),
    "another product than was announced": ({"next_product_id": "pro_yearly"}, "pro_monthly", DAY, {"next_product_id"}),
    "told late": (UNPAID | PAUSED, "pro_monthly", -DAY, {"billing_issue_at", "grace_ends_at", "pause"}),
}


@pytest.mark.parametrize(("status", "product", "paid_at", "left"), PAYMENTS.values(), ids=PAYMENTS)
def test_a_payment_for_a_new_period_ends_what_was_said_of_the_one_before(
    status: dict[str, Any], product: str, paid_at: Ms, left: set[str]
) -> None:
    second = NOW + MONTH
    paid = period(2, product_id=product, purchased_at=second + paid_at, cause="renewal")
    told = [subscription(), subscription(as_of=second, **status), payments(period(), paid, as_of=second + paid_at)]
    if paid_at == 0:
        told[-1]["as_of"] = second + DAY
    sent = [NewSnapshot.model_validate(one) for one in told]
    book = replay([(one.as_of, one) for one in sent], second + 2 * DAY)
    known = book.subscription.status
    fields = {"billing_issue_at", "grace_ends_at", "pause", "next_product_id"}
    assert {name for name in fields if getattr(known, name) is not None} == left
    assert book.types().count(EventType.RENEWAL) == 1


@st.composite
def refunds(draw: st.DrawFn, *, of_subscription: bool) -> list[NewSnapshot]:
    """What a server tells of one payment over time: nothing, parts of it given back with or without their day, parts
    that failed, and at last perhaps all of it."""
    told: list[NewSnapshot] = []
    at, dated = NOON, draw(st.booleans())
    for amount in draw(st.lists(st.sampled_from((0, 2, 5, 5, 8)), min_size=1, max_size=5)):
        at += draw(st.sampled_from((1, HOUR, DAY, 40 * DAY)))
        back = {"refunded_amount": amount, "refunded_amount_at": at - 1 if dated else None} if amount else {}
        told.append(_told_of(back, at, of_subscription=of_subscription))
    if draw(st.booleans()):
        at += DAY
        whole = {"refunded_at": at}
        told.append(_told_of(whole, at, of_subscription=of_subscription))
        if draw(st.booleans()):
            # A dispute was won. What had gone back in part before is still back.
            at += DAY
            left = {"refunded_amount": amount} if amount else {}
            told.append(_told_of({**whole, "refund_reversed_at": at, **left}, at, of_subscription=of_subscription))
    return told


def _told_of(back: dict[str, Any], as_of: Ms, *, of_subscription: bool) -> NewSnapshot:
    paid = {"product_id": "pro_lifetime", "purchased_at": NOON, "price": 10, "currency": "USD", **back}
    said: dict[str, Any] = {"purchase": {"store_purchase_identifier": "one", **paid}}
    if of_subscription:
        period = {**paid, "product_id": "pro_monthly", "transaction_id": "first", "expires_at": NOON + 400 * DAY}
        said = {"subscription": {"store_subscription_identifier": "one", "periods": [period], "auto_renew": True}}
    return NewSnapshot.model_validate_json(json.encode({"store": "paddle", "as_of": as_of, **said}))


@given(st.data())
def test_any_order_of_refunds_ends_in_the_same_state_and_on_the_same_days_of_charts(data: st.DataObject) -> None:
    known = data.draw(refunds(of_subscription=data.draw(st.booleans())))
    order = data.draw(st.permutations(range(len(known))))
    again = data.draw(st.lists(st.sampled_from(range(len(known))), max_size=3))
    until = max(snapshot.as_of for snapshot in known)

    straight = replay([(snapshot.as_of, snapshot) for snapshot in known], until + 1)
    retold = replay([(until, known[index]) for index in (*order, *again)], until + 1)

    # Who is first heard of later was first seen later.
    assert state(retold.customer) == state(replace(straight.customer, first_seen_at=retold.customer.first_seen_at))
    assert charted(retold) == charted(straight)


def charted(book: Book) -> list[PeriodRow]:
    return list(rows_of(0, book.customer, book.catalog))


def cancellations(book: Book) -> set[tuple[str, Ms | None]]:
    """For each event of a cancellation: of which subscription, and since when its renewal was off. Not the date of the
    event: how a subscription stands comes last of a change, dated to what it follows there. So a cancellation that
    arrives together with something newer has a later date than one that arrives alone."""
    wanted = {EventType.CANCELLATION, EventType.TRIAL_CANCELLED}
    events = [(told.event, told.after) for told in book.told if told.event.type in wanted]
    return {
        (subscription.id, subscription.status.renewal_off_at)
        for event, after in events
        for subscription in after.subscriptions
        if subscription.id == event.original_transaction_id
    }


def turned_off(book: Book) -> set[tuple[str, Ms | None]]:
    """Each moment since when the renewal of a subscription was off."""
    return {
        (subscription.id, subscription.status.renewal_off_at)
        for _, customer in book.states
        for subscription in customer.subscriptions
        if not subscription.status.auto_renew
    }


def still_off(book: Book) -> set[str]:
    return {subscription.id for subscription in book.customer.subscriptions if not subscription.status.auto_renew}
