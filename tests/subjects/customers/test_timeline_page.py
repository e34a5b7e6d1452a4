"""The history of a customer's purchases, as spans of time and as positions in a picture."""

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer, with_purchase, with_subscription
from latchkey.domain.customers.promotion import grant, revoke
from latchkey.domain.instants import DAY, HOUR, LATEST, Ms
from latchkey.domain.purchases.subscription import Cause, PeriodType, Subscription
from latchkey.domain.stores.test_store import actions
from latchkey.domain.stores.test_store.billing import pass_time
from latchkey.subjects.customers.page.timeline_svg import MOST_ROWS, picture, ticks_between, window
from latchkey.subjects.customers.rules.subscription_timeline import (
    FailedPayment,
    Past,
    PurchaseTimeline,
    SpanKind,
    TimelineSpan,
    latest,
    lives,
)
from tests.domain.shop import CATALOG, COINS, PRO_LIFETIME, PRO_YEARLY, at, bought, someone, subscribed

JAN = at("2027-01-01")
FEB, MAR, APR, MAY = (at(f"2027-{month:02}-01") for month in range(2, 6))


def monthly(now: Ms = JAN, *, trial: bool = False) -> Subscription:
    return subscribed(now=now, trial=trial)


def later(subscription: Subscription, now: Ms) -> Subscription:
    """After all the renewals that fall due by then."""
    while (after := pass_time(subscription, CATALOG, now)) != subscription:
        subscription = after
    return subscription


def refunded(subscription: Subscription, now: Ms) -> Subscription:
    after = actions.refund(subscription, now)
    assert isinstance(after, Subscription)
    return after


def holding(subscription: Subscription) -> Customer:
    return with_subscription(someone(), subscription)


def told(subscription: Subscription, now: Ms) -> list[tuple[str, Ms, Ms | None]]:
    [life] = lives(holding(subscription), CATALOG, now)
    return [(one.kind.value, one.start, one.end) for one in life.spans]


def marks(subscription: Subscription, now: Ms) -> list[tuple[Ms, str]]:
    [life] = lives(holding(subscription), CATALOG, now)
    return [(one.at, one.words) for one in life.marks]


def intro(subscription: Subscription) -> Subscription:
    return replace(subscription, periods=(replace(subscription.current, period_type=PeriodType.INTRO),))


def failing(days: int) -> Subscription:
    return actions.fail_billing(monthly(), JAN + DAY, grace_days=days)


LIVES: dict[str, tuple[Subscription, Ms, list[tuple[str, Ms, Ms | None]]]] = {
    "a first period": (monthly(), JAN + DAY, [("paid", JAN, FEB)]),
    "periods one after the other": (
        later(monthly(), MAR + DAY),
        MAR + DAY,
        [("paid", JAN, FEB), ("paid", FEB, MAR), ("paid", MAR, APR)],
    ),
    "a trial that was kept": (
        later(monthly(trial=True), JAN + 8 * DAY),
        JAN + 8 * DAY,
        [("trial", JAN, JAN + 7 * DAY), ("paid", JAN + 7 * DAY, at("2027-02-08"))],
    ),
    "an introductory price": (intro(monthly()), JAN, [("intro", JAN, FEB)]),
    "a grace period that runs": (failing(6), FEB + DAY, [("paid", JAN, FEB), ("grace", FEB, FEB + 6 * DAY)]),
    "a payment made good within the grace period": (
        actions.recover_billing(failing(6), CATALOG, FEB + 3 * DAY),
        FEB + 4 * DAY,
        [("paid", JAN, FEB), ("grace", FEB, FEB + 3 * DAY), ("paid", FEB + 3 * DAY, MAR)],
    ),
    "a payment that does not come": (
        failing(6),
        MAR,
        [("paid", JAN, FEB), ("grace", FEB, FEB + 6 * DAY), ("retry", FEB + 6 * DAY, MAR)],
    ),
    "a payment that comes too late leaves a gap": (
        actions.recover_billing(failing(0), CATALOG, MAR),
        MAR,
        [("paid", JAN, FEB), ("gap", FEB, MAR), ("paid", MAR, APR)],
    ),
    "a pause": (actions.pause(monthly(), JAN, APR), MAR, [("paid", JAN, FEB), ("pause", FEB, APR)]),
    "a pause that is over": (
        later(actions.pause(monthly(), JAN, APR), APR),
        APR,
        [("paid", JAN, FEB), ("gap", FEB, APR), ("paid", APR, MAY)],
    ),
    "a refund": (
        refunded(monthly(), JAN + 9 * DAY),
        MAR,
        [("paid", JAN, JAN + 9 * DAY), ("refunded", JAN + 9 * DAY, FEB)],
    ),
    "a refund at once": (refunded(monthly(), JAN), MAR, [("refunded", JAN, FEB)]),
    "a refund after the period had ended": (
        refunded(actions.cancel(monthly(), JAN), MAR),
        MAR,
        [("paid", JAN, FEB)],
    ),
    "a refund that was reversed": (
        actions.reverse_refund(refunded(monthly(), JAN + DAY), JAN + 2 * DAY),  # type: ignore[dict-item]  # of a subscription
        MAR,
        [("paid", JAN, FEB)],
    ),
    "another product at once": (
        actions.change_product(monthly(), PRO_YEARLY, JAN + 9 * DAY, at_renewal=False),
        MAR,
        [("paid", JAN, JAN + 9 * DAY), ("paid", JAN + 9 * DAY, at("2028-01-10"))],
    ),
    "a cancelled one has nothing after its end": (actions.cancel(monthly(), JAN), MAY, [("paid", JAN, FEB)]),
}


