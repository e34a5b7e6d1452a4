"""Logs: one JSON object a line on stderr, or readable lines when a person is watching. Secrets are never among them."""

from __future__ import annotations

import logging
import sys
from typing import Any, cast

import structlog
from msgspec import json
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

from latchkey.log_stream import LogStream

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


# What `configure` chose, for the one writer that cannot afford structlog: the line that every request leaves.
_writes_info = True
_json_stream: LogStream | None = None


def writes_info() -> bool:
    return _writes_info


def json_stream() -> LogStream | None:
    """Where whole lines of JSON may be written, if that is what the log is made of."""
    return _json_stream


def configure(level: str = "info", form: str = "auto", *, lasting: bool = False) -> None:
    """`lasting` for a process that will never configure it otherwise: its loggers remember what they are made of."""
    pretty = form == "pretty" or (form == "auto" and sys.stderr.isatty())
    # Local variables hold keys and secrets: where something failed is shown, what was at hand is not.
    last: list[structlog.types.Processor] = (
        [structlog.dev.ConsoleRenderer(sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
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
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        # Of a file, structlog uses `write` and `flush` alone.
        logger_factory=(structlog.WriteLoggerFactory if pretty else structlog.BytesLoggerFactory)(cast("Any", stream)),
        cache_logger_on_first_use=lasting,
    )


# Every request writes a line: 7 µs of a read's hundred this way, 14 through the standard library's json.
_encoder = json.Encoder(enc_hook=repr)


def _as_json(_logger: Any, _method: str, fields: structlog.types.EventDict) -> bytes:
    return _encoder.encode(fields)
