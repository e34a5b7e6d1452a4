"""How a restored database is recognised, and what its numbers continue with."""

from __future__ import annotations

import pytest

from latchkey.domain.restore import SEQUENCES, Origin, Server, next_floor, origin, reason_of

HERE = Server("7300000000000000001", 16384, 1)
PROMOTED = Server("7300000000000000001", 16384, 2)
WHOLLY = "no recovery target specified"


@pytest.mark.parametrize(
    ("known", "found", "reason", "what"),
    [
        (None, HERE, None, Origin.SAME),
        (HERE, HERE, None, Origin.SAME),
        (HERE, PROMOTED, WHOLLY, Origin.PROMOTED),
        (HERE, PROMOTED, "before 2026-11-16 10:00:00+00", Origin.RESTORED),
        (HERE, PROMOTED, 'at restore point "middle"', Origin.RESTORED),
        (HERE, PROMOTED, "reached consistency", Origin.RESTORED),
        (HERE, PROMOTED, None, Origin.UNCLEAR),
        # A dump, loaded into another server or into another database of the same one.
        (HERE, Server("7399999999999999999", 16384, 1), None, Origin.RESTORED),
        (HERE, Server("7300000000000000001", 20000, 1), None, Origin.RESTORED),
    ],
)
def test_what_became_of_a_database(known: Server | None, found: Server, reason: str | None, what: Origin) -> None:
    assert origin(known, found, reason) is what


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ("", None),
        ("1\t0/3000148\tno recovery target specified\n", WHOLLY),
        ("1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tbefore 2026-11-16 10:00:00+00\n", "before 2026"),
        ("# by hand\n", None),
    ],
)
def test_the_last_line_of_a_history_says_why_the_timeline_began(history: str, reason: str | None) -> None:
    found = reason_of(history)
    assert found is None if reason is None else (found or "").startswith(reason)


@pytest.mark.parametrize("highest", [0, 1, 999_999, 1_000_000, 2_000_007])
def test_sequences_continue_far_above_everything_that_was_given(highest: int) -> None:
    floor = next_floor(highest)
    assert floor >= highest + SEQUENCES
    assert floor % SEQUENCES == 0
    # After a hundred restores it still fits an integer of 32 bits.
    for _ in range(100):
        floor = next_floor(floor + 50)
    assert floor < 2**31
