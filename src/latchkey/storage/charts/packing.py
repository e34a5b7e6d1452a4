"""Tables of sums as stored bytes, and back. See layout.py for how they are stored.

Import this module inside functions: Arrow takes a fifth of a second to import, and most processes never need it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from latchkey.storage.charts import layout
from latchkey.storage.charts.layout import Column, Header, Plan, encoded, whole_plan

# Quick to read; about twice the size of the best compression.
_LZ4 = pa.Codec("lz4_raw")
_INTEGERS = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}

# Arrow has no types for mypy.
Table = Any
Batch = Any


class Packed(NamedTuple):
    header: bytes
    data: bytes


def pack(table: Table) -> Packed:
    """Every column in the smallest type that holds its numbers."""
    columns: list[Column] = []
    pieces: list[bytes] = []
    for name in table.column_names:
        array = whole(table[name])
        assert not array.null_count, name
        values = None
        if pa.types.is_dictionary(array.type):
            values = array.dictionary.to_pylist()
            array = array.indices
        found = pc.min_max(array)
        type = _smallest(found["min"].as_py() or 0, found["max"].as_py() or 0)
        array = array.cast(type)
        column = Column(name, type.bit_width // 8, values, [], [], [])
        for start in range(0, table.num_rows, layout.GROUP):
            group = array.slice(start, layout.GROUP)
            found = pc.min_max(group)
            column.lows.append(found["min"].as_py())
            column.highs.append(found["max"].as_py())
            piece = b"" if column.lows[-1] == column.highs[-1] else _compressed(group, column.width)
            column.lengths.append(len(piece))
            pieces.append(piece)
        columns.append(column)
    return Packed(encoded(Header(table.num_rows, layout.GROUP, columns)), b"".join(pieces))


def _smallest(low: int, high: int) -> Any:
    for type in (pa.int8(), pa.int16(), pa.int32()):
        limit = 1 << (type.bit_width - 1)
        if -limit <= low and high < limit:
            return type
    return pa.int64()


def _compressed(array: Any, width: int) -> bytes:
    numbers = array.buffers()[1].slice(array.offset * width, len(array) * width)
    data: bytes = _LZ4.compress(numbers, asbytes=True)
    return data


def unpack(packed: Packed) -> Table:
    plan = whole_plan(packed.header)
    return pa.Table.from_batches([batch for batch, _ in batches(plan, [packed.data])])


def batches(plan: Plan, spans: Sequence[bytes]) -> Iterator[tuple[Batch, Any]]:
    """The wanted columns of each group of rows that has a match, and which of the rows match (None: all). `spans` are
    the bytes that the plan asked for."""
    pieces = _Pieces(plan, spans)
    values = {one.name: pa.array(one.values, pa.string()) for one in plan.header.columns if one.values is not None}
    allowed = {name: _Allowed(found) for name, found in plan.allowed.items()}
    for place, checks in plan.groups:
        kept: Any = None
        for name in checks:
            matches = allowed[name].of(pieces.numbers(name, place))
            kept = matches if kept is None else pc.and_(kept, matches)
        if kept is not None and not kept.true_count:
            continue
        arrays = []
        for name in plan.wanted:
            numbers = pieces.numbers(name, place)
            if name in values:
                # Checked when they were packed.
                numbers = pa.DictionaryArray.from_arrays(numbers, values[name], safe=False)
            arrays.append(numbers)
        yield pa.RecordBatch.from_arrays(arrays, names=plan.wanted), kept


class _Allowed:
    """Which values of a column match."""

    def __init__(self, allowed: Sequence[bool]) -> None:
        self._all = pa.array(allowed, pa.bool_())
        self._few = [place for place, one in enumerate(allowed) if one]

    def of(self, numbers: Any) -> Any:
        if len(self._few) > 2:
            return self._all.take(numbers)
        # Comparing with a number is several times as fast as looking each one up.
        first, *second = (pc.equal(numbers, pa.scalar(one, numbers.type)) for one in self._few)
        return pc.or_(first, *second) if second else first


class _Pieces:
    """The numbers of each column and group."""

    def __init__(self, plan: Plan, spans: Sequence[bytes]) -> None:
        self._plan = plan
        self._starts = [one.start for one in plan.spans]
        self._buffers = [pa.py_buffer(one) for one in spans]

    def numbers(self, name: str, group: int) -> Any:
        column, size = self._plan.columns[name], self._plan.header.size(group)
        type = _INTEGERS[column.width]
        start, length = self._plan.span(name, group)
        if not length:
            return pa.repeat(pa.scalar(column.lows[group], type), size)
        place = bisect_right(self._starts, start) - 1
        piece = self._buffers[place].slice(start - self._starts[place], length)
        return pa.Array.from_buffers(type, size, [None, _LZ4.decompress(piece, size * column.width)])


def whole(column: Any) -> Any:
    """A column as one array."""
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
