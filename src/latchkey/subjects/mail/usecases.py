"""What our mails say. Nothing in them is written by users but the address of the recipient: nobody can send text of
their own to others through this service. The mail to a buyer names what was bought, as the seller calls it."""

from __future__ import annotations

import asyncio
import os
import smtplib
import ssl
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Literal, Protocol

import structlog
from msgspec import Struct, convert, json

from latchkey.database.pool import Connection, Database, Executor
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.engine.due_work import Lookout
from latchkey.settings import Settings
from latchkey.subjects.accounts.rules import ADDRESS, Pace, checked_email, network_of, wait
from latchkey.subjects.accounts.usecases import sessions
from latchkey.subjects.accounts.usecases.accounts import add_link, find_account
from latchkey.subjects.accounts.usecases.sessions import TooManyGuesses
from latchkey.subjects.checkout.usecases.redemption_token import new_token
from latchkey.subjects.mail import storage
from latchkey.subjects.mail.rules import MailText, OutgoingMail, written


class MailKind(StrEnum):
    # Somebody was added to a team, and has no password yet.
    INVITATION = "invitation"
    # Somebody asked for a new password.
    RESET = "reset"
    # The password of an account was changed.
    CHANGED = "changed"
    # A customer has bought something by a link, and nobody knows who it is.
    REDEMPTION = "redemption"


class RedemptionLetter(Struct, frozen=True):
    # The hash of the checkout's id.
    checkout: bytes
    app: str
    product: str

    @property
    def names(self) -> dict[str, str]:
        """In one line each, and not too long for a subject."""
        return {name: " ".join(getattr(self, name).split())[:100] for name in ("app", "product")}


class Words(Struct, frozen=True):
    subject: str
    begins: str
    button: str
    ends: str
    # How long the link works. 0: it is no link for one account.
    hours: int = 0


_WORDS = tomllib.loads((files(__package__) / "words.toml").read_text(encoding="utf-8"))
WORDS = convert(_WORDS, dict[MailKind, Words])


def letter(kind: MailKind, link: str, **names: str) -> MailText:
    words = WORDS[kind]
    subject, begins = words.subject.format(**names), words.begins.format(**names)
    return MailText(subject=subject, words=begins, link=(link, words.button), ends=words.ends)


Security = Literal["starttls", "tls", "none"]
# Seconds for each step of the conversation.
PATIENCE = 20.0


class NotSentError(Exception):
    """The mail could not be sent now. The message names no address and no secret."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


def _check(message: EmailMessage) -> None:
    """Whatever a header was made of: one with a line break begins another header or the text, and is not sent."""
    if any({"\r", "\n"} & set(str(value)) for value in message.values()):
        raise NotSentError("a header of the mail has a line break in it", for_good=True)


class Way(Protocol):
    def send(self, message: EmailMessage, name: str) -> None: ...
    def check(self) -> str:
        """Tries everything but sending, and says what it found. Raises NotSentError."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)
    extra_ca: Path | None = None

    def send(self, message: EmailMessage, name: str) -> None:  # noqa: ARG002 - for files
        _check(message)
        with self._connected() as server:
            server.send_message(message)

    def check(self) -> str:
        with self._connected() as server:
            server.noop()
        return f"{self.host}:{self.port} takes mail"

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        try:
            server = self._server()
            try:
                if self.security == "starttls":
                    server.starttls(context=self._trust())
                if self.user:
                    server.login(self.user, self.password)
                yield server
            finally:
                # A mail that was accepted is sent, whatever the server answers now.
                with suppress(OSError, smtplib.SMTPException):
                    server.quit()
                server.close()
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise NotSentError(f"the server refuses the recipient ({codes})", for_good=min(codes) >= 500) from None
        except smtplib.SMTPAuthenticationError as error:
            raise NotSentError(f"the server refuses the user or the password ({error.smtp_code})") from None
        except smtplib.SMTPNotSupportedError as error:
            raise NotSentError(f"the server cannot do that: {error}") from None
        except smtplib.SMTPResponseException as error:
            # The server's own words may repeat an address.
            raise NotSentError(f"the server answers {error.smtp_code}") from None
        except ssl.SSLCertVerificationError as error:
            raise NotSentError(f"the server's certificate is not trusted: {error.verify_message}") from None
        except (OSError, smtplib.SMTPException) as error:
            raise NotSentError(
                f"{type(error).__name__}: the server cannot be reached or ended the connection"
            ) from None
        except (ValueError, UnicodeError):
            raise NotSentError("the address cannot be written in a mail", for_good=True) from None

    def _server(self) -> smtplib.SMTP:
        if self.security == "tls":
            return smtplib.SMTP_SSL(self.host, self.port, timeout=PATIENCE, context=self._trust())
        return smtplib.SMTP(self.host, self.port, timeout=PATIENCE)

    def _trust(self) -> ssl.SSLContext:
        trust = ssl.create_default_context()
        if self.extra_ca is not None:
            trust.load_verify_locations(self.extra_ca)
        return trust


