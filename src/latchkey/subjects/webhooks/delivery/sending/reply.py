"""A receiver's response, in two steps.

Only the status decides whether an attempt succeeded. The body is kept for the log, up to a limit; a problem with the
body does not change the outcome. So `Sender.post` returns a `Reply` when the status has arrived; then follows the
`AttemptResult`:

- `Reply.at_once` takes the body without waiting, if it has arrived too. It nearly always has.
- `Reply.read` waits for the body, and gives up on one that does not end.

The worker calls `at_once` for a whole batch, shortly before it is recorded. The alternative is to read every body in
the delivery's own task, which the client's thread must then wake a second time. In two of three runs that took 6 to 8 %
more CPU for a delivery and made 10 % fewer a second.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.http_client import Chunk, HttpError, StreamedRequest, StreamedResponse, header_of, parse_retry_after
from latchkey.subjects.webhooks.delivery.destination import hidden_in
from latchkey.subjects.webhooks.delivery.sending import resolver
from latchkey.subjects.webhooks.delivery.sending.request import Letterhead, ResponseHeaders, hidden_in_bytes
from latchkey.subjects.webhooks.storage.lanes import AttemptResult

# How much of a response body is kept, and how many seconds to wait for it after the status. The customer's next
# delivery waits as long.
BODY_LIMIT = 16 * 1024
BODY_PATIENCE = 1.0


class Reply(Struct):
    """A response whose status and headers have arrived."""

    letterhead: Letterhead
    at: Ms
    took_ms: int
    # JSON, with secrets masked.
    request_headers: bytes
    request: StreamedRequest
    response: StreamedResponse
    kept: bytes = b""
    # A read that `at_once` began and that had to wait; `read` continues it.
    begun: Coroutine[Any, Any, Chunk | None] | None = None

    def at_once(self) -> AttemptResult | None:
        """The response, if its body has arrived; None: `read` must wait for it."""
        headers = self.letterhead.received(self.response)
        wanted = headers.length
        if wanted is None or wanted > BODY_LIMIT:
            return None
        if wanted > 0:
            reading = self.response.body_reader.read_chunk()
            try:
                # One step of the coroutine, without the event loop. It returns at once if the chunk has arrived.
                waits_for = reading.send(None)
            except StopIteration as ended:
                self.kept = bytes(ended.value or b"")
            except HttpError:
                return None
            else:
                self.begun = _resumed(reading, waits_for)
        return self._answer(headers) if len(self.kept) == wanted else None

    async def read(self) -> AttemptResult:
        """The response, once its body has arrived or failed to."""
        try:
            headers = self.letterhead.received(self.response)
            with suppress(HttpError, TimeoutError):
                await self._read(headers.length)
        finally:
            await self.request.__aexit__(None, None, None)
        return self._answer(headers)

    def status_only(self) -> AttemptResult:
        """The response without what could not be read: the status decides."""
        status = self.response.status
        error = None if self.letterhead.accepts(status) else resolver.of_status(status, None)
        return AttemptResult(self.at, self.took_ms, status, error, self.request_headers)

    async def _read(self, wanted: int | None) -> None:
        # Only a body that has not come with its status is read here: a timer for every response would cost a quarter of
        # the request.
        async with asyncio.timeout(BODY_PATIENCE):
            enough = BODY_LIMIT if wanted is None else min(wanted, BODY_LIMIT)
            while len(self.kept) < enough:
                begun, self.begun = self.begun, None
                chunk = await (begun or self.response.body_reader.read_chunk())
                if chunk is None:
                    return
                self.kept += bytes(chunk)

    def _answer(self, headers: ResponseHeaders) -> AttemptResult:
        response = self.response
        status = response.status
        secrets = self.letterhead.secrets
        error = retry_after = None
        if not self.letterhead.accepts(status):
            error = hidden_in(resolver.of_status(status, header_of(response, "location")), secrets)
            seconds = parse_retry_after(header_of(response, "retry-after"), (self.at + self.took_ms) / 1000)
            retry_after = None if seconds is None else round(seconds * 1000)
        return AttemptResult(
            at=self.at,
            took_ms=self.took_ms,
            status=status,
            error=error,
            request_headers=self.request_headers,
            response_headers=headers.logged,
            response_body=hidden_in_bytes(self.kept[:BODY_LIMIT], secrets),
            retry_after_ms=retry_after,
        )


@types.coroutine
def _resumed(reading: Coroutine[Any, Any, Chunk | None], waits_for: Any) -> Generator[Any, None, Chunk | None]:
    """Continues a coroutine that was stepped once and now waits."""
    try:
        while True:
            yield waits_for
            waits_for = reading.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # the result of read_chunk
    finally:
        reading.close()


class Letter(Struct, frozen=True):
    letterhead: Letterhead
    url: str
    headers: Sequence[tuple[str, str]]
    # The headers as JSON for the log, with secrets masked.
    shown: bytes
    body: bytes
    at: Ms
    # In the time of `time.monotonic`.
    began: float

    @property
    def took_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)

    def reply(self, request: StreamedRequest, response: StreamedResponse) -> Reply:
        return Reply(self.letterhead, self.at, self.took_ms, self.shown, request, response)

    def unanswered(self, why: str) -> AttemptResult:
        return AttemptResult(self.at, self.took_ms, None, why, self.shown)


# Who waits for the result of a `Post`. Called once, unless the post is cancelled.
Done: TypeAlias = "Callable[[Reply | AttemptResult | Exception], None]"


class Post:
    __slots__ = ("_cancelled", "_coroutine", "_failed", "_request", "_task", "done", "letter")

    def __init__(
        self, letter: Letter, request: StreamedRequest, done: Done, failed: Callable[[Post, Exception], None]
    ) -> None:
        """Sends the request. `failed` is called in place of `done` when no response arrives."""
        self.letter = letter
        self.done = done
        self._request = request
        self._failed = failed
        self._coroutine = request.__aenter__()
        # Only when it goes on at another address.
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._step()

    def go_on(self, work: Awaitable[Reply | AttemptResult]) -> None:
        """Let a task finish it."""
        self._task = give(work, self.done)

    def cancel(self) -> None:
        """Wait no longer. The request may arrive all the same."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._cancelled = True
            self._coroutine.close()

    def _step(self, _: Any = None) -> None:
        if self._cancelled:
            return
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration as ended:
            self.done(self.letter.reply(self._request, ended.value))
        except Exception as error:
            self._failed(self, error)
        else:
            if waits_for is None:
                # The response arrived while the client was looking for it: step again in the next turn of the loop.
                asyncio.get_running_loop().call_soon(self._step)
            else:
                waits_for.add_done_callback(self._step)


def give(work: Awaitable[Reply | AttemptResult], done: Done) -> asyncio.Task[None]:
    """Wait for this result in a task: what a `Post` does without one."""

    async def wait() -> None:
        try:
            reply = await work
        except Exception as error:
            done(error)
        else:
            done(reply)

    return asyncio.get_running_loop().create_task(wait())
