"""How long a store is waited for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.purchases.lifecycle import RENEWAL_LEEWAY
from latchkey.domain.purchases.subscription import Pause
from latchkey.domain.stores import waits
from tests.domain.test_lifecycle import END, SUB

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("now", "asked_at"),
    [
        (END - 40 * DAY, END - 10 * DAY),
        (END - 1 * DAY, END + 2 * HOUR),
        (END + 2 * HOUR - 1, END + 2 * HOUR),
        (END + 2 * HOUR, END + 4 * HOUR),
        (END + 10 * DAY, END + 15 * DAY),
        (END + 60 * DAY, None),
    ],
)
def test_a_store_is_asked_after_the_end_and_then_less_and_less_often_for_two_months(
    now: Ms, asked_at: Ms | None
) -> None:
    assert waits.check_at(SUB, now) == asked_at


def test_a_paused_subscription_is_asked_about_when_its_pause_ends() -> None:
    paused = replace(SUB, status=replace(SUB.status, pause=Pause(END - DAY, END + 20 * DAY)))
    assert waits.check_at(paused, END + DAY) == END + 20 * DAY + 2 * HOUR


def test_a_store_is_asked_before_the_expiration_event() -> None:
    assert waits.REPORTED_WITHIN < RENEWAL_LEEWAY


@pytest.mark.parametrize(
    ("attempts", "retry_after", "wait"),
    [(1, None, 2 * SECOND), (7, None, HOUR), (50, None, HOUR), (1, 5 * MINUTE, 5 * MINUTE), (7, MINUTE, HOUR)],
)
def test_attempts_wait_longer_and_longer_or_as_long_as_the_store_asks(
    attempts: int, retry_after: Ms | None, wait: Ms
) -> None:
    assert waits.retry_wait(attempts, retry_after) == wait


@pytest.mark.parametrize(("age", "attempts", "given_up"), [(4 * DAY, 8, True), (4 * DAY, 7, False), (DAY, 99, False)])
def test_an_entry_is_given_up_after_three_days_and_all_its_retries(age: Ms, attempts: int, given_up: bool) -> None:
    assert waits.is_given_up(NOW - age, attempts, NOW) is given_up


@pytest.mark.parametrize(
    ("read_to", "since"),
    [(None, NOW - 3 * DAY), (NOW - 30 * MINUTE, None), (NOW - HOUR, NOW - 2 * HOUR), (0, NOW - 179 * DAY)],
)
def test_a_history_is_read_every_hour_with_an_overlap_as_far_back_as_it_goes(read_to: Ms | None, since: Ms) -> None:
    assert waits.history_since(read_to, NOW) == since
