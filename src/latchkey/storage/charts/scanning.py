"""Answers questions about facts from blocks of sums. No I/O; run it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from latchkey.domain.charts.cuboids import TAGS, column_of, is_tag, prefix_of
from latchkey.domain.charts.fact import LEVELS
from latchkey.domain.charts.ranges import Range
from latchkey.domain.charts.summing import tagged, wanted_segment
from latchkey.domain.charts.sums import Day, Filter, Question, Sum, period_of
from latchkey.storage.charts.blocks import Stored
from latchkey.storage.charts.kinds import KINDS
from latchkey.storage.charts.sums import from_columns

if TYPE_CHECKING:
    from latchkey.storage.charts.columns import AnyN, Reader


class Found(NamedTuple):
    sums: list[Sum]
    # The variant or value of each, if asked for.
    tags: list[str]


NOTHING = Found([], [])

# Bytes of blocks.
_WORTH_THREADS = 2_000_000
_THREADS = 4


def scan(
    stored: Sequence[Stored], question: Question, ranges: Mapping[int, Sequence[Range]], tag: str | None = None
) -> Found:
    """`ranges`: which days count in blocks of which number. With `tag` (a dimension) only facts with such a variant or
    attribute, by it."""
    # Imported here: it takes a fifth of a second, and most processes never need it.
    from latchkey.storage.charts import columns

    first, last = min(one.first for one in stored), max(one.last for one in stored)
    reader = columns.Reader(
        columns.Scan(
            _filters(question.filters),
            None if question.segment is None else (column_of(question.segment), _segment(question, question.segment)),
            None if tag is None else (column_of(tag), _value(prefix_of(tag))),
            question.amounts,
        )
    )
    any_n = {kind: columns.AnyN(most) for kind, most in question.any_n}
    days: dict[tuple[int, bool], columns.Days] = {}
    loaded = _loaded(reader, stored, [any_n.get(KINDS[one.kind]) for one in stored])
    for one, batches in zip(stored, loaded, strict=True):
        is_level = KINDS[one.kind] in LEVELS
        known = days.get((one.cuboid, is_level))
        if known is None:
            period = _period(question, [r for r in ranges[one.cuboid] if is_level or not r.levels])
            known = days[one.cuboid, is_level] = columns.Days.of(first, last, period)
        for batch in batches:
            reader.add(one.kind, batch, known, any_n.get(KINDS[one.kind]))
    kinds, ns, periods, segments, currencies, tags, *amounts = reader.columns()
    return Found(from_columns(kinds, ns, periods, segments, currencies, *amounts), tags)


def _loaded(reader: Reader, stored: Sequence[Stored], any_n: Sequence[AnyN | None]) -> Iterable[list[Any]]:
    """The matching rows of each block. Arrow does not hold the interpreter's lock, so threads help."""
    data = [one.data for one in stored]
    if sum(map(len, data)) < _WORTH_THREADS:
        return map(reader.load, data, any_n)
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(reader.load, data, any_n))


def rows_by_value(stored: Sequence[Stored], column: str) -> dict[str, int]:
    """How many rows have each value of a dimension."""
    from latchkey.storage.charts import columns

    found = columns.rows_by_value([one.data for one in stored], column) if stored else {}
    if column not in TAGS:
        return found
    by_tag: dict[str, int] = {}
    for text, rows in found.items():
        for one in columns.split(text):
            by_tag[one] = by_tag.get(one, 0) + rows
    return by_tag


def _period(question: Question, ranges: Sequence[Range]) -> Callable[[Day], int]:
    from latchkey.storage.charts.columns import BEFORE, OUTSIDE

    def of(day: Day) -> int:
        if not any(one.first <= day <= one.last for one in ranges):
            return OUTSIDE
        return BEFORE if day < question.first else period_of(day, question.resolution)

    return of


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


def _value(prefix: str) -> Callable[[str], str | None]:
    return lambda text: next((one.removeprefix(prefix) for one in _split(text) if one.startswith(prefix)), None)


def _split(text: str) -> list[str]:
    from latchkey.storage.charts.columns import split

    return split(text)
