"""What is told and when, as tables; and what holds whatever is seen."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.problem import ProblemKind, ProjectProblem
from latchkey.subjects.alerts.rules import (
    CALM,
    DAYS,
    PATIENCE,
    Alert,
    Report,
    after_look,
    next_report,
    unusual,
    usual_range,
)

EVERY = 5 * MINUTE


def problem(id: str = "webhook/wh_1", words: str = "") -> ProjectProblem:
    return ProjectProblem(id=id, kind=ProblemKind.WEBHOOK, title="The webhook fails.", words=words)


def told(looks: Sequence[bool], every: Ms = EVERY) -> list[tuple[int, str]]:
    """The numbers of the looks after which something is told. A look sees the problem, or does not."""
    known: dict[str, Alert] = {}
    found = []
    for number, sees in enumerate(looks):
        kept, began, ended = after_look(known, [problem()] if sees else [], number * every, {})
        known = {alert.problem.id: alert for alert in kept}
        found += [(number, "began") for _ in began] + [(number, "ended") for _ in ended]
    return found


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([0], []),
        ([1, 1], []),
        ([1, 1, 1], [(2, "began")]),
        ([1] * 20, [(2, "began")]),
        # Gone before it was told: nobody hears of it.
        ([1, 1, 0, 1, 1, 0, 0], []),
        ([1, 1, 1, *[0] * 6], [(2, "began")]),
        ([1, 1, 1, *[0] * 7, 0], [(2, "began"), (9, "ended")]),
        # It comes back before its end was told.
        ([1, 1, 1, *[0] * 5, 1, *[0] * 6], [(2, "began")]),
        ([1, 1, 1, *[0] * 7, 1, 1, 1], [(2, "began"), (9, "ended"), (12, "began")]),
    ],
)
def test_a_problem_is_told_once_when_it_lasts_and_once_when_it_is_over(
    looks: list[int], expected: list[tuple[int, str]]
) -> None:
    assert told([bool(sees) for sees in looks]) == expected


@given(st.lists(st.booleans(), max_size=80), st.integers(1, 40).map(lambda minutes: minutes * MINUTE))
def test_whatever_is_seen_beginnings_and_ends_alternate(looks: list[bool], every: Ms) -> None:
    found = told(looks, every)
    assert [what for _, what in found] == (["began", "ended"] * len(found))[: len(found)]
    for number, what in found:
        # What is told is true of the moment, and was for long enough.
        assert looks[number] is (what == "began")
        lasted = -(-(PATIENCE if what == "began" else CALM) // every)
        assert set(looks[max(0, number - lasted) : number + 1]) == {what == "began"}


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=30))
def test_problems_do_not_mix(looks: list[set[str]]) -> None:
    known: dict[str, Alert] = {}
    together: dict[str, list[tuple[int, str]]] = {id: [] for id in "abc"}
    for number, ids in enumerate(looks):
        kept, began, ended = after_look(known, [problem(id) for id in sorted(ids)], number * EVERY, {})
        known = {alert.problem.id: alert for alert in kept}
        for what, alerts in (("began", began), ("ended", ended)):
            for alert in alerts:
                together[alert.problem.id].append((number, what))
    for id in "abc":
        assert together[id] == told([id in ids for ids in looks])


def test_an_alert_has_the_words_of_the_last_look() -> None:
    [alert], _, _ = after_look({}, [problem(words="1 failed")], 0, {})
    [alert], [began], _ = after_look({"webhook/wh_1": alert}, [problem(words="2 failed")], PATIENCE, {})
    assert (alert, began.problem.words, began.since, began.told_at) == (began, "2 failed", 0, PATIENCE)


def days(usual: float, last: float, *, noise: float = 0) -> list[float]:
    values = [usual + (noise if number % 2 else -noise) for number in range(DAYS)]
    return [*values[:-1], last]


@pytest.mark.parametrize(
    ("payments", "revenue", "refunds", "expected"),
    [
        (days(100, 100), days(1000, 1000), days(10, 10), set()),
        (days(100, 70), days(1000, 700), days(10, 10), set()),
        (days(100, 40), days(1000, 400), days(10, 10), {"revenue"}),
        (days(100, 0), days(1000, 0), days(10, 0), {"revenue"}),
        (days(100, 200), days(1000, 2000), days(10, 10), {"revenue"}),
        (days(100, 100), days(1000, 1000), days(10, 400), {"refunds"}),
        (days(100, 100), days(1000, 1000), days(0, 90), set()),
        (days(100, 100), days(1000, 1000), days(0, 110), {"refunds"}),
        # A day that varies a lot may vary a lot; but nothing at all is news.
        (days(100, 30), days(1000, 300, noise=300), days(10, 10), set()),
        (days(100, 0), days(1000, 20, noise=300), days(10, 10), {"revenue"}),
        # A small project is left alone, and so is a young one.
        (days(19, 0), days(190, 0), days(0, 190), set()),
        ([0.0] * 30 + [100.0] * (DAYS - 31) + [0.0], [0.0] * 30 + [1000.0] * (DAYS - 31) + [0.0], [0.0] * DAYS, set()),
        ([100.0] * 20, [1000.0] * 19 + [0.0], [0.0] * 20, set()),
    ],
)
def test_numbers_out_of_their_usual_range(
    payments: list[float], revenue: list[float], refunds: list[float], expected: set[str]
) -> None:
    assert set(unusual(payments, revenue, refunds)) == expected


def test_a_day_is_compared_with_the_same_day_of_the_week() -> None:
    # Weekends are ten times a weekday; the last day is a weekday.
    week = [1000.0 if number % 7 in (5, 6) else 100.0 for number in range(DAYS)]
    assert unusual([50.0] * DAYS, week, [0.0] * DAYS) == {}
    assert usual_range(week) == (50, 150)
    assert set(unusual([50.0] * DAYS, [*week[:-1], 1000.0], [0.0] * DAYS)) == {"revenue"}


@given(st.lists(st.floats(0, 1e9), min_size=DAYS, max_size=DAYS), st.floats(0.001, 1000))
def test_what_is_unusual_depends_on_no_currency(revenue: list[float], rate: float) -> None:
    low, high = usual_range(revenue)
    assert 0 <= low <= high
    scaled = usual_range([value * rate for value in revenue])
    assert scaled == pytest.approx((low * rate, high * rate))


@given(st.floats(20, 1e6))
def test_a_day_like_all_others_is_usual_and_an_empty_one_is_not(usual: float) -> None:
    flat = [usual] * DAYS
    assert unusual(flat, flat, [0.0] * DAYS) == {}
    assert set(unusual(flat, [*flat[:-1], 0.0], [0.0] * DAYS)) == {"revenue"}


def at(text: str) -> Ms:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("report", "now", "expected"),
    [
        ("never", "2026-11-18T12:00", None),
        ("daily", "2026-11-18T07:59", "2026-11-18T08:00"),
        ("daily", "2026-11-18T08:00", "2026-11-19T08:00"),
        ("daily", "2026-12-31T12:00", "2027-01-01T08:00"),
        # A Wednesday, a Sunday, and Mondays before and after the hour.
        ("weekly", "2026-11-18T12:00", "2026-11-23T08:00"),
        ("weekly", "2026-11-22T23:59", "2026-11-23T08:00"),
        ("weekly", "2026-11-23T07:00", "2026-11-23T08:00"),
        ("weekly", "2026-11-23T08:00", "2026-11-30T08:00"),
    ],
)
def test_when_the_next_report_is_due(report: Report, now: str, expected: str | None) -> None:
    assert next_report(report, at(now)) == (at(expected) if expected else None)


@given(st.sampled_from(["daily", "weekly"]), st.integers(0, 4_000_000_000_000))
def test_a_report_is_due_soon_and_never_now(report: Report, now: Ms) -> None:
    found = next_report(report, now)
    assert found is not None
    assert now < found <= now + (DAY if report == "daily" else 7 * DAY)
    assert found % DAY == 8 * HOUR
    assert report == "daily" or (found // DAY + 3) % 7 == 0
