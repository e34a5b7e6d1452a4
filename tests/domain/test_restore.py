"""How a restored database is recognised, and what its numbers continue with."""

import pytest

from latchkey.domain.restore import DatabaseIdentity, Origin, may_lack_commits, origin, reason_of, stretch_of

HERE = DatabaseIdentity("7300000000000000001", 16384, 1)
PROMOTED = DatabaseIdentity("7300000000000000001", 16384, 2)
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
        (HERE, DatabaseIdentity("7399999999999999999", 16384, 1), None, Origin.RESTORED),
        (HERE, DatabaseIdentity("7300000000000000001", 20000, 1), None, Origin.RESTORED),
    ],
)
def test_what_became_of_a_database(
    known: DatabaseIdentity | None, found: DatabaseIdentity, reason: str | None, what: Origin
) -> None:
    assert origin(known, found, reason) is what


PROMOTED_ONCE = f"1\t0/3000148\t{WHOLLY}\n"
TO_A_MOMENT = "2\t0/5000000\tbefore 2026-11-16 10:00:00+00\n"


@pytest.mark.parametrize(
    ("history", "since", "reason"),
    [
        ("", 1, None),
        ("# by hand\n", 1, None),
        (PROMOTED_ONCE, 1, WHOLLY),
        (f"{PROMOTED_ONCE}\n{TO_A_MOMENT}", 1, "before 2026"),
        (f"{PROMOTED_ONCE}\n{TO_A_MOMENT}", 2, "before 2026"),
        # Promoted once more after it was restored: noticed, unless it was known by then.
        (f"{PROMOTED_ONCE}\n{TO_A_MOMENT}\n3\t0/7000000\t{WHOLLY}\n", 1, "before 2026"),
        (f"{PROMOTED_ONCE}\n{TO_A_MOMENT}\n3\t0/7000000\t{WHOLLY}\n", 3, WHOLLY),
    ],
)
def test_a_history_says_why_the_timelines_since_one_began(history: str, since: int, reason: str | None) -> None:
    found = reason_of(history, since)
    assert found is None if reason is None else (found or "").startswith(reason)


def test_numbers_skip_further_with_each_minute() -> None:
    assert [stretch_of(0), stretch_of(1_735_689_660_000), stretch_of(1_735_689_719_999)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("what", "waited", "waited_here", "lacks"),
    [
        (Origin.PROMOTED, True, True, False),
        (Origin.PROMOTED, False, True, True),
        # It stopped to wait while the standby was away, so the standby does not know.
        (Origin.PROMOTED, True, False, True),
        (Origin.UNCLEAR, True, True, False),
        (Origin.UNCLEAR, False, True, True),
        # Another process has noted the new server already, and knew less.
        (Origin.SAME, True, False, True),
        (Origin.SAME, False, True, False),
        # `after-restore` does more.
        (Origin.RESTORED, False, False, False),
    ],
)
def test_a_standby_may_lack_commits_that_did_not_wait_for_it(
    what: Origin, waited: bool, waited_here: bool, lacks: bool
) -> None:
    assert may_lack_commits(what, waited, waited_here) is lacks
