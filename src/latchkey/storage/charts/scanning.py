"""Answers questions about facts from blocks of sums. No I/O; run it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from latchkey.domain.charts.cuboids import TAGS, column_of, is_tag, prefix_of
from latchkey.domain.charts.fact import LEVELS
from latchkey.domain.charts.ranges import Range
from latchkey.domain.charts.summing import tagged, wanted_segment
from latchkey.domain.charts.sums import Day, Filter, Question, Sum, period_of
from latchkey.storage.charts.blocks import Stored
from latchkey.storage.charts.kinds import CODES, KINDS
from latchkey.storage.charts.sums import from_columns

if TYPE_CHECKING:
    from latchkey.storage.charts.columns import Table

T = TypeVar("T", int, bool)


class Found(NamedTuple):
    sums: list[Sum]
    # The variant or value of each, if asked for.
    tags: list[str]


NOTHING = Found([], [])

# Bytes of blocks.
_WORTH_THREADS = 1_000_000
_THREADS = 4


class Part(NamedTuple):
    """What was loaded of one kind, from blocks of one number."""

    kind: int
    cuboid: int
    table: Table


class Loaded(NamedTuple):
    """What several questions have in common, by day."""

    parts: list[Part]
    first: Day
    last: Day


# Which days count in blocks of which number.
Places: TypeAlias = Mapping[int, Sequence[Range]]


def load(stored: Sequence[Stored], question: Question, places: Places, tag: str | None = None) -> Loaded:
    """What is needed to answer this question and those that ask the same of other days and segments, all within
    `places`. With `tag` (a dimension) only facts with such a variant or attribute, by it."""
    # Imported here: it takes a fifth of a second, and most processes never need it.
    from latchkey.storage.charts import answering

    first, last = min(one.first for one in stored), max(one.last for one in stored)
    scan = answering.Scan(
        _filters(question.filters),
        None if question.segment is None else column_of(question.segment),
        None if tag is None else (column_of(tag), _has_value(prefix_of(tag))),
        question.amounts,
    )
    any_n = {CODES[kind]: answering.AnyN(most) for kind, most in question.any_n}
    every = [True] * (last - first + 1)
    days = {
        (cuboid, levels): answering.Days.of(first, _within(first, every, ranges, False, levels=levels))
        for cuboid, ranges in places.items()
        for levels in (False, True)
    }

    def read(one: Stored) -> list[Table]:
        is_level = _is_level(one.kind)
        has_all = any(
            r.first <= one.first and one.last <= r.last for r in places[one.cuboid] if is_level or not r.levels
        )
        return answering.load(one.data, scan, None if has_all else days[one.cuboid, is_level], any_n.get(one.kind))

    found: dict[tuple[int, int], list[Table]] = {}
    for one, tables in zip(stored, _mapped(read, stored), strict=True):
        found.setdefault((one.kind, one.cuboid), []).extend(tables)
    parts = [Part(*key, answering.together(tables)) for key, tables in found.items() if tables]
    return Loaded(parts, first, last)


def _mapped(read: Callable[[Stored], list[Table]], stored: Sequence[Stored]) -> Iterable[list[Table]]:
    """Arrow does not hold the interpreter's lock, so threads help."""
    if sum(len(one.data) for one in stored) < _WORTH_THREADS:
        return map(read, stored)
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(read, stored))


def answer(loaded: Loaded, question: Question, places: Places, tag: str | None = None) -> Found:
    """`places`: those of this question."""
    from latchkey.storage.charts import answering

    reader = answering.Reader(
        question.amounts,
        None if question.segment is None else _segment(question, question.segment),
        None if tag is None else _value(prefix_of(tag)),
    )
    first = loaded.first
    periods = [
        answering.BEFORE if day < question.first else period_of(day, question.resolution)
        for day in range(first, loaded.last + 1)
    ]
    days = {
        (cuboid, levels): answering.Days.of(first, _within(first, periods, ranges, answering.OUTSIDE, levels=levels))
        for cuboid, ranges in places.items()
        for levels in (False, True)
    }
    for one in loaded.parts:
        reader.add(one.kind, one.table, days[one.cuboid, _is_level(one.kind)])
    kinds, ns, shown, segments, currencies, tags, *amounts = reader.columns()
    return Found(from_columns(kinds, ns, shown, segments, currencies, *amounts), tags)


def _is_level(kind: int) -> bool:
    return KINDS[kind] in LEVELS


def _within(first: Day, values: Sequence[T], ranges: Sequence[Range], outside: T, *, levels: bool) -> list[T]:
    """These values of the days from `first` on, where the days are asked for; of kinds that are levels, or not."""
    found = [outside] * len(values)
    for one in ranges:
        if levels or not one.levels:
            start, end = max(0, one.first - first), max(0, one.last + 1 - first)
            found[start:end] = values[start:end]
    return found


def rows_by_value(stored: Sequence[Stored], column: str) -> dict[str, int]:
    """How many rows have each value of a dimension."""
    from latchkey.storage.charts import answering

    found = answering.rows_by_value([one.data for one in stored], column) if stored else {}
    if column not in TAGS:
        return found
    by_tag: dict[str, int] = {}
    for text, rows in found.items():
        for one in _split(text):
            by_tag[one] = by_tag.get(one, 0) + rows
    return by_tag


def _filters(filters: Sequence[Filter]) -> dict[str, Callable[[str], bool]]:
    by_column: dict[str, list[Callable[[str], bool]]] = {}
    for one in filters:
        by_column.setdefault(column_of(one.dimension), []).append(_matches(one))
    return {column: _all(of) for column, of in by_column.items()}


def _all(predicates: Sequence[Callable[[str], bool]]) -> Callable[[str], bool]:
    return lambda text: all(one(text) for one in predicates)


def _matches(wanted: Filter) -> Callable[[str], bool]:
    values = frozenset(wanted.values)
    if not is_tag(wanted.dimension):
        return values.__contains__
    prefix = prefix_of(wanted.dimension)
    return lambda text: not values.isdisjoint(tagged(_split(text), prefix))


def _segment(question: Question, dimension: str) -> Callable[[str], str]:
    if not is_tag(dimension):
        return partial(wanted_segment, question)
    prefix = prefix_of(dimension)
    return lambda text: wanted_segment(question, tagged(_split(text), prefix)[0])


def _value(prefix: str) -> Callable[[str], str]:
    return lambda text: tagged(_split(text), prefix)[0]


def _has_value(prefix: str) -> Callable[[str], bool]:
    return lambda text: any(one.startswith(prefix) for one in _split(text))


def _split(text: str) -> list[str]:
    from latchkey.storage.charts.columns import split

    return split(text)