@pytest.mark.parametrize("name", LIVES)
def test_the_life_of_a_subscription(name: str) -> None:
    subscription, now, expected = LIVES[name]
    assert told(subscription, now) == expected


def test_what_happened_at_an_instant_is_marked() -> None:
    changed = actions.change_product(monthly(), PRO_YEARLY, JAN + DAY, at_renewal=False)
    given_back = refunded(actions.cancel(changed, JAN + 2 * DAY), JAN + 3 * DAY)
    assert marks(given_back, MAR) == [
        (JAN + DAY, "Changed from pro_monthly to pro_yearly"),
        (JAN + 2 * DAY, "Renewal turned off"),
        (JAN + 3 * DAY, "Refunded"),
    ]
    assert marks(failing(6), FEB) == [(JAN + DAY, "Payment failed")]


def test_grants_and_lasting_purchases_have_a_life_and_what_is_used_up_has_none() -> None:
    customer = grant(someone(), "team", FEB, JAN)
    customer = with_purchase(with_purchase(customer, bought(PRO_LIFETIME, JAN + DAY)), bought(COINS, JAN, id="coins"))
    found = lives(customer, CATALOG, JAN)
    assert [(one.title, [(span.kind, span.end) for span in one.spans]) for one in found] == [
        ("team", [(SpanKind.GRANTED, FEB)]),
        ("pro_lifetime", [(SpanKind.PAID, None)]),
    ]
    [first, _] = lives(revoke(customer, "team", JAN + DAY), CATALOG, JAN)
    assert first.spans[0].end == JAN + DAY
    assert first.marks[0].words == "Revoked"


def drawn(*spans: tuple[SpanKind, Ms, Ms | None]) -> PurchaseTimeline:
    return PurchaseTimeline(
        "pro",
        "test_store",
        "1",
        tuple(TimelineSpan(kind, start, end, "pro_monthly", "1.0") for kind, start, end in spans),
    )


def test_everything_stands_on_one_axis_between_its_edges() -> None:
    found = picture(lives(holding(later(monthly(trial=True), MAY)), CATALOG, MAY), MAY)
    assert found is not None
    [lane] = found.lanes
    assert 0 < lane.bars[0].x < 3
    for before, after in zip(lane.bars, lane.bars[1:], strict=False):
        assert before.x + before.width == pytest.approx(after.x, abs=0.02)
    assert lane.bars[-1].x < found.now < lane.bars[-1].x + lane.bars[-1].width < 100
    assert [one.kind.value for one in lane.bars] == ["trial", "paid", "paid", "paid", "paid"]
    assert "now is 2027-05-01 00:00 UTC" in found.words


def test_nothing_bought_is_no_picture() -> None:
    assert picture([], JAN) is None


def test_what_lasts_for_ever_does_not_squeeze_the_past() -> None:
    for end in (None, LATEST):
        found = picture([drawn((SpanKind.PAID, JAN, FEB)), drawn((SpanKind.GRANTED, FEB, end))], MAR)
        assert found is not None
        first, second = (lane.bars[0] for lane in found.lanes)
        assert first.width > 20
        assert (first.is_open, second.is_open) == (False, True)
        assert second.x + second.width == pytest.approx(100, abs=0.05)
        assert found.now < 90


def test_hundreds_of_short_periods_are_drawn_as_one() -> None:
    week = 7 * DAY
    weekly = drawn(*((SpanKind.PAID, JAN + n * week, JAN + (n + 1) * week) for n in range(520)))
    found = picture([weekly], JAN + 520 * week)
    assert found is not None
    [bar] = found.lanes[0].bars
    assert bar.words == "Paid: 520 periods"
    assert bar.width > 90


