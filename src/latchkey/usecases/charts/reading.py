"""Answers questions about facts from the stored sums. The answer is the same as `domain/charts/summing.py` gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from latchkey.domain.charts.cuboids import CUBOIDS, FULL, Cuboid, column_of, cuboid_for, is_tag, prefix_of
from latchkey.domain.charts.fact import LEVELS, NO_MONEY, Kind, Money, minus, plus
from latchkey.domain.charts.ranges import BEGINNING, Range, ranges_of
from latchkey.domain.charts.summing import sum_facts, wanted_money, wanted_n, wanted_segment
from latchkey.domain.charts.sums import Amounts, Day, Filter, Question, Sum
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.charts import blocks, progress, scanning, subjects, sums
from latchkey.storage.charts.blocks import FRESH, Stored, by_month
from latchkey.storage.charts.kinds import CODES
from latchkey.storage.charts.scanning import NOTHING, Found
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
            found = _with_rest(found, _wanted(question, rest))
        if Kind.CUSTOMER in question.kinds:
            found = _with_rest(found, await _uncounted(connection, project_id, rolled.counted, question, now))
    behind = max(0, rolled.head - rolled.position)
    as_of = min(rolled.rolled_to, now) if behind else now
    return Answer(found, as_of, behind, rebuilding=rolled.rebuilding is not None)


# Every purchase and customer has a fact of one of these.
_WITH_VALUES = (Kind.PAYMENT, Kind.ACTIVE, Kind.TRIAL, Kind.CUSTOMER, Kind.ENROLLED, Kind.BILLING_ISSUE)


async def read_values(
    database: Database, project_id: str, environment: str, dimension: str, limit: int = 100
) -> list[str]:
    """The values of a dimension that facts have, the most frequent first. `dimension` as in `Filter`."""
    column = column_of(dimension)
    on_clock = is_clock(environment)
    cuboid = next(one for one in CUBOIDS if one.dimensions == {column})
    whole = Range(BEGINNING, -BEGINNING)
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        uses = await sums.values(connection, project_id, environment, environment if on_clock else "", column)
        stored: list[Stored] = []
        if not on_clock:
            codes = [CODES[one] for one in _WITH_VALUES]
            asked = [(by_month(cuboid), whole), (FRESH, whole)]
            stored = await blocks.read(connection, project_id, environment, codes, codes, asked)
    for one, rows in (await asyncio.to_thread(scanning.rows_by_value, stored, column)).items():
        uses[one] = uses.get(one, 0) + rows
    prefix = prefix_of(dimension) if is_tag(dimension) else ""
    found = sorted((one for one in uses if one.startswith(prefix)), key=lambda one: (-uses[one], one))
    return [one.removeprefix(prefix) for one in found[:limit]]


async def _on_clock(connection: Connection, project_id: str, question: Question) -> tuple[list[Sum], Ms]:
    time = await sums.clock_time(connection, project_id, question.environment)
    if time is None:
        raise Invalid(f"There is no test clock {question.environment[:40]!r}.", param="environment")
    last = min(question.last, time // DAY)
    asked = _asked(project_id, question)
    rest = await sums.read_rest(connection, asked, question.environment, last, time)
    return _with_rest([], _wanted(question, rest)), time


async def _stored(connection: Connection, project_id: str, question: Question, now: Ms) -> list[Sum]:
    """The answer from the blocks."""
    cuboid = cuboid_for(question)
    tag = next((one for one in _dimensions(question) if is_tag(one)), None)
    wanted = [frozenset(one.values) for one in question.filters if one.dimension == tag]
    # Rows of other cuboids have one variant or value each, so only they need more than one reading, and only if facts
    # without any count.
    if tag is None or cuboid is FULL or not all("" in values for values in wanted):
        return (await _scanned(connection, project_id, question, cuboid, now)).sums
    # "None of them" is everything less all of them.
    others = tuple(one for one in question.filters if one.dimension != tag)
    segment = None if question.segment == tag else question.segment
    plain = question._replace(filters=others, segment=segment, largest=None if segment is None else question.largest)
    by_value: dict[str, _Totals] = {}
    found = await _scanned(connection, project_id, plain, cuboid, now, tag)
    for value, row in zip(found.tags, found.sums, strict=True):
        # An attribute that is empty is the same as none.
        if value:
            _add(by_value.setdefault(value, {}), row)
    by_value[""] = _less(await _stored(connection, project_id, plain, now), by_value)
    totals: _Totals = {}
    for value, of_value in by_value.items():
        if all(value in values for values in wanted):
            for (kind, n, period, known_segment, currency), (quantity, money) in of_value.items():
                named = wanted_segment(question, value) if question.segment == tag else known_segment
                _add(totals, Sum(kind, n, period, named, currency, quantity, money))
    return _rows(totals)


async def _scanned(
    connection: Connection, project_id: str, question: Question, cuboid: Cuboid, now: Ms, tag: str | None = None
) -> Found:
    """The answer from the blocks of a cuboid, and from those that are in no cuboid yet. With `tag` (a dimension) only
    facts with such a variant or attribute, by it."""
    ranges = ranges_of(question, now // DAY, by_month=True)
    by_number = {
        cuboid.number: ranges.days,
        by_month(cuboid): ranges.months,
        FRESH: ranges_of(question, now // DAY, by_month=False).days,
    }
    stored = await blocks.read(
        connection,
        project_id,
        question.environment,
        [CODES[one] for one in question.kinds],
        [CODES[one] for one in question.kinds if one in LEVELS],
        [(number, one) for number, of in by_number.items() for one in of],
    )
    if not stored:
        return NOTHING
    return await asyncio.to_thread(scanning.scan, stored, question, by_number, tag)


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


def _wanted(question: Question, rest: Sequence[Sum]) -> Sequence[Sum]:
    """Sums of the tail, with the segments and amounts that a question wants."""
    if question.largest is None and question.amounts is Amounts.ALL and not question.any_n:
        return rest
    found: list[Sum] = []
    for kind, n, period, segment, currency, quantity, money in rest:
        wanted = wanted_n(question, kind, n)
        if wanted is not None:
            currency, money = wanted_money(question, currency, money)
            found.append(Sum(kind, wanted, period, wanted_segment(question, segment), currency, quantity, money))
    return found


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
