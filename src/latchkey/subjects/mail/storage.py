"""Mails that are to be sent."""

from dataclasses import dataclass

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetch_one
from latchkey.database.sql import query
from latchkey.domain.instants import Ms

_ADD = query("add_mail")
_CLAIM = query("claim_mail")
_POSTPONE = query("postpone_mail")
_REMOVE = query("remove_mail")


@dataclass(frozen=True, slots=True)
class OutgoingMail:
    id: int
    kind: str
    email: str
    # After this time nobody tries any more.
    expires_at: Ms
    # With the one that is made now.
    attempts: int


async def add(connection: Connection, kind: str, email: str, now: Ms, expires_at: Ms) -> None:
    await connection.execute(_ADD, kind, email, now, expires_at)


async def claim(connection: Executor, now: Ms, until: Ms) -> OutgoingMail | None:
    """The mail that has waited longest. If the process dies, another one takes it after `until`."""
    return await fetch_one(connection, OutgoingMail, _CLAIM, now, until)


async def postpone(connection: Connection, mail_id: int, due_at: Ms) -> None:
    await connection.execute(_POSTPONE, mail_id, due_at)


async def remove(connection: Connection, mail_id: int) -> None:
    await connection.execute(_REMOVE, mail_id)