class MailFolder(Struct, frozen=True):
    """For one machine: each mail is a file that mail programs open."""

    path: Path

    def send(self, message: EmailMessage, name: str) -> None:
        _check(message)
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Whoever reads the link can sign in.
            place = os.open(self.path / f"{name}.eml", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(place, "wb") as file:
                file.write(message.as_bytes())
        except OSError as error:
            raise NotSentError(f"the folder for mails cannot be written: {error.strerror}") from None

    def check(self) -> str:
        existing = next(path for path in (self.path, *self.path.parents) if path.exists())
        if not os.access(existing, os.W_OK):
            raise NotSentError(f"{existing} cannot be written")
        return f"mails are written to files in {self.path}"


LEASE: Ms = 5 * MINUTE
# How long a mail is tried for. A link that somebody asked for is of no use much later.
TRIED_FOR: Ms = 3 * DAY
RESET_TRIED_FOR: Ms = 1 * HOUR
FIRST_PAUSE: Ms = 15 * SECOND
LONGEST_PAUSE: Ms = 30 * MINUTE
# Mails to one address: more are not sent, and the page says the same.
TO_ONE = Pace(free=3, first=5 * MINUTE, longest=1 * HOUR, counted_for=1 * DAY)

log = structlog.get_logger()


class Mail(Struct, frozen=True):
    database: Database
    way: Way
    sender: str
    # The service's public address, for links. Never the Host header of a request: its sender could choose it.
    public_url: str
    # For the links of buyers. Tests that send none need none.
    sealer: Sealer | None = None

    @property
    def folder(self) -> str | None:
        """Where mails are written to, if they are not sent."""
        return str(self.way.path) if isinstance(self.way, MailFolder) else None

    async def add(
        self,
        kind: MailKind,
        email: str,
        now: Ms,
        about: RedemptionLetter | None = None,
        connection: Connection | None = None,
    ) -> None:
        """A mail to be sent: an invitation; that a password was changed, in case it was somebody else; a purchase."""
        lasts = RESET_TRIED_FOR if kind is MailKind.RESET else TRIED_FOR
        await add_message(connection or self.database, kind, now, lasts, about, email=email)

    async def send_again(self, email: str, about: RedemptionLetter, now: Ms) -> None:
        """Another link to the same purchase; not more than a few."""
        async with self.database.transaction() as connection:
            if await _may_mail(connection, email, now):
                await sessions.note_failures(connection, [_to(email)], now)
                await self.add(MailKind.REDEMPTION, email, now, about, connection)

    async def ask_for_reset(self, email: str, address: str, now: Ms) -> None:
        """The same for every e-mail address, known or not. Raises TooManyGuesses for a client that asks too often."""
        email = checked_email(email)
        mine, theirs = f"mail from {network_of(address)}", _to(email)
        async with self.database.transaction() as connection:
            asked = await sessions.failures_of(connection, mine, now - ADDRESS.counted_for)
            if left := wait(ADDRESS, asked.count, asked.last_at, now):
                raise TooManyGuesses(left, "requests")
            if not await _may_mail(connection, email, now):
                await sessions.note_failures(connection, [mine], now)
                return
            await sessions.note_failures(connection, [mine, theirs], now)
            await self.add(MailKind.RESET, email, now, connection=connection)

    async def send(self, one: OutgoingMail, now: Ms) -> None:
        """A mail of a kind above. Raises NotSentError."""
        assert one.email is not None
        kind, to, names = MailKind(one.kind), one.email, {}
        if one.about is not None:
            about = json.decode(one.about, type=RedemptionLetter)
            assert self.sealer is not None
            link = f"{self.public_url}/buy/redeem/{new_token(self.sealer, about.checkout, now)}"
            names = about.names
        else:
            account = await find_account(self.database, one.email)
            # Who signs in through OpenID Connect only gets no password this way.
            if account is None or (account.openid is not None and not account.has_password):
                raise NotSentError("no account with a password", for_good=True)
            to, link = account.email, f"{self.public_url}/dashboard/forgotten"
            if hours := WORDS[kind].hours:
                token = await add_link(self.database, account.id, now, hours * HOUR)
                link = f"{self.public_url}/dashboard/invitations/{token}"
        await self.deliver(one, to, letter(kind, link, **names), now)

    async def deliver(
        self, one: OutgoingMail, to: str, letter: MailText, now: Ms, *, stop: str = "", settings: str = ""
    ) -> None:
        """Raises NotSentError."""
        # The id is the same with every attempt, so that a mail program shows one of them.
        id = f"<{one.kind}-{one.id}.{one.expires_at}@latchkey.invalid>"
        made = written(letter, self.sender, to, id, now, stop=stop, settings=settings)
        await asyncio.to_thread(self.way.send, made, f"{stamp(now)}-{one.kind}-{one.id}")


def stamp(now: Ms) -> str:
    """The beginning of a file's name."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


async def add_message(
    connection: Executor,
    kind: str,
    now: Ms,
    lasts: Ms,
    about: Struct | None = None,
    *,
    email: str | None = None,
    member: tuple[str | None, str | None] = (None, None),
) -> None:
    """To an address, or to a member: their account and their project."""
    said = json.encode(about).decode() if about is not None else None
    await storage.add(connection, kind, email, now, now + lasts, said, *member)


def _to(email: str) -> str:
    """How mails to this address are counted."""
    return f"mail to {email}"


async def _may_mail(connection: Connection, email: str, now: Ms) -> bool:
    sent = await sessions.failures_of(connection, _to(email), now - TO_ONE.counted_for)
    return not wait(TO_ONE, sent.count, sent.last_at, now)


# Sends a message, or raises NotSentError.
Send = Callable[[OutgoingMail, Ms], Awaitable[None]]


async def run_mail(
    lookout: Lookout, database: Database, send: Send, now: Callable[[], Ms], stop: asyncio.Event
) -> None:
    """Sends what is due until the lookout ends. A mail under way is finished, or tried again after its lease."""
    while await lookout.until(lambda seen: seen.mail_at) is not None:
        try:
            while not stop.is_set() and await send_next(database, send, now):
                pass
        except Exception:
            # The database may be unreachable, or charts of a report are being built. Mails are then late.
            log.exception("mail failed")


async def send_next(database: Database, send: Send, now: Callable[[], Ms]) -> bool:
    """Sends the mail that is next. Returns whether there was one."""
    one = await storage.claim(database, now(), now() + LEASE)
    if one is None:
        return False
    about = {"mail": one.id, "kind": one.kind}
    if one.expires_at <= now():
        log.warning("mail given up", **about, attempts=one.attempts)
    else:
        try:
            await send(one, now())
            log.info("mail sent", **about)
        except NotSentError as error:
            log.warning("mail not sent", **about, attempts=one.attempts, error=str(error))
            if not error.for_good:
                pause = min(FIRST_PAUSE << min(one.attempts - 1, 20), LONGEST_PAUSE)
                await storage.postpone(database, one.id, now() + pause)
                return True
    await storage.remove(database, one.id)
    return True


NO_MAIL = (
    "This service sends no mail. Whoever runs it sets LATCHKEY_SMTP_HOST, LATCHKEY_MAIL_FROM and LATCHKEY_PUBLIC_URL."
)
# Of mails that are written to files and never leave this machine.
NOBODY = "Latchkey <latchkey@localhost>"


def way_of(settings: Settings) -> Way | None:
    """None: no mail is sent, and links are shown to be copied."""
    if settings.smtp_host:
        return SmtpServer(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_security,
            settings.smtp_user,
            settings.smtp_password,
            settings.smtp_extra_ca,
        )
    return MailFolder(settings.mail_folder) if settings.mail_folder is not None else None


def mail_of(database: Database, settings: Settings) -> Mail | None:
    way = way_of(settings)
    if way is None or not settings.public_url:
        return None
    sealer = Sealer(settings.secret_key)
    return Mail(database, way, settings.mail_from or NOBODY, settings.public_url.rstrip("/"), sealer)
