"""Answers questions about facts from the stored sums. The answer is the same as `domain/charts/summing.py` gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct

from latchkey.domain.charts.cuboids import CUBOIDS, FULL, Cuboid, column_of, cuboid_for, is_tag, prefix_of
from latchkey.domain.charts.fact import (
    LEVELS,
    NO_MONEY,
    Day,
    Fact,
    Filter,
    Kind,
    Money,
    Question,
    Resolution,
    Sum,
    period_of,
    plus,
)
from latchkey.domain.charts.ranges import BEGINNING, Range, ranges_of
from latchkey.domain.charts.runs import Run, added, runs_of, sums_of
from latchkey.domain.charts.summing import sum_facts, wanted_money, wanted_n, wanted_segment
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.charts import blocks, progress, scanning, subjects, sums
from latchkey.storage.charts.blocks import FRESH, Stored, by_month
from latchkey.storage.charts.kinds import CODES
from latchkey.storage.charts.progress import Progress
from latchkey.storage.charts.scanning import NOTHING, Found, Loaded
from latchkey.storage.charts.sums import Asked, Tag, TagFilter
from latchkey.storage.database import Connection, Database
from latchkey.storage.rolling.found import Stretch
from latchkey.usecases.charts.books import bare, pseudonym
from latchkey.usecases.charts.numbers import is_clock

_LAST_KEY = 2**62
_MOST_UNCOUNTED = 5_000

_Key: TypeAlias = tuple[Kind, int, Day | None, str, str]


class Answer(Struct, frozen=True):
    runs: list[Run]
    # The time of the answer: of the last event that is in it, if it is behind.
    as_of: Ms
    # How many events are not in it yet.
    behind: int
    # The sums are being computed anew: the answer is incomplete.
    rebuilding: bool = False

    @property
    def sums(self) -> list[Sum]:
        """One by one. They can be many: charts are computed from the runs."""
        return sums_of(self.runs)


async def read_sums(database: Database, project_id: str, question: Question, now: Ms) -> Answer:
    """In no particular order. `now` is the present; customers of a test clock have the clock's time instead."""
    async with reading(database, project_id, [question], now) as opened:
        return await opened.answer([question])


@asynccontextmanager
async def reading(
    database: Database, project_id: str, questions: Sequence[Question], now: Ms
) -> AsyncIterator[Reading]:
    """For all these questions, of one environment. Those that differ in their days, periods and largest segments only
    share one reading of the sums."""
    # One snapshot: a fact that moves from the tail to the sums meanwhile is counted once.
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        rolled = await progress.load(connection, project_id)
        if rolled is None:
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        if is_clock(environment := questions[0].environment):
            time = await sums.clock_time(connection, project_id, environment)
            if time is None:
                raise Invalid(f"There is no test clock {environment[:40]!r}.", param="environment")
            now = time
        yield Reading(connection, project_id, questions, rolled, now)


