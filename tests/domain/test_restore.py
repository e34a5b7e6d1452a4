"""How a restored database is recognised, and what its numbers continue with."""

import pytest

from latchkey.domain.restore import DatabaseIdentity, Origin, may_lack_commits, origin, reason_of

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
