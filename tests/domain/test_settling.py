"""What a store's snapshots mean beside what is known: conversions, replacements, refunds taken back, in any order."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.lifecycle import RENEWAL_LEEWAY, observe, tick
from latchkey.domain.purchases.purchase import (
    Environment,
    Expired,
    MoneyBack,
    Purchase,
    PurchaseKind,
    Reason,
    observe_purchase,
)
from latchkey.domain.purchases.reconciliation import settle, settle_purchase
from latchkey.domain.purchases.subscription import (
    PAUSE_NOT_TOLD,
    Cause,
    Moment,
    Pause,
    Period,
    PeriodType,
    Status,
    Subscription,
)
from tests.domain.book import Book

START: Ms = 1_700_000_000_000


def period(
    id: str,
    cause: Cause,
    from_day: int,
    days: int = 30,
    *,
    product: str = "monthly",
    told_on: int | None = None,
    refunded_on: int | None = None,
) -> Period:
    trial = cause is Cause.TRIAL
    return Period(
        id=id,
        number=0,
        cause=cause,
        product_id=product,
        period_type=PeriodType.TRIAL if trial else PeriodType.NORMAL,
        purchased_at=START + from_day * DAY,
        ends_at=START + (from_day + days) * DAY,
        as_of=Moment(START + (from_day if told_on is None else told_on) * DAY),
        price=Price(0 if trial else 4_990_000, "USD"),
        money_back=() if refunded_on is None else (MoneyBack(START + refunded_on * DAY),),
    )


def snapshot(*periods: Period, auto_renew: bool = True, told_on: int | None = None) -> Subscription:
    as_of = max(one.as_of for one in periods) if told_on is None else Moment(START + told_on * DAY)
    return Subscription(
        store="some_store",
        id="first",
        environment=Environment.PRODUCTION,
        periods=periods,
        status=Status(as_of=as_of, auto_renew=auto_renew),
    )


def told(*snapshots: Subscription, unordered: bool = False) -> Subscription:
    known: Subscription | None = None
    for day, one in enumerate(snapshots):
        known = observe(known, settle(known, one, START + day * DAY, unordered=unordered))
    assert known is not None
    return known


TRIAL = period("1", Cause.TRIAL, 0, 7)
PAID = period("2", Cause.RENEWAL, 7)
RENEWED = period("3", Cause.RENEWAL, 37)
BIGGER = period("4", Cause.PURCHASE, 47, product="yearly")


@pytest.mark.parametrize(
    "order", list(permutations([TRIAL, PAID, RENEWED, BIGGER])), ids=lambda order: "".join(p.id for p in order)
)
def test_the_whole_life_is_the_same_whatever_came_first(order: tuple[Period, ...]) -> None:
    known = told(*map(snapshot, order))
    assert [(one.id, one.cause, one.number) for one in known.periods] == [
        ("1", Cause.TRIAL, 0),
        ("2", Cause.CONVERSION, 1),
        ("3", Cause.RENEWAL, 2),
        ("4", Cause.CHANGE, 3),
    ]
    assert known.periods[-1].changed_from == "monthly"
    assert known.periods[2].ends_at == BIGGER.purchased_at, "what was replaced ends when it was"


def test_the_same_snapshot_again_changes_nothing() -> None:
    known = told(snapshot(TRIAL), snapshot(PAID), snapshot(BIGGER))
    for again in (snapshot(TRIAL), snapshot(PAID), snapshot(BIGGER), snapshot(TRIAL, PAID, BIGGER)):
        assert observe(known, settle(known, again, START + 90 * DAY)) == known


def test_a_replaced_period_read_again_with_its_old_end_is_not_extended() -> None:
    known = told(snapshot(period("1", Cause.PURCHASE, 0)), snapshot(period("2", Cause.PURCHASE, 10, product="yearly")))
    again = snapshot(
        period("1", Cause.PURCHASE, 0, told_on=50), period("2", Cause.PURCHASE, 10, product="yearly", told_on=50)
    )
    after = observe(known, settle(known, again, START + 50 * DAY))
    assert [one.ends_at for one in after.periods] == [one.ends_at for one in known.periods]


@pytest.mark.parametrize("ends_with_it", [True, False])
def test_a_clock_that_was_ahead_takes_no_refund_back(ends_with_it: bool) -> None:
    """Another process, with a clock that is a day ahead, has read the purchase before."""
    known = observe(None, settle(None, snapshot(BOUGHT), START + 2 * DAY, unordered=True))
    refunded = replace(BOUGHT, money_back=(MoneyBack(START + DAY),))
    if ends_with_it:
        refunded = replace(refunded, ends_at=START + DAY + 1)
    for now in (START + DAY + 1000, START + 3 * DAY):
        known = observe(known, settle(known, snapshot(refunded), now, unordered=True))
        assert (known.current.refunded_at, known.access_ends_at) == (START + DAY, START + DAY)


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize(("more", "moved"), [(0, False), (1, False), (999, False), (1_000, True), (-1, True)])
def test_milliseconds_that_an_import_did_not_know_extend_nothing(more: Ms, moved: bool, unordered: bool) -> None:
    first = period("t1", Cause.PURCHASE, 0)
    known = told(snapshot(first), unordered=unordered)
    precise = replace(first, ends_at=first.ends_at + more, as_of=Moment(first.as_of.at + 1))
    after = observe(known, settle(known, snapshot(precise), START + DAY, unordered=unordered))
    assert (after.current.ends_at != first.ends_at) is moved


def test_buying_again_after_the_end_is_a_purchase_and_no_change() -> None:
    known = told(snapshot(period("1", Cause.PURCHASE, 0)), snapshot(period("2", Cause.PURCHASE, 60, product="yearly")))
    assert [one.cause for one in known.periods] == [Cause.PURCHASE, Cause.PURCHASE]
    assert known.periods[0].ends_at == START + 30 * DAY


@pytest.mark.parametrize(
    ("product", "from_day", "cause"),
    [
        ("yearly", 10, Cause.CHANGE),
        ("yearly", 30, Cause.RENEWAL),
        ("monthly", 29, Cause.RENEWAL),
    ],
)
def test_a_renewal_with_another_product_before_the_end_is_a_change(product: str, from_day: int, cause: Cause) -> None:
    first = period("1", Cause.PURCHASE, 0)
    second = period("2", Cause.RENEWAL, from_day, product=product)
    for order in ((first, second), (second, first)):
        known = told(*map(snapshot, order))
        assert known.current.cause is cause
        assert (known.current.changed_from == "monthly") is (cause is Cause.CHANGE)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ([-10 * DAY], Cause.PURCHASE),
        ([-2 * MINUTE], Cause.PURCHASE),
        ([-MINUTE], Cause.CHANGE),
        ([0], Cause.CHANGE),
        ([DAY], Cause.CHANGE),
        ([-10 * DAY, -5 * DAY], Cause.CHANGE),
        ([-10 * DAY, 5 * DAY], Cause.PURCHASE),
    ],
)
def test_what_is_bought_when_the_period_before_was_refunded_is_no_change(facts: list[Ms], cause: Cause) -> None:
    """`facts`: when it was refunded, and when that was reversed, from the second purchase on."""
    first, second = period("1", Cause.PURCHASE, 0), period("2", Cause.PURCHASE, 15, product="yearly")
    back = tuple(MoneyBack(second.purchased_at + at, number, number == 1) for number, at in enumerate(facts))
    refunded = replace(first, money_back=back, as_of=Moment(second.purchased_at + facts[-1]))
    for order in permutations([first, refunded, second]):
        last, known = told(*map(snapshot, order)).periods
        assert (known.cause, known.changed_from) == (cause, "monthly" if cause is Cause.CHANGE else None)
        assert last.ends_at == second.purchased_at


REFUNDED = period("1", Cause.PURCHASE, 0, told_on=5, refunded_on=5)
REVERSED = period("1", Cause.PURCHASE, 0, told_on=8)
BOUGHT = period("1", Cause.PURCHASE, 0)


@pytest.mark.parametrize("order", list(permutations([BOUGHT, REFUNDED, REVERSED])))
def test_a_refund_that_is_no_longer_told_was_taken_back(order: tuple[Period, ...]) -> None:
    [known] = told(*map(snapshot, order)).periods
    assert known.refunded_at is None
    assert known.money_back == (
        MoneyBack(START + 5 * DAY),
        MoneyBack(START + 8 * DAY, number=1, reversal=True),
    )


@pytest.mark.parametrize("order", list(permutations([BOUGHT, REFUNDED])))
def test_a_refund_stands_though_an_older_word_does_not_know_it(order: tuple[Period, ...]) -> None:
    [known] = told(*map(snapshot, order)).periods
    assert known.refunded_at == START + 5 * DAY


def purchase(told_on: int, refunded_on: int | None = None) -> Purchase:
    return Purchase(
        kind=PurchaseKind.ONE_TIME,
        store="some_store",
        id="p",
        product_id="coins",
        environment=Environment.PRODUCTION,
        purchased_at=START,
        price=Price(990_000, "USD"),
        told_at=START + told_on * DAY,
        money_back=() if refunded_on is None else (MoneyBack(START + refunded_on * DAY),),
    )


@pytest.mark.parametrize("order", list(permutations([purchase(0), purchase(5, 5), purchase(8)])))
def test_a_one_time_purchase_keeps_the_newest_word_on_its_refund(order: tuple[Purchase, ...]) -> None:
    known: Purchase | None = None
    for one in order:
        known = observe_purchase(known, settle_purchase(known, one))
    assert known is not None
    assert known.refunded_at is None
    assert [fact.reversal for fact in known.money_back] == [False, True]


@pytest.mark.parametrize("order", list(permutations([(0, None), (5, 5), (8, None)])))
def test_a_one_time_purchase_keeps_the_newest_word_on_its_revocation(order: tuple[tuple[int, int | None], ...]) -> None:
    known: Purchase | None = None
    for told_on, revoked_on in order:
        revoked_at = None if revoked_on is None else START + revoked_on * DAY
        known = observe_purchase(known, settle_purchase(known, replace(purchase(told_on), revoked_at=revoked_at)))
    assert known is not None
    assert known.revoked_at is None


def test_renewal_that_is_off_is_off_since_the_first_word_of_it() -> None:
    first = told(snapshot(BOUGHT), snapshot(BOUGHT, auto_renew=False, told_on=3))
    again = observe(first, settle(first, snapshot(BOUGHT, auto_renew=False, told_on=9), START))
    assert first.status.renewal_off_at == again.status.renewal_off_at == START + 3 * DAY


def going_on_as(product: str | None, told_on: int, *periods: Period) -> Subscription:
    seen = snapshot(*(periods or [BOUGHT]), told_on=told_on)
    return replace(seen, status=replace(seen.status, next_product_id=product))


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize(
    ("products", "changes"),
    [
        (["monthly"], []),
        (["monthly", None, "monthly"], []),
        (["yearly", "monthly", None], [("monthly", "yearly"), ("yearly", "monthly")]),
        (["monthly", "yearly"], [("monthly", "yearly")]),
    ],
)
def test_the_present_product_as_the_next_one_is_no_change(
    products: list[str | None], changes: list[tuple[str, str]], unordered: bool
) -> None:
    book = Book.of(settle(None, snapshot(BOUGHT), START, unordered=unordered), START)
    for day, product in enumerate(products, 1):
        for now in (START + day * DAY, START + day * DAY + 1):
            before = book.subscription
            settled = settle(before, going_on_as(product, day), now, unordered=unordered)
            book.take_in(settled, now)
            assert book.subscription.status.next_product_id == (product if product != "monthly" else None)
        assert book.subscription == before, "the same again changes nothing"
    told = [one.event for one in book.told if one.event.type is EventType.PRODUCT_CHANGE]
    assert [(event.product_id, event.new_product_id) for event in told] == changes


def test_a_product_that_is_told_with_an_older_period_and_runs_already_is_not_the_next() -> None:
    known = told(going_on_as("yearly", 1), going_on_as(None, 31, period("2", Cause.RENEWAL, 30, product="yearly")))
    late = settle(known, going_on_as("yearly", 32), START + 32 * DAY)
    assert observe(known, late).status.next_product_id is None


class TestWithoutMoments:
    """A store that tells how things stand, and not as of when."""

    def test_reading_the_same_again_changes_nothing(self) -> None:
        known = told(snapshot(BOUGHT), unordered=True)
        assert observe(known, settle(known, snapshot(BOUGHT), START + 5 * DAY, unordered=True)) == known

    def test_off_read_twice_is_told_once(self) -> None:
        known = told(snapshot(BOUGHT), snapshot(BOUGHT, auto_renew=False), unordered=True)
        again = settle(known, snapshot(BOUGHT, auto_renew=False), START + 5 * DAY, unordered=True)
        assert observe(known, again) == known
        assert known.status.renewal_off_at == START + DAY

    def test_the_last_reading_wins_even_within_one_millisecond(self) -> None:
        known = observe(None, settle(None, snapshot(BOUGHT), START, unordered=True))
        for auto_renew in (False, True, False):
            seen = settle(known, snapshot(BOUGHT, auto_renew=auto_renew), START, unordered=True)
            known = observe(known, seen)
            assert known.status.auto_renew is auto_renew

    def test_an_end_that_moved_is_taken_over(self) -> None:
        longer = replace(BOUGHT, ends_at=BOUGHT.ends_at + DAY)
        assert told(snapshot(BOUGHT), snapshot(longer), unordered=True).current.ends_at == longer.ends_at

    def test_a_refund_that_a_reading_does_not_tell_of_still_stands(self) -> None:
        refunded = replace(BOUGHT, money_back=(MoneyBack(START + 2 * DAY),))
        known = told(snapshot(BOUGHT), snapshot(refunded), snapshot(BOUGHT), unordered=True)
        assert known.current.money_back == refunded.money_back

    def test_a_reversal_that_a_reading_tells_of_counts_once(self) -> None:
        back, again = MoneyBack(START + 2 * DAY), MoneyBack(START + 4 * DAY, reversal=True)
        refunded, reversed_ = replace(BOUGHT, money_back=(back,)), replace(BOUGHT, money_back=(back, again))
        for readings in ((refunded, reversed_), (refunded, reversed_, reversed_), (reversed_,)):
            known = told(*map(snapshot, readings), unordered=True)
            assert (known.current.money_back, known.current.refunded_at) == ((back, again), None)
        gone = replace(BOUGHT, money_back=(back, again, MoneyBack(START + 6 * DAY)))
        known = told(*map(snapshot, (refunded, reversed_, gone)), unordered=True)
        assert known.current.refunded_at == START + 6 * DAY

    def test_a_reversal_of_a_one_time_purchase_that_a_reading_tells_of_counts(self) -> None:
        back, again = MoneyBack(START + 2 * DAY), MoneyBack(START + 4 * DAY, reversal=True)
        known: Purchase | None = None
        told_on: dict[int, tuple[MoneyBack, ...]] = {0: (), 2: (back,), 3: (), 4: (back, again), 5: (back, again)}
        for day, facts in told_on.items():
            seen = Purchase(
                kind=PurchaseKind.ONE_TIME,
                store="some_store",
                id="p",
                product_id="coins",
                environment=Environment.PRODUCTION,
                purchased_at=START,
                price=Price(990_000, "USD"),
                money_back=facts,
            )
            known = observe_purchase(known, settle_purchase(known, seen, read_at=START + day * DAY))
            assert known.refunded_at == (back.at if day in (2, 3) else None)

    def test_access_is_kept_open_while_the_charge_is_due_and_nothing_is_told(self) -> None:
        late = replace(snapshot(BOUGHT), status=Status(as_of=Moment(0), grace_ends_at=BOUGHT.ends_at + DAY))
        before, known = told(snapshot(BOUGHT), unordered=True), told(snapshot(BOUGHT), late, unordered=True)
        assert (known.access_ends_at, known.in_grace) == (BOUGHT.ends_at + DAY, True)
        assert tick(known, BOUGHT.ends_at + DAY).expired is None, "the store still means to renew it"
        ended = tick(known, BOUGHT.ends_at + DAY + RENEWAL_LEEWAY).expired
        assert ended == Expired(BOUGHT.id, BOUGHT.ends_at + DAY, Reason.UNKNOWN)
        paid = told(snapshot(BOUGHT), late, snapshot(BOUGHT, RENEWED), unordered=True)
        assert paid.access_ends_at == RENEWED.ends_at
        assert before.access_ends_at == BOUGHT.ends_at

    def test_a_refund_dated_in_two_ways_is_one_refund(self) -> None:
        refunded = [replace(BOUGHT, money_back=(MoneyBack(START + day * DAY),)) for day in (2, 3)]
        assert told(*map(snapshot, refunded), unordered=True).current.money_back == refunded[0].money_back

    def test_how_a_replaced_purchase_stands_says_nothing_about_the_one_in_its_place(self) -> None:
        known = told(snapshot(BOUGHT), snapshot(BIGGER), snapshot(BOUGHT, auto_renew=False), unordered=True)
        assert known.status.auto_renew is True
        assert known.current.id == BIGGER.id

    def test_a_cancellation_in_a_grace_period_extends_nothing(self) -> None:
        grace_ends_at = BOUGHT.ends_at + 3 * DAY
        unpaid = snapshot(BOUGHT)
        unpaid = replace(
            unpaid,
            status=replace(unpaid.status, billing_issue_at=BOUGHT.ends_at, grace_ends_at=grace_ends_at),
        )
        cancelled = snapshot(replace(BOUGHT, ends_at=grace_ends_at), auto_renew=False)
        known = told(unpaid, cancelled, cancelled, unordered=True)
        assert known.current.ends_at == BOUGHT.ends_at
        assert (known.access_ends_at, known.status.auto_renew) == (grace_ends_at, False)

    def test_a_pause_was_asked_for_when_it_was_first_read(self) -> None:
        known = told(snapshot(BOUGHT), paused(Pause(0, RESUMES)), paused(Pause(0, RESUMES)), unordered=True)
        assert known.status.pause == Pause(START + DAY, RESUMES)

    def test_another_end_is_another_pause(self) -> None:
        known = told(paused(Pause(0, RESUMES)), paused(Pause(0, RESUMES + DAY)), unordered=True)
        assert known.status.pause == Pause(START + DAY, RESUMES + DAY)

    def test_a_planned_pause_stays_while_the_store_does_not_tell_of_it(self) -> None:
        known = told(paused(Pause(0, RESUMES)), paused(PAUSE_NOT_TOLD), unordered=True)
        assert known.status.pause == Pause(START, RESUMES)
        assert told(paused(Pause(0, RESUMES)), paused(None), unordered=True).status.pause is None

    def test_a_planned_pause_is_forgotten_when_another_period_runs(self) -> None:
        renewed = replace(paused(PAUSE_NOT_TOLD), periods=(RENEWED,))
        assert told(paused(Pause(0, RESUMES)), renewed, unordered=True).status.pause is None

    def test_no_pause_follows_from_silence(self) -> None:
        assert told(paused(PAUSE_NOT_TOLD), paused(PAUSE_NOT_TOLD), unordered=True).status.pause is None


RESUMES = START + 60 * DAY


def paused(pause: Pause | None) -> Subscription:
    seen = snapshot(BOUGHT)
    return replace(seen, status=replace(seen.status, pause=pause))


@given(st.lists(st.sampled_from([TRIAL, PAID, RENEWED, BIGGER, REFUNDED, REVERSED]), min_size=1))
def test_every_snapshot_leaves_periods_in_order_and_without_overlap_by_purchases(lives: list[Period]) -> None:
    known = told(*map(snapshot, lives))
    assert [one.order for one in known.periods] == sorted(one.order for one in known.periods)
    for last, following in zip(known.periods, known.periods[1:], strict=False):
        if following.cause not in (Cause.RENEWAL, Cause.CONVERSION):
            assert last.ends_at <= following.purchased_at
