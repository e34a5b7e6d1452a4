"""Mails that are to be sent."""

from dataclasses import dataclass

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetch_one
from latchkey.database.sql import query
from latchkey.domain.instants import Ms


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
    await connection.execute(query("add_mail"), kind, email, now, expires_at)


async def claim(connection: Executor, now: Ms, until: Ms) -> OutgoingMail | None:
    """The mail that has waited longest. If the process dies, another one takes it after `until`."""
    return await fetch_one(connection, OutgoingMail, query("claim_mail"), now, until)


async def postpone(connection: Connection, mail_id: int, due_at: Ms) -> None:
    await connection.execute(query("postpone_mail"), mail_id, due_at)


async def remove(connection: Connection, mail_id: int) -> None:
    await connection.execute(query("remove_mail"), mail_id)
