"""Random facts and questions, written to the tables of the charts as the roller writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from uuid import UUID

from latchkey.domain.charts.fact import Dimensions, Fact, Filter, Kind, Money, Question, Resolution, Sum
from latchkey.domain.charts.facts.subject import Origin
from latchkey.domain.charts.summing import sum_facts
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.storage.charts import progress, subjects
from latchkey.storage.database import Database
from latchkey.usecases.charts import books, folding
from latchkey.usecases.charts.books import Contributed
from latchkey.usecases.charts.numbers import Numbers
from latchkey.usecases.charts.reading import read_sums

# 2026-01-15, at noon.
NOON: Ms = 20468 * DAY + 12 * HOUR
ENVIRONMENTS = ("PRODUCTION", "SANDBOX")
KINDS = (Kind.PAYMENT, Kind.ACTIVE, Kind.CUSTOMER, Kind.STATUS, Kind.RETAINED)
VARIANTS = ((), ("exp:a",), ("exp:b",), ("exp:a", "other:x"), ("other:x",))
ATTRIBUTES = ((), ("plan=gold",), ("plan=",), ("plan=gold", "team=1"))
DIMENSIONS = (
    "product", "duration", "store", "country", "platform", "app_version", "offering", "experiment:exp",
    "experiment:other", "attribute:plan", "attribute:team",
)  # fmt: skip
VALUES = {
    "product": ("", "monthly", "yearly"), "duration": ("", "P1M"), "store": ("", "app_store"),
    "country": ("", "DE", "US"),
    "platform": ("", "ios"), "app_version": ("", "1.0", "2.0"), "offering": ("", "default"),
    "experiment:exp": ("", "a", "b"), "experiment:other": ("", "x"), "attribute:plan": ("", "gold"),
    "attribute:team": ("", "1"),
}  # fmt: skip

Books = dict[UUID, Contributed]


def some_dimensions(chance: Random) -> Dimensions:
    plain = {name: chance.choice(VALUES[name]) for name in DIMENSIONS[:7]}
    return Dimensions(**plain, variants=chance.choice(VARIANTS), attributes=chance.choice(ATTRIBUTES))


def some_fact(chance: Random, of: Sequence[Dimensions]) -> Fact:
    kind = chance.choice(KINDS)
    at = (
        NOON
        + chance.choice((-400, -45, -15, -14, -3, -1, 0, 0, 1, 20)) * DAY
        + chance.choice((-1, 0, 1, HOUR, 5 * HOUR))
    )
    amounts = Money._make([*(chance.choice((0, 0, -990, 990, 12_345)) for _ in range(6)), chance.choice((0, 1))])
    currency = chance.choice(("", "USD", "EUR"))
    quantity = chance.choice((-1, 0, 1, 1, 2))
    return Fact(kind, at, chance.choice((0, 0, 1, 12)), currency, quantity, amounts, chance.choice(of))


def some_books(chance: Random, environments: Sequence[str] = ENVIRONMENTS) -> Books:
    of = [some_dimensions(chance) for _ in range(4)]
    return {
        UUID(int=chance.randrange(1, 6)): Contributed(
            chance.choice(environments),
            Origin("ios", "1.0", chance.choice(("", "DE"))),
            [some_fact(chance, of) for _ in range(chance.randrange(6))],
        )
        for _ in range(chance.randrange(1, 4))
    }


def some_question(chance: Random, environments: Sequence[str] = ENVIRONMENTS) -> Question:
    first = NOON // DAY + chance.choice((-500, -60, -31, -15, -14, 0, 3))
    last = first + chance.choice((0, 6, 31, 80, 600))
    names = chance.sample(DIMENSIONS, chance.choice((0, 0, 1, 1, 2, 3)))
    filters = tuple(
        Filter(name, tuple(chance.sample(VALUES[name], chance.randrange(1, len(VALUES[name]) + 1)))) for name in names
    )
    segment = chance.choice((None, None, *DIMENSIONS))
    kinds = tuple(chance.sample(KINDS, chance.randrange(1, len(KINDS) + 1)))
    if chance.random() < 0.2:
        # As retention asks: it is answered from other sums than these kinds together with others.
        kinds = (Kind.RETAINED,)
        filters = (*(one for one in filters if one.dimension != "duration"), Filter("duration", ("P1M",)))
    largest = None if segment is None or chance.random() < 0.6 else tuple(chance.sample(VALUES[segment], 1))
    resolution = chance.choice(list(Resolution))
    any_n = tuple((one, chance.choice((None, 0, 5))) for one in kinds if chance.random() < 0.2)
    return Question(chance.choice(environments), kinds, first, last, resolution, filters, segment, largest, any_n=any_n)


async def put(
    database: Database, project_id: str, contributed: Mapping[UUID, Contributed], now: Ms, *, fold: bool = False
) -> None:
    """One batch of the roller with these facts; `fold`: and then the tail is folded."""
    async with database.transaction() as connection:
        held = await progress.hold(connection, project_id, wait=True)
        assert held is not None
        places = {(project_id, subject): one for subject, one in contributed.items()}
        known = await subjects.known(connection, places)
        await books.write(connection, Numbers(), {project_id: held}, places, known, now, [project_id])
        if fold:
            await folding.fold(connection, project_id, now)


async def answer(database: Database, project_id: str, question: Question, now: Ms) -> list[Sum]:
    return in_order((await read_sums(database, project_id, question, now)).sums)


def in_order(rows: Sequence[Sum]) -> list[Sum]:
    """As `sum_facts` sorts them."""
    return sorted(rows, key=lambda row: (row.kind, row.n, -1 if row.period is None else row.period, *row[3:5]))


def expected(kept: Books, question: Question, now: Ms) -> list[Sum]:
    facts = [fact for one in kept.values() if one.environment == question.environment for fact in one.facts]
    return sum_facts(facts, question, now)
