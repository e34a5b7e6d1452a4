"""Logs: one JSON object per line on stderr, or readable lines on a terminal. Secrets are never logged.

A line that cannot be written is counted and dropped: nothing may fail because the disk of the
log is full, or because nobody reads the pipe.
"""

import io
import logging
import sys
import time
import traceback
from collections.abc import Callable
from typing import IO, Any, cast

import structlog
from msgspec import json
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer


class LogStream:
    """Writes whole lines, unbuffered: after a failed write a buffer would keep the lines and fail again on each
    write."""

    def __init__(self, file: IO[Any]) -> None:
        binary = getattr(file, "buffer", file)
        self._raw = getattr(binary, "raw", binary)
        # A text stream without a binary buffer, as in tests that capture output.
        self._takes_text = isinstance(binary, io.TextIOBase)
        self._dropped = 0
        # The last line was only written in part.
        self._cut = False

    def write(self, text: bytes | str) -> None:
        data = text.encode(errors="backslashreplace") if isinstance(text, str) else text
        try:
            if self._dropped or self._cut:
                self._catch_up()
            self._put(data)
        except (OSError, ValueError):  # ValueError: the stream was closed
            self._dropped += data.count(b"\n") or 1

    def flush(self) -> None:
        """Nothing to do: writes are unbuffered."""

    def _catch_up(self) -> None:
        """End a partly written line, and log how many lines were dropped."""
        if self._cut:
            self._put(b"\n")
            self._cut = False
        if self._dropped:
            self._put(b'{"event":"log_lines_dropped","level":"warning","count":%d}\n' % self._dropped)
            self._dropped = 0

    def _put(self, data: bytes) -> None:
        if self._takes_text:
            self._raw.write(data.decode(errors="backslashreplace"))
            return
        rest = memoryview(data)
        try:
            while rest:
                written = self._raw.write(rest)
                if not written:
                    raise BlockingIOError
                rest = rest[written:]
        except (OSError, ValueError):
            self._cut = self._cut or 0 < len(rest) < len(data)
            raise


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

TRACEBACK_SECONDS = 60

# What `configure` chose, for the access log, which bypasses structlog because it writes a line for every request.
_writes_info = True
_json_stream: LogStream | None = None


def writes_info() -> bool:
    return _writes_info


def json_stream() -> LogStream | None:
    """The stream for ready-made lines of JSON; None if the log is not JSON."""
    return _json_stream


def configure(level: str = "info", form: str = "auto", *, lasting: bool = False) -> None:
    """`lasting` for a process that never configures again: its loggers are then cached."""
    pretty = form == "pretty" or (form == "auto" and sys.stderr.isatty())
    # Tracebacks without local variables, because those hold keys and secrets.
    last: list[structlog.types.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if pretty
        else [ExceptionRenderer(ExceptionDictTransformer(show_locals=False)), _as_json]
    )
    stream = LogStream(sys.stderr)
    global _writes_info, _json_stream
    _writes_info, _json_stream = _LEVELS[level] <= logging.INFO, None if pretty else stream
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            Tracebacks(),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        # structlog uses only `write` and `flush` of a file.
        logger_factory=(structlog.WriteLoggerFactory if pretty else structlog.BytesLoggerFactory)(cast("Any", stream)),
        cache_logger_on_first_use=lasting,
    )


class Tracebacks:
    """One traceback a minute for each kind of error: with the database away, every request would write the same one.
    The others keep their line, with the error in a few words."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When the traceback of an error was last written, by its type and the place that raised it.
        self._written: dict[tuple[type[BaseException], str, int], float] = {}

    def __call__(self, _logger: Any, _method: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
        error = fields.get("exc_info")
        if error is True:
            error = sys.exc_info()[1]
        if not isinstance(error, BaseException):
            return fields
        *_, (frame, line) = traceback.walk_tb(error.__traceback__) if error.__traceback__ else [(None, 0)]
        kind = type(error), frame.f_code.co_filename if frame else "", line
        now = self._clock()
        if now - self._written.get(kind, -TRACEBACK_SECONDS) < TRACEBACK_SECONDS:
            del fields["exc_info"]
            fields["error"] = f"{type(error).__name__}: {error}"
        else:
            self._written[kind] = now
        return fields


# Every request writes a line: this takes 7 µs of a read's 100, the standard library's json 14.
_encoder = json.Encoder(enc_hook=repr)


def _as_json(_logger: Any, _method: str, fields: structlog.types.EventDict) -> bytes:
    return _encoder.encode(fields)
