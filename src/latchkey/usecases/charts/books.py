"""What a batch writes: the facts of subjects, and the differences to what they had contributed before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

from msgspec.structs import replace

from latchkey.domain.charts.cuboids import FULL
from latchkey.domain.charts.fact import Dimensions, Fact, Kind, Money
from latchkey.domain.charts.facts.subject import Origin, SubjectKey
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.charts import books, dimensions, subjects
from latchkey.storage.charts.books import Changes, Contribution
from latchkey.storage.charts.dimensions import Combination
from latchkey.storage.charts.kinds import CODES
from latchkey.storage.charts.progress import Newcomer, Roll
from latchkey.storage.charts.subjects import NO_FACTS, Known, Row, SubjectRef
from latchkey.storage.database import Connection
from latchkey.usecases.charts.numbers import Asked, Numbers, origin_combination
from latchkey.usecases.rolling.turns import in_turns

# The tail of a project is folded when it has this many rows.
FOLD_AT = 15_000


class Contributed(NamedTuple):
    """All facts of a subject as of now."""

    environment: str
    origin: Origin
    facts: Sequence[Fact]


class Written(NamedTuple):
    # The length of each project's tail.
    tails: Mapping[str, int]
    # To keep in `Numbers` after the commit.
    numbers: Mapping[Asked, int]


async def write(
    connection: Connection,
    numbers: Numbers,
    rolls: Mapping[str, Roll],
    contributed: Mapping[SubjectRef, Contributed],
    known: Mapping[SubjectRef, Known],
    now: Ms,
    moved: Sequence[str] = (),
) -> Written:
    """Replaces the facts of these subjects. `rolls`: the projects, locked, with the progress to store. Those in `moved`
    have progress to store even if no fact has changed."""
    asked: set[Asked] = set()
    async for (project_id, _), (environment, origin, facts) in in_turns(contributed.items()):
        asked.add((project_id, origin_combination(origin)))
        asked.update((project_id, Combination(environment, FULL.number, one)) for one in _dimensions(facts).values())
    found, last = await numbers.of(connection, rolls, asked)
    rolls = {id: replace(roll, passed_to=max(roll.passed_to, now)) for id, roll in rolls.items()}
    stored: list[Contribution] = []
    changes: list[tuple[str, Row]] = []
    async for place, (environment, origin, facts) in in_turns(contributed.items()):
        project_id = place[0]
        number = {
            key: found[project_id, Combination(environment, FULL.number, one)]
            for key, one in _dimensions(facts).items()
        }
        rows = _distinct([_row(fact, number[id(fact.dimensions)]) for fact in facts])
        encoded = subjects.encode(rows)
        before = known.get(place)
        had = NO_FACTS if before is None or before.facts is None else before.facts
        if encoded == had and (not rows or (before is not None and before.origin == origin)):
            continue
        stored.append(Contribution(*place, found[project_id, origin_combination(origin)], encoded))
        if encoded != had and _is_summed(rolls[project_id], place[1]):
            changes += [(project_id, row) for row in _difference(had, rows)]
    if not stored and not moved:
        return Written({}, found)
    changed = await placed(connection, rolls, found, changes)
    told = {*moved, *(one.project_id for one in stored)}
    tails = Counter(id for id, _, _ in changed.past)
    rolled = [
        replace(rolls[id], batch=rolls[id].batch + 1, dimension=last[id], tail=rolls[id].tail + tails[id])
        for id in sorted(told)
    ]
    return Written(await books.write(connection, stored, changed, rolled), found)


async def placed(
    connection: Connection, rolls: Mapping[str, Roll], found: Mapping[Asked, int], changes: Sequence[tuple[str, Row]]
) -> Changes:
    """Where each change is written: in the past, or ahead. Facts of test clocks always are ahead."""
    clocks = {(id, number): one.environment for (id, one), number in found.items() if number < 0}
    unknown = {(id, row[_DIMENSION]) for id, row in changes if row[_DIMENSION] < 0} - clocks.keys()
    # Of facts that are taken away: their customer may have been on another clock.
    clocks |= await dimensions.environments(connection, unknown)
    rolled = {id: (roll.batch + 1, roll.passed_to) for id, roll in rolls.items()}
    made = Changes([], [], [], [])
    for number, (id, row) in enumerate(changes):
        batch, passed_to = rolled[id]
        if row[_DIMENSION] >= 0 and row[_AT] <= passed_to:
            made.past.append((id, batch, number))
            made.past_rows.append(row)
        else:
            clock = clocks[id, row[_DIMENSION]] if row[_DIMENSION] < 0 else ""
            made.ahead.append((id, clock, batch, number))
            made.ahead_rows.append(row)
    return made


# Places in a `Row`.
_AT: Final = 1
_DIMENSION: Final = 4
_QUANTITY: Final = 5


def _dimensions(facts: Sequence[Fact]) -> dict[int, Dimensions]:
    """By their identity: most facts of a subject share theirs, and to compare nine texts takes longer."""
    return {id(fact.dimensions): fact.dimensions for fact in facts}


def _row(fact: Fact, dimension: int) -> Row:
    kind, at, n, currency, quantity, money, _ = fact
    return (CODES[kind], at, n, currency, dimension, quantity, *money)


def _distinct(rows: list[Row]) -> list[Row]:
    """In a fixed order; rows that differ only in quantity and amounts are added up."""
    if len({row[:_QUANTITY] for row in rows}) == len(rows):
        return sorted(rows)
    summed: dict[tuple[object, ...], tuple[int, ...]] = {}
    for row in rows:
        known = summed.get(row[:_QUANTITY])
        rest = row[_QUANTITY:]
        summed[row[:_QUANTITY]] = (
            rest if known is None else tuple(one + other for one, other in zip(known, rest, strict=True))
        )
    return sorted((*key, *rest) for key, rest in summed.items() if any(rest))  # type: ignore[misc]


def _difference(had: bytes, has: list[Row]) -> list[Row]:
    if had == NO_FACTS:
        return has
    before, after = set(subjects.decode(had)), set(has)
    gone = (_negative(row) for row in before - after)
    return [*gone, *(after - before)]


def _negative(row: Row) -> Row:
    kind, at, n, currency, dimension, quantity, *money = row
    return (kind, at, n, currency, dimension, -quantity, *Money(*(-one for one in money)))


def _is_summed(roll: Roll, subject: UUID) -> bool:
    """During a rebuild: whether the sums have this subject's facts already. If not, they are added later."""
    return roll.rebuilding is None or (roll.summed_to is not None and subject <= roll.summed_to)


# Enough for a batch, which needs each of them twice.
@lru_cache(maxsize=4096)
def pseudonym(key: SubjectKey) -> UUID:
    """The id of a subject in these tables. It stays the same when a purchase gets another owner or its owner is erased,
    and it does not reveal the store's id or the customer's."""
    return UUID(bytes=blake2b("\0".join(key).encode(), digest_size=16).digest())


def bare(one: Newcomer) -> Contributed:
    """A customer of whom nothing is known but where they came from; the same as `facts_of` says of them."""
    of = Dimensions(country=one.origin.country, platform=one.origin.platform, app_version=one.origin.app_version)
    fact = Fact(Kind.CUSTOMER, one.first_seen_at, quantity=1, dimensions=of)
    return Contributed(one.test_clock_id or Environment.PRODUCTION, one.origin, (fact,))
