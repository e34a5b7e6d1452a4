"""When a part begins, and when it is dropped."""

from __future__ import annotations

import pytest

from latchkey.domain.webhooks.parts import (
    KEPT,
    LARGE,
    LARGEST_OF_EVENTS,
    SMALLEST,
    Part,
    Sizes,
    deleted_before,
    next_part,
    to_drop,
)

DAY = 24 * 3600 * 1000
NOW = 1000 * DAY
MONTH = 30 * DAY


@pytest.mark.parametrize(
    ("number", "age", "sizes", "opened"),
    [
        # A small installation stays with its first part.
        (0, 999 * DAY, Sizes(SMALLEST - 1, LARGEST_OF_EVENTS - 1), None),
        (0, MONTH // 4, Sizes(SMALLEST, 0), 1),
        (0, MONTH // 4 - 1, Sizes(SMALLEST, 0), None),
        (7, 1 * DAY, Sizes(LARGE, 0), 8),
        (7, 1 * DAY - 1, Sizes(LARGE, 0), None),
        # Events alone: without webhooks there are no deliveries.
        (7, 0, Sizes(0, LARGEST_OF_EVENTS), 1000),
        (999, MONTH // 4, Sizes(SMALLEST, 0), 1000),
        (1003, 0, Sizes(0, LARGEST_OF_EVENTS), 2000),
        # A clock that was ahead when the part was opened.
        (7, -999 * DAY, Sizes(LARGE, 0), None),
    ],
)
def test_a_part_begins_when_the_one_before_is_old_and_large_enough(
    number: int, age: int, sizes: Sizes, opened: int | None
) -> None:
    assert next_part(Part(number, NOW - age), sizes, NOW, MONTH) == opened


def test_what_is_kept_for_a_few_days_is_not_cut_into_hours() -> None:
    assert next_part(Part(0, NOW - DAY + 1), Sizes(SMALLEST, 0), NOW, 2 * DAY) is None
    assert next_part(Part(0, NOW - DAY), Sizes(SMALLEST, 0), NOW, 2 * DAY) == 1


def test_a_part_is_dropped_when_the_next_one_is_older_than_what_is_kept() -> None:
    parts = [Part(KEPT, 0), Part(0, 0), Part(1, NOW - 36 * DAY), Part(2, NOW - 31 * DAY), Part(1000, NOW - 30 * DAY)]
    assert to_drop(parts, NOW, MONTH) == [0, 1]
    assert to_drop(parts, NOW + 1, MONTH) == [0, 1, 2]
    # Neither the newest, nor the one that keeps what outlives the others.
    assert to_drop(parts, NOW + 999 * DAY, MONTH) == [0, 1, 2]
    assert to_drop(parts[:2], NOW + 999 * DAY, MONTH) == []


def test_deliveries_of_a_closed_part_wait_for_it_to_be_dropped() -> None:
    parts = [Part(KEPT, 0), Part(0, 0), Part(1, NOW - DAY)]
    assert deleted_before(KEPT, parts, NOW, MONTH) == deleted_before(1, parts, NOW, MONTH) == NOW - MONTH
    assert deleted_before(0, parts, NOW, MONTH) == NOW - 40 * DAY
