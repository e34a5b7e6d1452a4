"""One request to a receiver, until its status has arrived.

A `Letter` is what is sent. A `Post` sends it without a task: it steps the client's coroutine itself, as a task would. A
task for each delivery, with the coroutines in it, would take a tenth of the worker's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.http_client import StreamedRequest, StreamedResponse
from latchkey.subjects.webhooks.delivery.sending.reply import AttemptResult, Reply
from latchkey.subjects.webhooks.delivery.sending.request import Letterhead


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


class Addressee(Protocol):
    """Whoever waits for the result of a `Post`. One of these is called, once, unless the post is cancelled."""

    def answered(self, reply: Reply | AttemptResult, /) -> None: ...
    def failed(self, error: Exception, /) -> None: ...


class Post:
    __slots__ = ("_cancelled", "_coroutine", "_failed", "_request", "_task", "letter", "to")

    def __init__(
        self, letter: Letter, request: StreamedRequest, to: Addressee, failed: Callable[[Post, Exception], None]
    ) -> None:
        """Sends the request. `failed` is called in place of `to` when no response arrives."""
        self.letter = letter
        self.to = to
        self._request = request
        self._failed = failed
        self._coroutine = request.__aenter__()
        # Only when it goes on at another address.
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._step()

    def go_on(self, work: Awaitable[Reply | AttemptResult]) -> None:
        """Let a task finish it."""
        self._task = asyncio.get_running_loop().create_task(give(work, self.to))

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
        except StopIteration as done:
            self.to.answered(self.letter.reply(self._request, done.value))
        except Exception as error:
            self._failed(self, error)
        else:
            if waits_for is None:
                # The response arrived while the client was looking for it: step again in the next turn of the loop.
                asyncio.get_running_loop().call_soon(self._step)
            else:
                waits_for.add_done_callback(self._step)


async def give(work: Awaitable[Reply | AttemptResult], to: Addressee) -> None:
    """Wait for this result, and give it to `to`: what a `Post` does, in a task."""
    try:
        reply = await work
    except Exception as error:
        to.failed(error)
    else:
        to.answered(reply)
