"""A database that was set back to an earlier moment: how it is recognised, and which numbers must not be given twice.

The world outside has seen events that the restored database does not know. It will give the same sequences and
positions to other events, and a receiver would take those for repetitions. So all of them continue far above anything
that can have been given.
"""

from enum import StrEnum
from typing import NamedTuple

# No customer had so many events, and no project so many events or new customers, between the moment to which a database
# was restored and the moment of the restore.
SEQUENCES = 1_000_000
POSITIONS = 1_000_000_000
CUSTOMERS = 1_000_000_000

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


def origin(known: DatabaseIdentity | None, found: DatabaseIdentity, reason: str | None) -> Origin:
    """What became of the database since it was last seen. `reason` is PostgreSQL's for the newest timeline; None if it
    cannot be read."""
    if known is None or known == found:
        return Origin.SAME
    if (known.system_identifier, known.database_oid) != (found.system_identifier, found.database_oid):
        return Origin.RESTORED
    if reason is None:
        return Origin.UNCLEAR
    return Origin.PROMOTED if reason == _REPLAYED_WHOLLY else Origin.RESTORED


def reason_of(history: str) -> str | None:
    """The reason in a timeline's history file, which has a line for each timeline before it."""
    lines = [line.split("\t") for line in history.splitlines() if line.strip() and not line.startswith("#")]
    return lines[-1][2].strip() if lines and len(lines[-1]) > 2 else None


def may_lack_commits(what: Origin, waited: bool, waited_here: bool) -> bool:
    """Whether a failover may have lost commits: they did not wait for the standby that took over. `waited` is what the
    database says of the server before, `waited_here` what this process saw of it; it may know better, and later than
    another process that has noted the new server already."""
    return what is not Origin.RESTORED and not (waited_here and (waited or what is Origin.SAME))
