"""The files of one export. Rows go into parts of a bounded size; a part goes to the destination when it is full."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest

from latchkey.usecases.exports.destination import Upload, told
from latchkey.usecases.exports.formats import Format, PartFile, open_part
from latchkey.wire.exports import ExportFile
from latchkey.wire.rows import ROWS, Row


@dataclass(frozen=True, slots=True)
class PartLimits:
    rows: int = 1_000_000
    bytes: int = 256 * 1024 * 1024


@dataclass(slots=True)
class _Part:
    name: str
    file: PartFile
    rows: int = 0


@dataclass(slots=True)
class Files:
    upload: Upload
    format: Format
    limits: PartLimits
    finished: list[ExportFile] = field(default_factory=list)
    rows: int = 0
    _open: dict[str, _Part] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    async def begin(self, what: Iterable[str]) -> None:
        """Every kind of row has at least one file, so that readers find one."""
        for one in what:
            await asyncio.to_thread(self._begin, one)

    def write(self, what: str, rows: Sequence[Row]) -> None:
        """Call it in a thread, and `send_full` afterwards."""
        if not rows:
            return
        if what not in self._open:
            self._begin(what)
        part = self._open[what]
        with told(str(self.upload.workspace)):
            part.file.write(list(rows))
        part.rows += len(rows)
        self.rows += len(rows)

    async def send_full(self) -> None:
        """The next part begins with its first row: otherwise the last one would often be empty."""
        for what, part in list(self._open.items()):
            if part.rows >= self.limits.rows or part.file.size() >= self.limits.bytes:
                await self._send(what)

    async def send_all(self) -> None:
        for what in list(self._open):
            await self._send(what)

    def close(self) -> None:
        """After an error: the descriptors are closed, and nothing is sent."""
        for part in self._open.values():
            try:
                part.file.close()
            except Exception:  # noqa: S112  # what could not be written is thrown away
                continue
        self._open.clear()

    def _begin(self, what: str) -> None:
        number = self._numbers[what] = self._numbers.get(what, 0) + 1
        name = f"{what}-{number:05}.{self.format}"
        with told(str(self.upload.workspace)):
            self._open[what] = _Part(name, open_part(self.upload.workspace / name, self.format, what, ROWS[what]))

    async def _send(self, what: str) -> None:
        part = self._open.pop(what)
        self.finished.append(await asyncio.to_thread(self._close, what, part))
        await self.upload.put(part.name)

    def _close(self, what: str, part: _Part) -> ExportFile:
        path = self.upload.workspace / part.name
        with told(str(self.upload.workspace)):
            part.file.close()
            with path.open("rb") as file:
                digest = file_digest(file, "sha256").hexdigest()
            size = path.stat().st_size
        return ExportFile(name=part.name, what=what, rows=part.rows, bytes=size, sha256=digest)
