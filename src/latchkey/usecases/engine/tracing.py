"""The spans of a batch of changes, while traces are on. Each request of the batch whose trace is kept gets its own,
linked with the requests of the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.events import traces
from latchkey.watching import tracing
from latchkey.watching.tracing import Span
from latchkey.wire.event import Event


class Traced(Protocol):
    @property
    def project_id(self) -> str: ...

    @property
    def trace(self) -> Span | None: ...


class Steps:
    def __init__(self, batch: Sequence[Traced]) -> None:
        self._batch = batch
        self._spans = [one.trace for one in batch if one.trace is not None]
        self._since = time.time_ns()

    def done(self, name: str) -> None:
        """What was done since the step before."""
        began, self._since = self._since, time.time_ns()
        if self._spans and tracing.tracer is not None:
            about = {"latchkey.batch.size": len(self._batch)}
            tracing.tracer.shared(f"changes {name}", self._spans, began, self._since, about)

    async def keep(self, connection: Connection, told: Mapping[int, Sequence[Event]], now: Ms) -> None:
        """Remember the trace of each new event, for the process that delivers it. To be called before the change is
        committed: the event may be delivered at once. `told` has the events by place in the batch."""
        found: dict[str, str] = {}
        for place, events in told.items():
            span = self._batch[place].trace if 0 <= place < len(self._batch) else None
            if span is not None:
                found.update((event.id, span.traceparent) for event in events)
        if found:
            await traces.keep(connection, self._batch[0].project_id, found, now)
