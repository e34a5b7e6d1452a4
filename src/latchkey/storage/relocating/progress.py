"""Where the copy stands. It is noted in the new database, in the same transaction as the rows, so that nothing is
applied twice or left out, whatever is interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from latchkey.storage.errors import NotRelocatableError, StillFilledError

COPYING: Final = "copying"
FOLLOWING: Final = "following"
DONE: Final = "done"

_TABLE = """
create table if not exists at_project.relocation (
    one boolean primary key default true check (one),
    state text not null,
    -- The server that the rows come from.
    system text not null,
    -- Transactions that the copy has seen.
    snapshot text not null,
    -- The commit of the last transaction that was applied, and those before it that were not.
    lsn bigint not null,
    held bigint[] not null
)
"""


@dataclass(frozen=True, slots=True)
class Progress:
    state: str
    system: str
    snapshot: str
    lsn: int
    held: frozenset[int]

    def wants(self, xid: int, lsn: int) -> bool:
        """Whether a transaction is still to be applied."""
        if visible(self.snapshot, xid):
            return False
        return lsn > self.lsn or xid in self.held


def visible(snapshot: str, xid: int) -> bool:
    """Whether a transaction is seen by a snapshot (`pg_current_snapshot()` as text). Of its id only the lower 32 bits
    are known."""
    least, end, running = snapshot.split(":")
    whole = int(end) + ((xid - int(end) + 2**31) % 2**32 - 2**31)
    if whole < int(least):
        return True
    return whole < int(end) and str(whole) not in running.split(",")


async def load(target: Any) -> Progress | None:
    if await target.fetchval("select to_regclass('at_project.relocation')") is None:
        return None
    row = await target.fetchrow("select * from at_project.relocation")
    if row is None:
        return None
    return Progress(row["state"], row["system"], row["snapshot"], row["lsn"], frozenset(row["held"]))


async def save(target: Any, progress: Progress) -> None:
    await target.execute(
        "insert into at_project.relocation (state, system, snapshot, lsn, held) values ($1, $2, $3, $4, $5)"
        " on conflict (one) do update set state = excluded.state, system = excluded.system,"
        " snapshot = excluded.snapshot, lsn = excluded.lsn, held = excluded.held",
        progress.state,
        progress.system,
        progress.snapshot,
        progress.lsn,
        sorted(progress.held),
    )


async def prepare(target: Any) -> None:
    await target.execute(_TABLE)


async def forget(target: Any) -> None:
    await target.execute("drop table if exists at_project.relocation")


async def require_filled(connection: Any) -> None:
    """Raise while the rows of this database are copied from another one."""
    progress = await load(connection)
    if progress is not None and progress.state != DONE:
        raise StillFilledError(
            "This database is being filled from another one and cannot be used before `latchkey admin cluster switch`. "
            "(`latchkey admin cluster cancel` gives it up.)"
        )


def require_following(progress: Progress | None, system: str) -> Progress:
    if progress is None or progress.state == COPYING:
        raise NotRelocatableError("Nothing was copied yet. Run `latchkey admin cluster follow` first.")
    if progress.system != system:
        raise NotRelocatableError("The rows in the cluster are of another server. Run `latchkey admin cluster cancel`.")
    return progress
