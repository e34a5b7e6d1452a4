"""Answers questions about facts from blocks of sums. No I/O; run it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from latchkey.domain.charts.cuboids import TAGS, column_of, is_tag, prefix_of
from latchkey.domain.charts.fact import LEVELS, Amounts, Day, Filter, Question, period_of
from latchkey.domain.charts.ranges import Range
from latchkey.domain.charts.runs import Run
from latchkey.domain.charts.summing import tagged, wanted_segment
from latchkey.storage.charts.blocks import Stored
from latchkey.storage.charts.kinds import CODES, KINDS
from latchkey.storage.charts.layout import Plan, Span, portions

if TYPE_CHECKING:
    from latchkey.storage.charts.answering import Rows
    from latchkey.storage.charts.packing import Table

T = TypeVar("T", int, bool)


class Found(NamedTuple):
    runs: list[Run]
    # The variant or value of each, if asked for.
    tags: list[str]


NOTHING = Found([], [])

# Bytes that are read at once: while the next ones are read, these are added up.
_PORTION = 2_000_000


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


class Loading:
    """Loads what is needed to answer a question, and those that ask the same of other days and segments, all within
    `places`. With `tag` (a dimension) only facts with such a variant or attribute, by it.

    Which bytes of the blocks are needed is known at once; they are read in portions, and added with `add`.
    """

    def __init__(self, stored: Sequence[Stored], question: Question, places: Places, tag: str | None = None) -> None:
        # Imported here: it takes a fifth of a second, and most processes never need it.
        from latchkey.storage.charts import answering

        self._places = places
        self._first, self._last = min(one.first for one in stored), max(one.last for one in stored)
        self._scan = answering.Scan(
            _filters(question.filters),
            None if question.segment is None else column_of(question.segment),
            None if tag is None else (column_of(tag), _has_value(prefix_of(tag))),
            question.amounts,
            question.currency,
        )
        self._any_n = {CODES[kind]: answering.AnyN(most) for kind, most in question.any_n}
        every = [True] * (self._last - self._first + 1)
        self._days = {
            (cuboid, levels): answering.Days.of(self._first, _within(self._first, every, ranges, False, levels=levels))
            for cuboid, ranges in places.items()
            for levels in (False, True)
        }
        planned = [(one, self._plan(one)) for one in stored]
        self._planned = [(one, plan) for one, plan in planned if plan.groups]
        self._found: list[list[Rows]] = [[] for _ in self._planned]

    def _plan(self, one: Stored) -> Plan:
        return Plan(one.header, self._scan.filters, partial(self._scan.wants, any_n=self._any_n.get(one.kind)))

    def portions(self) -> Iterator[list[int]]:
        """Places of blocks whose bytes are to be read together."""
        return portions([plan for _, plan in self._planned], _PORTION)

    def spans(self, portion: Sequence[int]) -> list[tuple[Stored, Sequence[Span]]]:
        """Which bytes of which blocks they are."""
        return [(self._planned[place][0], self._planned[place][1].spans) for place in portion]

    def add(self, portion: Sequence[int], read: Sequence[Sequence[bytes]]) -> None:
        """The bytes asked for, block by block."""
        from latchkey.storage.charts import answering

        for place, spans in zip(portion, read, strict=True):
            one, plan = self._planned[place]
            days = None if self._has_all(one) else self._days[one.cuboid, _is_level(one.kind)]
            self._found[place] = answering.load(plan, spans, self._scan, days, self._any_n.get(one.kind))

    def _has_all(self, one: Stored) -> bool:
        """Whether all days of a block count."""
        ranges = (each for each in self._places[one.cuboid] if _is_level(one.kind) or not each.levels)
        return any(each.first <= one.first and one.last <= each.last for each in ranges)

    def loaded(self) -> Loaded:
        """When everything was added."""
        from latchkey.storage.charts import answering

        by_part: dict[tuple[int, int], list[Rows]] = {}
        for (one, _), rows in zip(self._planned, self._found, strict=True):
            by_part.setdefault((one.kind, one.cuboid), []).extend(rows)
        parts = [Part(*key, answering.together(rows)) for key, rows in by_part.items() if rows]
        return Loaded(parts, self._first, self._last)


def answer(loaded: Loaded, question: Question, places: Places, tag: str | None = None) -> Found:
    """`places`: those of this question."""
    from latchkey.storage.charts import answering

    reader = answering.Reader(
        question.amounts,
        None if question.segment is None else _segment(question, question.segment),
        None if tag is None else _value(prefix_of(tag)),
    )
    first = loaded.first
    # No period of the question.
    before = period_of(question.first, question.resolution) - 1
    periods = [
        before if day < question.first else period_of(day, question.resolution) for day in range(first, loaded.last + 1)
    ]
    days = {
        (cuboid, levels): answering.Days.of(first, _within(first, periods, ranges, answering.OUTSIDE, levels=levels))
        for cuboid, ranges in places.items()
        for levels in (False, True)
    }
    for one in loaded.parts:
        reader.add(one.kind, one.table, days[one.cuboid, _is_level(one.kind)])
    runs: list[Run] = []
    tags: list[str] = []
    has_money = question.amounts is not Amounts.NONE
    for kind, n, segment, currency, of_tag, shown, (quantities, *money) in reader.series():
        # It is the oldest.
        asked = [None, *shown[1:]] if shown[0] == before else shown
        runs.append(Run(KINDS[kind], n, segment, currency, asked, quantities, money if has_money else ()))
        tags.append(of_tag)
    return Found(runs, tags)


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


def only(stored: Sequence[Stored], column: str) -> list[tuple[Stored, Plan]]:
    """What to read of blocks for one column of them."""
    return [(one, Plan(one.header, {}, lambda _: (column,))) for one in stored]


def rows_by_value(read: Iterable[tuple[Plan, Sequence[bytes]]], column: str) -> dict[str, int]:
    """How many rows have each value of a dimension."""
    from latchkey.storage.charts import answering

    found = answering.rows_by_value(read, column)
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
    # Every block asks about the same texts.
    return cache(lambda text: all(one(text) for one in predicates))


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
