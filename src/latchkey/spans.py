"""Traces, as the rest of the service sees them. This module imports nothing of OpenTelemetry: while traces are off,
`tracer` is None and nothing else happens.

A trace begins with a request, or continues the one that the request names (`traceparent`). What a change writes belongs
to it: its events keep the trace (`engine/storage/event_feed.py`), and the process that delivers them continues it.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol, TypeAlias

Value: TypeAlias = str | int | float | bool


class Span(Protocol):
    """Something under way, and its place in a trace."""

    @property
    def trace_id(self) -> str: ...

    @property
    def traceparent(self) -> str:
        """For a header, or for whoever continues the trace later."""

    @property
    def is_recorded(self) -> bool:
        """Whether this trace was chosen to be kept."""

    def end(self, attributes: Mapping[str, Value], *, error: str | None = None) -> None: ...


class Tracer(Protocol):
    def request(self, headers: Mapping[bytes, bytes], method: str) -> Span:
        """A request that has just come in."""

    def rename(self, span: Span, name: str) -> None: ...

    def child(self, name: str, parent: Span | str, attributes: Mapping[str, Value], *, to_others: bool = False) -> Span:
        """Something that begins now. `parent` may be a `traceparent`; `to_others` for a request of ours."""

    def shared(
        self, name: str, parents: Sequence[Span], began_ns: int, ended_ns: int, attributes: Mapping[str, Value]
    ) -> None:
        """One thing done for several requests: each gets a span in its own trace, linked with the requests of the
        others."""

    def past(self, name: str, parent: str, began_ns: int, ended_ns: int, attributes: Mapping[str, Value]) -> Span:
        """Something that was done between these instants, after whatever `parent` names."""


# Set once, when the process starts.
tracer: Tracer | None = None
# The request that the current task works for.
current: ContextVar[Span | None] = ContextVar("latchkey.trace", default=None)


def recorded() -> Span | None:
    """The request that the current task works for, if its trace is kept."""
    span = current.get()
    return span if span is not None and span.is_recorded else None
