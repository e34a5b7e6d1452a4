"""The outbox: what pages ask for is stored, and sent by the clock role. A mail server that is away delays mails, loses
none, and blocks no page.

A row has no token and no text. The link is made when the mail is sent, which is also when it turns out whether there is
such an account: so asking for a mail takes the same time for every address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import structlog

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.team.account import checked_email
from latchkey.domain.team.guessing import ADDRESS, Pace, network_of, wait
from latchkey.storage.access import sessions
from latchkey.storage.database import Database
from latchkey.storage.mail import outbox
from latchkey.storage.mail.outbox import OutgoingMail
from latchkey.usecases.access.accounts import add_link, find_account
from latchkey.usecases.access.sessions import TooManyGuesses
from latchkey.usecases.engine.lookout import Lookout
from latchkey.usecases.mail.message import WORDS, Kind, message
from latchkey.usecases.mail.sending import MailFolder, NotSentError, Way

LEASE: Ms = 5 * MINUTE
# How long a mail is tried for. A link that somebody asked for is of no use much later.
TRIED_FOR: dict[Kind, Ms] = {Kind.INVITATION: 3 * DAY, Kind.RESET: 1 * HOUR, Kind.CHANGED: 3 * DAY}
FIRST_PAUSE: Ms = 15 * SECOND
LONGEST_PAUSE: Ms = 30 * MINUTE
# Mails to one address: more are not sent, and the page says the same.
TO_ONE = Pace(free=3, first=5 * MINUTE, longest=1 * HOUR, counted_for=1 * DAY)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Mail:
    database: Database
    way: Way
    sender: str
    # The service's public address, for links. Never the Host header of a request: its sender could choose it.
    public_url: str

    @property
    def folder(self) -> str | None:
        """Where mails are written to, if they are not sent."""
        return str(self.way.path) if isinstance(self.way, MailFolder) else None

    async def invite(self, email: str, now: Ms) -> None:
        async with self.database.transaction() as connection:
            await outbox.add(connection, Kind.INVITATION, email, now, now + TRIED_FOR[Kind.INVITATION])

    async def tell_of_change(self, email: str, now: Ms) -> None:
        """The password of an account was changed: its owner must know, in case it was somebody else."""
        async with self.database.transaction() as connection:
            await outbox.add(connection, Kind.CHANGED, email, now, now + TRIED_FOR[Kind.CHANGED])

    async def ask_for_reset(self, email: str, address: str, now: Ms) -> None:
        """The same for every e-mail address, known or not. Raises TooManyGuesses for a client that asks too often."""
        email = checked_email(email)
        mine, theirs = f"mail from {network_of(address)}", f"mail to {email}"
        async with self.database.transaction() as connection:
            asked = await sessions.failures(connection, mine, now - ADDRESS.counted_for)
            if left := wait(ADDRESS, asked.count, asked.last_at, now):
                raise TooManyGuesses(left, "requests")
            sent = await sessions.failures(connection, theirs, now - TO_ONE.counted_for)
            if wait(TO_ONE, sent.count, sent.last_at, now):
                await sessions.note_failures(connection, [mine], now)
                return
            await sessions.note_failures(connection, [mine, theirs], now)
            await outbox.add(connection, Kind.RESET, email, now, now + TRIED_FOR[Kind.RESET])


async def run_mail(lookout: Lookout, mail: Mail, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Sends what is due until the lookout ends. A mail under way is finished, or tried again after its lease."""
    while await lookout.until(lambda seen: seen.mail_at) is not None:
        try:
            while not stop.is_set() and await send_next(mail, now):
                pass
        except Exception:
            # The database may be unreachable. Mails are then late.
            log.exception("mail failed")


async def send_next(mail: Mail, now: Callable[[], Ms]) -> bool:
    """Sends the mail that has waited longest. Returns whether there was one."""
    async with mail.database.acquire() as connection:
        one = await outbox.claim(connection, now(), now() + LEASE)
    if one is None:
        return False
    done = True
    if one.expires_at <= now():
        log.warning("mail given up", mail=one.id, kind=one.kind, attempts=one.attempts)
    else:
        done = await _send(mail, one, now())
    async with mail.database.acquire() as connection:
        if done:
            await outbox.remove(connection, one.id)
        else:
            pause = min(FIRST_PAUSE << min(one.attempts - 1, 20), LONGEST_PAUSE)
            await outbox.postpone(connection, one.id, now() + pause)
    return True


async def _send(mail: Mail, one: OutgoingMail, now: Ms) -> bool:
    """Whether nothing is left to do."""
    kind = Kind(one.kind)
    account = await find_account(mail.database, one.email)
    # Who signs in through OpenID Connect only gets no password this way.
    if account is None or (account.openid is not None and not account.has_password):
        log.info("mail not sent, no account with a password", mail=one.id, kind=kind)
        return True
    link = f"{mail.public_url}/dashboard/forgotten"
    if lasts := WORDS[kind].lasts:
        link = f"{mail.public_url}/dashboard/invitations/{await add_link(mail.database, account.id, now, lasts)}"
    at = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    made = message(kind, mail.sender, account.email, link, f"<{uuid4()}@latchkey.invalid>")
    try:
        await asyncio.to_thread(mail.way.send, made, f"{at}-{kind}-{one.id}")
    except NotSentError as error:
        log.warning("mail not sent", mail=one.id, kind=kind, attempts=one.attempts, error=str(error))
        return error.for_good
    log.info("mail sent", mail=one.id, kind=kind)
    return True
