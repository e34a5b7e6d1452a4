"""Files to import, read record by record: CSV or JSON Lines, gzipped or not. Never a whole file in memory."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import file_digest
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import MsgspecError, Struct, json

from latchkey.domain.refusal import Invalid
from latchkey.subjects.imports.rules.row import RowError

_GZIP = b"\x1f\x8b"
# No line of a real file is longer. A file without line ends must not fill the memory.
_LONGEST_LINE = 4 * 1024 * 1024
# A quote with a backslash before it, and no quote after it: quotes are not doubled in this record.
_BACKSLASHED = re.compile(r'\\"(?!")')


class SourceFile(Struct, frozen=True):
    path: Path
    size: int
    digest: str

    @property
    def name(self) -> str:
        return self.path.name


class Record(Struct, frozen=True):
    """One record, by column name; or why it cannot be read."""

    line: int
    cells: dict[str, Any]
    problem: RowError | None = None


class Content(Struct):
    # None for JSON Lines, whose records name their own columns.
    header: list[str] | None
    records: Iterator[Record]
    # How much of the file was read, in bytes of the file.
    position: Callable[[], int]


def source(path: Path) -> SourceFile:
    """The file with the digest by which it is recognised."""
    with _readable(path), path.open("rb") as file:
        digest, size = file_digest(file, "sha256").hexdigest(), file.tell()
    if not size:
        raise Invalid(f"{path} is empty.")
    return SourceFile(path, size, digest)


@contextmanager
def opened(path: Path) -> Iterator[Content]:
    with _readable(path), path.open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        content: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=raw) if start == _GZIP else raw
        with io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as text:
            lines = _lines(path, text)
            first = next((line for line in lines if line.strip()), None)
            if first is None:
                raise Invalid(f"{path} is empty.")
            if first.lstrip().startswith("{"):
                yield Content(None, _guarded(path, _json_lines(first, lines)), raw.tell)
            else:
                delimiter = ";" if first.count(";") > first.count(",") else ","
                header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter))]
                yield Content(header, _guarded(path, _rows(path, header, delimiter, lines)), raw.tell)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # gzip's own errors are OSErrors without a number.
        reason = error.strerror or "it is damaged, or not complete"
        raise Invalid(f"{path} cannot be read: {reason}.") from None
    except (EOFError, zlib.error):
        raise Invalid(f"{path} cannot be read: it is damaged, or not complete.") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} cannot be read: it is not UTF-8.") from None


def _guarded(path: Path, records: Iterator[Record]) -> Iterator[Record]:
    """A generator runs outside the `with` of who made it."""
    with _readable(path):
        yield from records


def _lines(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) >= _LONGEST_LINE:
            raise Invalid(f"{path} has a line of more than {_LONGEST_LINE:,} characters. Is it CSV or JSON Lines?")
        if "\0" in line:
            raise Invalid(f"{path} contains NUL characters. Is it CSV or JSON Lines?")
        yield line


def _json_lines(first: str, lines: Iterator[str]) -> Iterator[Record]:
    number = 1
    for line in chain((first,), lines):
        if line.strip():
            try:
                cells = json.decode(line, type=dict[str, Any])
            except (MsgspecError, RecursionError):
                yield Record(number, {}, RowError("The line is not a JSON object."))
            else:
                yield Record(number, cells)
        number += 1


def _rows(path: Path, header: Sequence[str], delimiter: str, lines: Iterator[str]) -> Iterator[Record]:
    csv.field_size_limit(_LONGEST_LINE)
    raw: list[str] = []
    ended = False

    def remembered() -> Iterator[str]:
        nonlocal ended
        for line in lines:
            raw.append(line)
            yield line
        ended = True

    reader, width = csv.reader(remembered(), delimiter=delimiter), len(header)
    number = 2
    while True:
        raw.clear()
        try:
            cells = next(reader, None)
        except csv.Error:
            cells, ended = [], True
        if cells is None:
            return
        if ended:
            # The library takes all that follows for the cell. It asks for a line after the last one only for a quote.
            raise Invalid(f"{path}, line {number}: a quoted cell does not end.")
        if any("\\" in line for line in raw):
            cells = _unescaped(cells, "".join(raw), width, delimiter)
        if len(cells) == width:
            # Most cells are empty; leaving them out makes everything after this faster.
            yield Record(number, {name: cell for name, cell in zip(header, cells, strict=True) if cell})
        elif cells:
            yield Record(number, {}, RowError("The row does not have as many cells as the header."))
        number += len(raw)


def _unescaped(cells: list[str], raw: str, width: int, delimiter: str) -> list[str]:
    """Quotes inside a cell are doubled, or have a backslash before them. Where the record tells neither way, the one
    that gives the right number of cells counts."""
    if len(cells) == width and _BACKSLASHED.search(raw) is None:
        return cells
    try:
        other = next(
            csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter, doublequote=False, escapechar="\\"), []
        )
    except csv.Error:
        return cells
    return other if len(other) == width else cells
