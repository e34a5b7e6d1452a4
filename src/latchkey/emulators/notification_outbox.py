"""Notifications on their way to the service: sent, tried again as the store does, and recorded with every answer."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from latchkey.domain.instants import HOUR, Ms
from latchkey.emulators.misbehaviour import Fate
from latchkey.http_client import HttpClient, HttpError, HttpTimeoutError

if TYPE_CHECKING:
    from latchkey.emulators.emulator import Emulator

TIMEOUT = 30.0
# Held back no longer than this, where no later notification comes that could overtake.
_LONGEST_HOLD: Ms = HOUR
# Of an answer so much is kept.
_KEPT = 300
# The oldest notifications are forgotten beyond this.
_MOST = 10_000


class SendAttempt(msgspec.Struct, frozen=True, kw_only=True):
    # On the emulator's clock.
    at: Ms
    # "sent", "dropped", or "lied about ..."
    did: str
    status: int | None = None
    # What the service answered, or why there was no answer.
    answer: str = ""


class OutgoingNotification(msgspec.Struct, kw_only=True):
    """One notification. `content` is what the store's own module needs to write it down."""

    id: str
    kind: str
    subject: str | None
    at: Ms
    content: Any
    fate: Fate = Fate()
    due_at: Ms = 0
    # As the sale asked. Nothing sends it earlier.
    not_before: Ms = 0
    # Counted from 1, as they were posted.
    number: int = 0
    state: Literal["waiting", "delivered", "lost", "given up"] = "waiting"
    attempts: list[SendAttempt] = []


class NotificationRequest(msgspec.Struct, frozen=True):
    headers: dict[str, str]
    body: bytes


class NotificationOutbox:
    def __init__(self, store: "Emulator[Any, Any]") -> None:
        self.url: str | None = None
        # The certificate authority of the service, read when it is needed.
        self.authority: Callable[[], bytes | None] = lambda: None
        self.messages: list[OutgoingNotification] = []
        # Called after every attempt.
        self.attempted: Callable[[OutgoingNotification, SendAttempt], None] = lambda _, __: None
        self._store = store
        self._now = store.clock.now
        self._dice = store.dice
        self._posted = 0
        self._client: HttpClient | None = None
        self._sending = asyncio.Lock()

    def post(self, message: OutgoingNotification) -> None:
        self._posted += 1
        message.fate = self._dice.fate()
        message.due_at = message.at + max(message.fate.late_by, _LONGEST_HOLD if message.fate.overtaken_by else 0)
        message.number = self._posted
        self.messages.append(message)
        del self.messages[:-_MOST]

    def hold(self, subject: str, until: Ms) -> None:
        """Send what waits about this purchase not before `until`."""
        for message in self.waiting():
            if message.subject == subject:
                message.not_before = until
                message.due_at = max(message.due_at, until)

    def waiting(self) -> list[OutgoingNotification]:
        return [message for message in self.messages if message.state == "waiting"]

    def next_due(self) -> Ms | None:
        return min((message.due_at for message in self.waiting()), default=None) if self.url else None

    async def deliver(self, *, everything: bool = False) -> None:
        """Send what is due; with `everything`, also what misbehaviour holds back or what waits for its next try."""
        if self.url is None:
            return
        async with self._sending:
            tried: set[str] = set()
            while message := self._next(tried, everything):
                tried.add(message.id)
                await self._send(message)

    async def send_again(self, message: OutgoingNotification) -> SendAttempt:
        """Once more, whatever became of it before."""
        async with self._sending:
            return await self._attempt(message, None)

    async def send_to(self, url: str | None) -> None:
        """From now on. The authority of the service is read anew: it may not have been there before."""
        await self.close()
        self.url = url

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _next(self, tried: set[str], everything: bool) -> OutgoingNotification | None:
        # One that is overtaken by two comes after the second of them.
        for message in sorted(self.waiting(), key=lambda one: (one.number + one.fate.overtaken_by, -one.number)):
            allowed = message.not_before <= self._now() and message.id not in tried
            if allowed and (everything or self._due(message)):
                return message
        return None

    def _due(self, message: OutgoingNotification) -> bool:
        if message.due_at <= self._now():
            return True
        overtaken = message.fate.overtaken_by and not message.fate.late_by and not message.attempts
        return bool(overtaken) and self._posted >= message.number + message.fate.overtaken_by

    async def _send(self, message: OutgoingNotification) -> None:
        if message.fate.drop:
            message.state = "lost"
            dropped = SendAttempt(at=self._now(), did="dropped")
            message.attempts.append(dropped)
            self.attempted(message, dropped)
            return
        for _ in range(message.fate.copies):
            attempt = await self._attempt(message, self._dice.lie())
        if message.state == "delivered":
            return
        following = self._store.next_try(message)
        if following is None:
            message.state = "given up"
        else:
            message.due_at = max(following, attempt.at)

    async def _attempt(self, message: OutgoingNotification, lie: str | None) -> SendAttempt:
        assert self.url is not None
        letter = self._store.write(message, lie)
        if self._dice.wanted.delay_ms:
            await asyncio.sleep(self._dice.wanted.delay_ms / 1000)
        did = f"lied about {lie}" if lie else "sent"
        at = self._now()
        try:
            if self._client is None:
                # The service is on the same machine or near, so plain HTTP is allowed and no proxy is asked.
                self._client = HttpClient(
                    timeout=TIMEOUT,
                    user_agent="latchkey-emulator",
                    extra_ca=self.authority(),
                    https_only=False,
                    use_proxy=False,
                )
            headers = {"Content-Type": "application/json", **letter.headers}
            response = await self._client.ask("POST", self.url, headers=headers, body=letter.body, most_bytes=_KEPT)
            answer = response.body[:_KEPT].decode("utf-8", "replace")
            attempt = SendAttempt(at=at, did=did, status=response.status, answer=answer)
        except HttpTimeoutError:
            attempt = SendAttempt(at=at, did=did, answer=f"no answer within {TIMEOUT:.0f} s")
        except (HttpError, OSError, ValueError) as error:
            attempt = SendAttempt(at=at, did=did, answer=f"no answer: {type(error).__name__}")
        message.attempts.append(attempt)
        if attempt.status in self._store.accepted and lie is None:
            message.state = "delivered"
        self.attempted(message, attempt)
        return attempt