def test_a_short_trial_in_a_long_life_can_still_be_seen() -> None:
    found = picture(
        [drawn((SpanKind.TRIAL, JAN, JAN + HOUR), (SpanKind.PAID, JAN + HOUR, JAN + 4000 * DAY))], JAN + 4001 * DAY
    )
    assert found is not None
    assert [bar.kind for bar in found.lanes[0].bars] == [SpanKind.TRIAL, SpanKind.PAID]
    assert found.lanes[0].bars[0].width >= 0.4


def test_only_the_latest_rows_are_drawn_and_the_others_counted() -> None:
    many = [drawn((SpanKind.GRANTED, JAN + n * DAY, JAN + (n + 1) * DAY)) for n in range(MOST_ROWS + 5)]
    found = picture(many, MAR)
    assert found is not None
    assert (len(found.lanes), found.left_out) == (MOST_ROWS, 5)
    assert found.height == 26 + MOST_ROWS * 48 + 10


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        (
            "2027-01-01T07:30",
            "2027-01-01T12:10",
            ["1 Jan 08:00", "1 Jan 09:00", "1 Jan 10:00", "1 Jan 11:00", "1 Jan 12:00"],
        ),
        ("2027-01-01T12:00", "2027-01-05T12:00", ["2 Jan", "3 Jan", "4 Jan", "5 Jan"]),
        ("2027-01-20", "2027-04-20", ["Feb 2027", "Mar 2027", "Apr 2027"]),
        ("2026-12-15", "2028-02-15", ["Jan 2027", "Apr 2027", "Jul 2027", "Oct 2027", "Jan 2028"]),
        ("2020-06-01", "2027-06-01", ["2022", "2024", "2026"]),
    ],
)
def test_ticks_are_round_and_few(begin: str, end: str, words: list[str]) -> None:
    assert [text for _, text in ticks_between(at(begin), at(end))] == words


def test_the_window_reaches_from_the_first_beginning_to_the_last_end_and_shows_now() -> None:
    begin, end = window([drawn((SpanKind.PAID, JAN, FEB))], MAR)
    assert begin < JAN
    assert MAR < end < MAR + 3 * DAY


def test_of_very_many_stretches_the_latest_are_listed() -> None:
    old, new = drawn((SpanKind.PAID, JAN, FEB)), drawn((SpanKind.PAID, FEB, MAR), (SpanKind.PAID, MAR, APR))
    assert latest([old, new], 3) == [old, new]
    assert latest([old, new], 2) == [new]
    assert latest([old, new], 1) == [drawn((SpanKind.PAID, MAR, APR))]


@pytest.mark.parametrize(("ahead", "is_open"), [(31, False), (366, False), (500, True)])
def test_the_end_of_a_period_is_seen_unless_it_is_years_away(ahead: int, is_open: bool) -> None:
    found = picture([drawn((SpanKind.PAID, JAN, JAN + ahead * DAY))], JAN + DAY)
    assert found is not None
    assert found.lanes[0].bars[0].is_open is is_open


def test_a_pause_of_the_past_is_a_pause_and_not_a_gap() -> None:
    first, second = monthly(), monthly(now=MAR)
    both = replace(second, id=first.id, periods=(*first.periods, replace(second.current, id="later")))
    past = Past({}, {(both.store, both.id): (FEB,)})
    [life] = lives(holding(both), CATALOG, MAR + DAY, past)
    assert [(one.kind, one.start, one.end) for one in life.spans][1] == (SpanKind.PAUSE, FEB, MAR)
    [without] = lives(holding(both), CATALOG, MAR + DAY)
    assert without.spans[1].kind is SpanKind.GAP


@pytest.mark.parametrize("grace_days", [0, 6])
def test_a_failed_payment_of_the_past_shows_its_grace_period_and_the_time_without_access(grace_days: int) -> None:
    first, second = monthly(), monthly(now=MAR)
    renewed = replace(second.current, id="later", cause=Cause.RENEWAL)
    both = replace(second, id=first.id, periods=(*first.periods, renewed))
    issue = FailedPayment(FEB - HOUR, FEB + grace_days * DAY if grace_days else None)
    [life] = lives(holding(both), CATALOG, MAR + DAY, Past({(both.store, both.id): (issue,)}, {}))
    between = [(one.kind, one.start, one.end) for one in life.spans][1:-1]
    ended = FEB + grace_days * DAY
    grace = [(SpanKind.GRACE, FEB, ended)] if grace_days else []
    assert between == [*grace, (SpanKind.RETRY, ended, MAR)]
    assert (FEB - HOUR, "Payment failed") in [(one.at, one.words) for one in life.marks]
