"""Where the columns of a stored block are, and which of its bytes a question needs.

A block is a table of sums. Its rows are stored in groups, each column of a group compressed on its own: first all
groups of one column, then all of the next. The header says where each one begins, and its lowest and highest number.
Rows are sorted, so a filter leaves out most groups before anything is read, and of the others only the columns that
are needed are read. No Arrow, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct, msgpack

# Rows that are compressed together. Fewer: filters leave out more of them, but each costs some calls.
GROUP = 32_768
# Bytes that are not needed are read too if there are so few between those that are.
_GAP = 4_096


class Column(Struct, array_like=True, frozen=True):
    name: str
    # Of a number, in bytes.
    width: int
    # Of a dimension or currency: numbers are places in these.
    values: list[str] | None
    # By group. Where lowest and highest are the same, nothing is stored: the length is 0.
    lows: list[int]
    highs: list[int]
    lengths: list[int]


class Header(Struct, array_like=True, frozen=True):
    rows: int
    # Rows in each group but the last.
    group: int
    columns: list[Column]

    def size(self, group: int) -> int:
        return min(self.group, self.rows - group * self.group)

    @property
    def groups(self) -> int:
        return -(-self.rows // self.group)


_decode = msgpack.Decoder(Header).decode


def encoded(header: Header) -> bytes:
    return msgpack.encode(header)


class Span(NamedTuple):
    """Bytes of a block's data."""

    start: int
    length: int


class Group(NamedTuple):
    place: int
    # The filters that some of its rows match and others do not.
    checks: list[str]


class Plan:
    """What to read of a block: groups of which some rows match, and of all its columns those that are wanted."""

    def __init__(
        self,
        header: bytes,
        filters: Mapping[str, Callable[[str], bool]],
        wants: Callable[[Mapping[str, Column]], Container[str]],
    ) -> None:
        self.header = _decode(header)
        self.columns = {one.name: one for one in self.header.columns}
        # Of each value of a filtered dimension: whether it matches.
        self.allowed: dict[str, list[bool]] = {}
        self.groups = self._matching(filters)
        wanted = wants(self.columns)
        self.wanted = [name for name in self.columns if name in wanted]
        self._starts = self._layout()
        self.spans = list(self._joined())

    def _matching(self, filters: Mapping[str, Callable[[str], bool]]) -> list[Group]:
        groups = [Group(place, []) for place in range(self.header.groups)]
        for name, matches in filters.items():
            column = self.columns[name]
            assert column.values is not None, "filters are about dimensions"
            allowed = self.allowed[name] = [matches(one) for one in column.values]
            if all(allowed):
                continue
            # How many of the values before each one match.
            before = [0, *accumulate(allowed)]
            kept: list[Group] = []
            for one in groups:
                low, high = column.lows[one.place], column.highs[one.place]
                matching = before[high + 1] - before[low]
                if matching <= high - low:
                    one.checks.append(name)
                if matching:
                    kept.append(one)
            groups = kept
        return groups

    def _layout(self) -> dict[str, list[int]]:
        """Where each group of each column begins."""
        found: dict[str, list[int]] = {}
        start = 0
        for one in self.header.columns:
            *starts, start = accumulate(one.lengths, initial=start)
            found[one.name] = starts
        return found

    def _needed(self) -> Iterator[Span]:
        for column in self.header.columns:
            is_wanted = column.name in self.wanted
            for group in self.groups:
                if is_wanted or column.name in group.checks:
                    span = self.span(column.name, group.place)
                    if span.length:
                        yield span

    def _joined(self) -> Iterator[Span]:
        start, end = 0, 0
        for one in self._needed():
            if one.start > end + _GAP and end > start:
                yield Span(start, end - start)
                start = one.start
            elif start == end:
                start = one.start
            end = one.start + one.length
        if end > start:
            yield Span(start, end - start)

    def has_one_value(self, name: str) -> bool:
        """Whether all rows that match have the same number in a column."""
        if sum(self.allowed.get(name, ())) == 1:
            return True
        column = self.columns[name]
        found = {limits[group.place] for group in self.groups for limits in (column.lows, column.highs)}
        return len(found) == 1

    def span(self, name: str, group: int) -> Span:
        return Span(self._starts[name][group], self.columns[name].lengths[group])

    @property
    def bytes(self) -> int:
        return sum(one.length for one in self.spans)


def whole_plan(header: bytes) -> Plan:
    """Everything of a block."""
    return Plan(header, {}, lambda columns: columns)


def portions(plans: Sequence[Plan], most: int) -> Iterator[list[int]]:
    """Places of plans whose bytes are read together, at least one at a time."""
    found: list[int] = []
    room = most
    for place, one in enumerate(plans):
        if found and one.bytes > room:
            yield found
            found, room = [], most
        found.append(place)
        room -= one.bytes
    if found:
        yield found