class Reading:
    def __init__(
        self, connection: Connection, project_id: str, questions: Sequence[Question], rolled: Progress, now: Ms
    ) -> None:
        self._connection = connection
        self._project_id = project_id
        self._questions = questions
        self._rolled = rolled
        self._now = now
        # Sums by month are of no use for some of them: then none of them uses these, and all read the same.
        self._by_month = all(one.resolution is Resolution.MONTH for one in questions)
        self._loaded: dict[tuple[Question, int, str | None], Loaded | None] = {}
        self._rest: dict[Question, list[Sum]] = {}
        self._newest: list[Fact] | None = None

    async def answer(self, questions: Iterable[Question]) -> Answer:
        """All their sums. Each is one of those that the reading is for, with any `largest`."""
        found: list[Run] = []
        for one in questions:
            found += await self._runs(one)
        behind = max(0, self._rolled.head - self._rolled.position)
        as_of = min(self._rolled.rolled_to, self._now) if behind else self._now
        return Answer(found, as_of, behind, rebuilding=self._rolled.rebuilding is not None)

    async def _runs(self, question: Question) -> list[Run]:
        found = [] if is_clock(question.environment) else await self._stored(question)
        found = _with_rest(found, _wanted(question, await self._rest_of(question)))
        if Kind.CUSTOMER in question.kinds:
            newest = sum_facts(await self._uncounted(question), question._replace(kinds=(Kind.CUSTOMER,)), self._now)
            found = _with_rest(found, newest)
        return found

    async def _rest_of(self, question: Question) -> list[Sum]:
        """What is in no block yet, by day; on a test clock everything."""
        shape = _shape(question)
        known = self._rest.get(shape)
        if known is None:
            asked = _asked(self._project_id, shape._replace(first=BEGINNING))
            clock = question.environment if is_clock(question.environment) else ""
            last = min(max(one.last for one in self._questions), self._now // DAY)
            known = self._rest[shape] = await sums.read_rest(self._connection, asked, clock, last, self._now)
        return known

    async def _stored(self, question: Question) -> list[Run]:
        """The answer from the blocks."""
        cuboid = cuboid_for(question)
        tag = next((one for one in _dimensions(question) if is_tag(one)), None)
        wanted = [frozenset(one.values) for one in question.filters if one.dimension == tag]
        # Rows of other cuboids have one variant or value each, so only they need more than one reading, and only if
        # facts without any count.
        if tag is None or cuboid is FULL or not all("" in values for values in wanted):
            return (await self._scanned(question, cuboid)).runs
        # "None of them" is everything less all of them.
        others = tuple(one for one in question.filters if one.dimension != tag)
        segment = None if question.segment == tag else question.segment
        largest = None if segment is None else question.largest
        plain = question._replace(filters=others, segment=segment, largest=largest)
        found = await self._scanned(plain, cuboid, tag)
        by_value: dict[str, list[Run]] = {}
        for value, run in zip(found.tags, found.runs, strict=True):
            # An attribute that is empty is the same as none.
            if value:
                by_value.setdefault(value, []).append(run)
        everything = await self._stored(plain)
        if question.segment != tag:
            unwanted = (value for value in by_value if not all(value in values for values in wanted))
            return added(everything, less=[run for value in unwanted for run in by_value[value]])
        by_value[""] = added(everything, less=[run for of in by_value.values() for run in of])
        return added(
            run._replace(segment=wanted_segment(question, value))
            for value, of in by_value.items()
            if all(value in values for values in wanted)
            for run in of
        )

    async def _scanned(self, question: Question, cuboid: Cuboid, tag: str | None = None) -> Found:
        """The answer from the blocks of a cuboid, and from those that are in no cuboid yet. With `tag` (a dimension)
        only facts with such a variant or attribute, by it."""
        key = _shape(question), cuboid.number, tag
        if key not in self._loaded:
            self._loaded[key] = await self._load(question, cuboid, tag)
        loaded = self._loaded[key]
        if loaded is None:
            return NOTHING
        return await asyncio.to_thread(scanning.answer, loaded, question, self._places(question, cuboid), tag)

    async def _load(self, question: Question, cuboid: Cuboid, tag: str | None) -> Loaded | None:
        places: dict[int, list[Range]] = {}
        for one in self._questions:
            for number, ranges in self._places(one, cuboid).items():
                places.setdefault(number, []).extend(ranges)
        asked = dict.fromkeys((number, one) for number, ranges in places.items() for one in ranges)
        stored = await blocks.read(
            self._connection,
            self._project_id,
            question.environment,
            [CODES[one] for one in question.kinds],
            [CODES[one] for one in question.kinds if one in LEVELS],
            list(asked),
        )
        return await self._bytes_of(stored, question, places, tag) if stored else None

    async def _bytes_of(
        self, stored: Sequence[Stored], question: Question, places: Mapping[int, Sequence[Range]], tag: str | None
    ) -> Loaded:
        loading = await asyncio.to_thread(scanning.Loading, stored, question, places, tag)
        adding: asyncio.Task[None] | None = None
        try:
            for portion in loading.portions():
                read = await blocks.spans(
                    self._connection, self._project_id, question.environment, loading.spans(portion)
                )
                if adding is not None:
                    await adding
                # Meanwhile the database reads the next portion. One thread at a time: several of them spend a third of
                # their time waiting for the interpreter's lock, and others need it too.
                adding = asyncio.create_task(asyncio.to_thread(loading.add, portion, read))
        finally:
            if adding is not None:
                await adding
        return await asyncio.to_thread(loading.loaded)

    def _places(self, question: Question, cuboid: Cuboid) -> dict[int, list[Range]]:
        """Which days of which blocks a question is about."""
        today = self._now // DAY
        resolution = Resolution.MONTH if self._by_month else Resolution.DAY
        ranges = ranges_of(question._replace(resolution=resolution), today, by_month=True)
        fresh = ranges_of(question, today, by_month=False)
        return {cuboid.number: ranges.days, by_month(cuboid): ranges.months, FRESH: fresh.days}

    async def _uncounted(self, question: Question) -> list[Fact]:
        """Customers of the last seconds, whom the roller has not counted yet."""
        if self._newest is None:
            stretch = Stretch(self._project_id, self._rolled.counted, _LAST_KEY)
            seen = {
                (self._project_id, pseudonym(("", one.first_id))): bare(one)
                for one in await progress.newcomers(self._connection, [stretch], _MOST_UNCOUNTED)
            }
            known = await subjects.known(self._connection, seen)
            self._newest = [
                fact
                for place, (environment, _, facts) in seen.items()
                if environment == question.environment and (place not in known or known[place].facts is None)
                for fact in facts
            ]
        return self._newest


def _shape(question: Question) -> Question:
    """What a question has in common with those about other days and segments."""
    return question._replace(first=0, last=0, resolution=Resolution.DAY, largest=None)


# Every purchase and customer has a fact of one of these.
_WITH_VALUES = (Kind.PAYMENT, Kind.ACTIVE, Kind.TRIAL, Kind.CUSTOMER, Kind.ENROLLED, Kind.BILLING_ISSUE)


async def read_values(
    database: Database, project_id: str, environment: str, dimension: str, limit: int = 100
) -> list[str]:
    """The values of a dimension that facts have, the most frequent first. `dimension` as in `Filter`."""
    column = column_of(dimension)
    on_clock = is_clock(environment)
    cuboid = next(one for one in CUBOIDS if column in one.dimensions)
    whole = Range(BEGINNING, -BEGINNING)
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        uses = await sums.values(connection, project_id, environment, environment if on_clock else "", column)
        stored: list[Stored] = []
        if not on_clock:
            codes = [CODES[one] for one in _WITH_VALUES]
            asked = [(by_month(cuboid), whole), (FRESH, whole)]
            stored = await blocks.read(connection, project_id, environment, codes, codes, asked)
        planned = scanning.only(stored, column)
        read = await blocks.spans(connection, project_id, environment, [(one, plan.spans) for one, plan in planned])
    plans = [(plan, spans) for (_, plan), spans in zip(planned, read, strict=True)]
    for one, rows in (await asyncio.to_thread(scanning.rows_by_value, plans, column)).items() if plans else ():
        uses[one] = uses.get(one, 0) + rows
    prefix = prefix_of(dimension) if is_tag(dimension) else ""
    found = sorted((one for one in uses if one.startswith(prefix)), key=lambda one: (-uses[one], one))
    return [one.removeprefix(prefix) for one in found[:limit]]


def _wanted(question: Question, rest: Iterable[Sum]) -> list[Sum]:
    """Sums by day that are in no block yet, as a question wants them."""
    periods: dict[Day, Day] = {}
    found: list[Sum] = []
    for kind, n, day, segment, currency, quantity, money in rest:
        assert day is not None, "nothing is before all days"
        wanted = wanted_n(question, kind, n)
        if wanted is None or day > question.last or (day < question.first and kind not in LEVELS):
            continue
        period: Day | None = None
        if day >= question.first:
            period = periods.get(day)
            if period is None:
                period = periods[day] = period_of(day, question.resolution)
        currency, money = wanted_money(question, currency, money)
        found.append(Sum(kind, wanted, period, wanted_segment(question, segment), currency, quantity, money))
    return found


def _with_rest(found: list[Run], rest: Iterable[Sum]) -> list[Run]:
    """Both together. `rest` is short, and often empty."""
    totals: dict[_Key, tuple[int, Money]] = {}
    for row in rest:
        key = row[:5]
        had, money = totals.get(key, (0, NO_MONEY))
        totals[key] = had + row.quantity, plus(money, row.money)
    more = runs_of(Sum(*key, *of) for key, of in totals.items() if of[0] or any(of[1]))
    return added([*found, *more]) if more else found


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
