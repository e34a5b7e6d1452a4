"""A database that was set back to an earlier moment: how it is recognised, and which numbers must not be given twice.

The world outside has seen events that the restored database does not know. It will give the same sequences and
positions to other events, and a receiver would take those for repetitions. So all of them continue far above anything
that can have been given.
"""

from enum import StrEnum
from typing import NamedTuple

from latchkey.domain.instants import MINUTE, Ms

# No customer had so many events, and no project so many events or new customers, between the moment to which a database
# was restored and the moment of the restore.
SEQUENCES = 1_000_000
POSITIONS = 1_000_000_000
CUSTOMERS = 1_000_000_000

# 2025-01-01. Numbers skip at least to one such stretch for each minute since: a backup that is restored a second time
# does not know how far they had skipped after the first.
_FIRST_MINUTE: Ms = 1_735_689_600_000

# PostgreSQL writes this where a standby was promoted, or all of the write-ahead log was replayed.
_REPLAYED_WHOLLY = "no recovery target specified"


class DatabaseIdentity(NamedTuple):
    """Where a database is."""

    # Stays with a base backup and a standby; a dump is loaded into a server that has another one.
    system_identifier: str
    # Of the database and of a table in it: a dump creates both, or at least the table, anew.
    database_oid: int
    # Grows when a standby is promoted, and when a base backup was restored.
    timeline: int


class Origin(StrEnum):
    SAME = "same"
    # A standby took over. If commits waited for it, it has all of them.
    PROMOTED = "promoted"
    RESTORED = "restored"
    # The timeline is another one, and the server does not say why.
    UNCLEAR = "unclear"


def stretch_of(now: Ms) -> int:
    return max(0, now - _FIRST_MINUTE) // MINUTE


def origin(known: DatabaseIdentity | None, found: DatabaseIdentity, reason: str | None) -> Origin:
    """What became of the database since it was last seen. `reason` is PostgreSQL's for the timelines since; None if it
    cannot be read."""
    if known is None or known == found:
        return Origin.SAME
    if (known.system_identifier, known.database_oid) != (found.system_identifier, found.database_oid):
        return Origin.RESTORED
    if reason is None:
        return Origin.UNCLEAR
    return Origin.PROMOTED if reason == _REPLAYED_WHOLLY else Origin.RESTORED


def reason_of(history: str, since: int) -> str | None:
    """Why a timeline and those before it began, back to one: the reason of a restore, if there was any. Of the
    timeline's history file, which has a line for each timeline that was left."""
    lines = [line.split("\t") for line in history.splitlines() if line.strip() and not line.startswith("#")]
    reasons = [words[2].strip() for words in lines if len(words) > 2 and int(words[0]) >= since]
    return next((reason for reason in reasons if reason != _REPLAYED_WHOLLY), reasons[-1] if reasons else None)


def may_lack_commits(what: Origin, waited: bool, waited_here: bool) -> bool:
    """Whether a failover may have lost commits: they did not wait for the standby that took over. `waited` is what the
    database says of the server before, `waited_here` what this process saw of it; it may know better, and later than
    another process that has noted the new server already."""
    return what is not Origin.RESTORED and not (waited_here and (waited or what is Origin.SAME))
