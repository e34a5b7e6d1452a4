"""Answers questions about facts from the stored sums. The answer is the same as `domain/charts/summing.py` gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from latchkey.domain.charts.cuboids import CUBOIDS, FULL, column_of, cuboid_for, is_tag, prefix_of
from latchkey.domain.charts.fact import LEVELS, NO_MONEY, Kind, Money, minus, plus
from latchkey.domain.charts.ranges import ranges_of
from latchkey.domain.charts.summing import sum_facts
from latchkey.domain.charts.sums import Day, Filter, Question, Sum
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.charts import progress, subjects, sums
from latchkey.storage.charts.sums import Asked, Tag, TagFilter
from latchkey.storage.database import Connection, Database
from latchkey.storage.rolling.newcomers import Stretch
from latchkey.usecases.charts.books import bare, pseudonym
from latchkey.usecases.charts.numbers import is_clock

_LAST_KEY = 2**62
_MOST_UNCOUNTED = 5_000

_Key: TypeAlias = tuple[Kind, int, Day | None, str, str]
_Totals: TypeAlias = dict[_Key, tuple[int, Money]]


class Answer(Struct, frozen=True):
    sums: list[Sum]
    # The time of the answer: of the last event that is in it, if it is behind.
    as_of: Ms
    # How many events are not in it yet.
    behind: int
    # The sums are being computed anew: the answer is incomplete.
    rebuilding: bool = False


async def read_sums(database: Database, project_id: str, question: Question, now: Ms) -> Answer:
    """In no particular order. `now` is the present; customers of a test clock have the clock's time instead."""
    # One snapshot: a fact that moves from the tail to the sums meanwhile is counted once.
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        rolled = await progress.load(connection, project_id)
        if rolled is None:
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        if is_clock(question.environment):
            found, now = await _on_clock(connection, project_id, question)
        else:
            found = await _stored(connection, project_id, question, now)
            last = min(question.last, now // DAY)
            rest = await sums.read_rest(connection, _asked(project_id, question), "", last, now)
            found = _with_rest(found, rest)
        if Kind.CUSTOMER in question.kinds:
            found = _with_rest(found, await _uncounted(connection, project_id, rolled.counted, question, now))
    behind = max(0, rolled.head - rolled.position)
    as_of = min(rolled.rolled_to, now) if behind else now
    return Answer(found, as_of, behind, rebuilding=rolled.rebuilding is not None)


async def read_values(
    database: Database, project_id: str, environment: str, dimension: str, limit: int = 100
) -> list[str]:
    """The values of a dimension that facts have, the most frequent first. `dimension` as in `Filter`."""
    column = column_of(dimension)
    cuboid = FULL if is_clock(environment) else next(one for one in CUBOIDS if one.dimensions == {column})
    prefix = prefix_of(dimension) if is_tag(dimension) else ""
    async with database.acquire() as connection:
        found = await sums.values(connection, project_id, environment, column, prefix, cuboid.number, limit)
    return [one.removeprefix(prefix) for one in found]


async def _on_clock(connection: Connection, project_id: str, question: Question) -> tuple[list[Sum], Ms]:
    time = await sums.clock_time(connection, project_id, question.environment)
    if time is None:
        raise NotFound(f"There is no test clock {question.environment}.", param="environment")
    last = min(question.last, time // DAY)
    asked = _asked(project_id, question)
    return _with_rest([], await sums.read_rest(connection, asked, question.environment, last, time)), time


async def _stored(connection: Connection, project_id: str, question: Question, now: Ms) -> list[Sum]:
    """The answer from the sums, without the tail."""
    cuboid = cuboid_for(question)
    tag = next((one for one in _dimensions(question) if is_tag(one)), None)
    ranges = ranges_of(question, now // DAY, by_month=cuboid.by_month)
    if tag is None or cuboid is FULL:
        return (await sums.read(connection, _asked(project_id, question), cuboid.number, ranges)).sums
    # Cells with one variant or value each. "None of them" is everything less all of these.
    others = tuple(one for one in question.filters if one.dimension != tag)
    segment = None if question.segment == tag else question.segment
    plain = question._replace(filters=others, segment=segment)
    of = Tag(column_of(tag), prefix_of(tag))
    by_value: dict[str, _Totals] = {}
    found = await sums.read(connection, _asked(project_id, plain), cuboid.number, ranges, of)
    for value, row in zip(found.tags, found.sums, strict=True):
        # An attribute that is empty is the same as none.
        if value:
            _add(by_value.setdefault(value, {}), row)
    wanted = [frozenset(one.values) for one in question.filters if one.dimension == tag]
    if all("" in values for values in wanted):
        by_value[""] = _less(await _stored(connection, project_id, plain, now), by_value)
    totals: _Totals = {}
    for value, of_value in by_value.items():
        if all(value in values for values in wanted):
            for (kind, n, period, known_segment, currency), (quantity, money) in of_value.items():
                named = value if question.segment == tag else known_segment
                _add(totals, Sum(kind, n, period, named, currency, quantity, money))
    return _rows(totals)


async def _uncounted(connection: Connection, project_id: str, counted: int, question: Question, now: Ms) -> list[Sum]:
    """Customers of the last seconds, whom the roller has not counted yet."""
    newest = [Stretch(project_id, counted, _LAST_KEY)]
    seen = {
        (project_id, pseudonym(("", one.first_id))): bare(one)
        for one in await progress.newcomers(connection, newest, _MOST_UNCOUNTED)
    }
    known = await subjects.known(connection, seen)
    facts = [
        fact
        for place, (environment, _, facts) in seen.items()
        if environment == question.environment and (place not in known or known[place].facts is None)
        for fact in facts
    ]
    return sum_facts(facts, question._replace(kinds=(Kind.CUSTOMER,)), now)


def _with_rest(found: list[Sum], rest: Sequence[Sum]) -> list[Sum]:
    """Both together. `rest` is short, and often empty."""
    more: _Totals = {}
    for row in rest:
        if row.period is not None or row.kind in LEVELS:
            _add(more, row)
    if not more:
        return found
    merged: list[Sum] = []
    for row in found:
        added = more.pop(row[:5], None)
        if added is not None:
            quantity, money = row.quantity + added[0], plus(row.money, added[1])
            if not quantity and not any(money):
                continue
            row = row._replace(quantity=quantity, money=money)
        merged.append(row)
    return merged + _rows(more)


def _less(everything: Iterable[Sum], by_value: Mapping[str, _Totals]) -> _Totals:
    left: _Totals = {}
    for row in everything:
        _add(left, row)
    for totals in by_value.values():
        for key, (quantity, money) in totals.items():
            had, amount = left.get(key, (0, NO_MONEY))
            left[key] = had - quantity, minus(amount, money)
    return left


def _dimensions(question: Question) -> list[str]:
    asked = [one.dimension for one in question.filters]
    return asked if question.segment is None else [*asked, question.segment]


def _asked(project_id: str, question: Question) -> Asked:
    filters: dict[str, list[str]] = {}
    tags: list[TagFilter] = []
    for one in question.filters:
        if is_tag(one.dimension):
            tags.append(_tag_filter(one))
        else:
            known = filters.get(one.dimension)
            filters[one.dimension] = [value for value in one.values if known is None or value in known]
    segment = Tag()
    if question.segment is not None:
        prefix = prefix_of(question.segment) if is_tag(question.segment) else ""
        segment = Tag(column_of(question.segment), prefix)
    return Asked(
        project_id=project_id,
        environment=question.environment,
        filters=filters,
        tags=tags,
        segment=segment,
        kinds=question.kinds,
        levels=[one for one in question.kinds if one in LEVELS],
        first=question.first,
        resolution=question.resolution,
    )


def _tag_filter(one: Filter) -> TagFilter:
    prefix = prefix_of(one.dimension)
    return TagFilter(column_of(one.dimension), prefix, [prefix + value for value in one.values], bare="" in one.values)


def _add(found: _Totals, row: Sum) -> None:
    key = row[:5]
    known = found.get(key)
    found[key] = (row.quantity, row.money) if known is None else (known[0] + row.quantity, plus(known[1], row.money))


def _rows(found: _Totals) -> list[Sum]:
    return [Sum(*key, quantity, money) for key, (quantity, money) in found.items() if quantity or any(money)]
