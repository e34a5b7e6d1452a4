"""What a receiver answers: the status first, and then as much of the body as is kept for the log."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Mapping
from typing import Any

from msgspec import Struct
from pyreqwest.bytes import Bytes
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from latchkey.delivery import failure
from latchkey.delivery.echo import without_secrets
from latchkey.delivery.webhook import Webhook
from latchkey.domain.instants import Ms
from latchkey.domain.retry import parse_retry_after
from latchkey.storage.deliveries.recording import Attempt

# Of an answer's body so much is kept, and no longer is waited for it: the status has already decided.
BODY_LIMIT = 16 * 1024
BODY_PATIENCE = 5.0
HEADERS_LIMIT = 64


class Answer(Attempt, frozen=True):
    """What came of one attempt. Only a status of 200 is success; everything else has an `error` in words."""

    retry_after_ms: int | None = None


class Reply(Struct):
    """An answer whose status has come; whatever happens to its body, the status stands."""

    webhook: Webhook
    at: Ms
    took_ms: int
    request_headers: Mapping[str, str]
    request: StreamRequest
    response: Response
    kept: bytes = b""
    begun: _Begun | None = None

    def at_once(self) -> Answer | None:
        """The answer, if its body came with it, as nearly all do. To be asked a moment later, for many at once: then
        nobody has to be woken for the body alone, which would cost a tenth of the delivery."""
        wanted = self._declared()
        if wanted is None or wanted > BODY_LIMIT:
            return None
        if wanted > 0:
            reading = self.response.body_reader.read_chunk()
            try:
                self.begun = _Begun(reading, reading.send(None))
            except StopIteration as ended:
                self.kept = bytes(ended.value or b"")
            except PyreqwestError:
                return None
        return self._answer() if len(self.kept) == wanted else None

    async def read(self) -> Answer:
        """The answer, when its body has come, or will not come any more."""
        try:
            await self._read()
        except (PyreqwestError, TimeoutError):
            pass
        finally:
            await self.request.__aexit__(None, None, None)
        return self._answer()

    async def _read(self) -> None:
        wanted = self._declared()
        # Not for every answer: the timer alone costs as much as a quarter of the request.
        async with asyncio.timeout(BODY_PATIENCE if wanted is None else None):
            enough = BODY_LIMIT if wanted is None else min(wanted, BODY_LIMIT)
            while len(self.kept) < enough:
                begun, self.begun = self.begun, None
                chunk = await (begun or self.response.body_reader.read_chunk())
                if chunk is None:
                    return
                self.kept += bytes(chunk)

    def _declared(self) -> int | None:
        declared = self.response.get_header("content-length")
        return int(declared) if declared is not None and declared.isdigit() else None

    def _answer(self) -> Answer:
        response = self.response
        status = response.status
        error = retry_after = None
        if status != 200:
            error = failure.of_status(status, response.get_header("location"))
            retry_after = parse_retry_after(response.get_header("retry-after"), self.at + self.took_ms)
        # In one call; a header that comes several times is a list there.
        headers = tuple(
            [
                (name, one)
                for name, value in response.headers.dict_multi_value().items()
                for one in ([value] if isinstance(value, str) else value)
            ]
        )
        answer = Answer(
            self.at,
            self.took_ms,
            status,
            error,
            self.request_headers,
            headers[:HEADERS_LIMIT],
            self.kept[:BODY_LIMIT],
            retry_after,
        )
        return without_secrets(answer, self.webhook)


class _Begun:
    """A read that has been asked for once and was not ready: awaited, it goes on."""

    def __init__(self, reading: Coroutine[Any, Any, Bytes | None], waits_for: Any) -> None:
        self._reading = reading
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, None, Bytes | None]:
        try:
            while True:
                yield self._waits_for
                self._waits_for = self._reading.send(None)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # what read_chunk gives
        finally:
            self._reading.close()
