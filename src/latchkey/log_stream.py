"""Where log lines go. A line that cannot be written is counted and dropped: nothing may fail because the disk of the
log is full, or because nobody reads the pipe."""

from __future__ import annotations

import io
from typing import IO, Any


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
