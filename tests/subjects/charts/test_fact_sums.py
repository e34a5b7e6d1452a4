"""Questions about facts that are in a file and in the tail, against the plain sum of these facts."""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest

from latchkey.domain.charts.period_amounts import PeriodMoney
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.subjects.charts.rules.facts import Amounts, Filter, Kind, Question, Resolution
from latchkey.subjects.charts.storage import project_facts as books
from latchkey.subjects.charts.storage.project_facts import CUSTOMERS, PERIODS, Duck, ProjectFacts, derive
from tests.subjects.charts.fact import Dimensions, Fact, Sum
from tests.subjects.charts.summing import sum_facts, sums_of

# 2026-01-15, at noon.
NOON: Ms = 20468 * DAY + 12 * HOUR
ENVIRONMENTS = ("PRODUCTION", "SANDBOX", "clock_1")
KINDS = (Kind.PAYMENT, Kind.ACTIVE, Kind.CUSTOMER, Kind.STATUS, Kind.RETAINED)
VARIANTS = ((), ("exp=a",), ("exp=b",), ("exp=a", "other=x"), ("other=x",), ("EXP=a", "exp=b"), ("exp:b=a", "exp=b:a"))
ATTRIBUTES = ((), ("plan=gold",), ("plan=",), ("plan=gold=er", "team=it's"), ("Plan=Gold", "plan=gold"))
VALUES = {
    "product": ("", "monthly", "yearly"), "duration": ("", "P1M"), "store": ("", "app_store"),
    "country": ("", "DE", "US"), "platform": ("", "ios"), "app_version": ("", "1.0", "2.0"),
    "offering": ("", "default"), "experiment:exp": ("", "a", "b", "b:a"), "experiment:other": ("", "x"),
    "experiment:EXP": ("", "a"), "experiment:exp:b": ("", "a"), "experiment:unknown": ("", "y"),
    "attribute:plan": ("", "gold", "gold=er"), "attribute:Plan": ("", "gold", "Gold"), "attribute:team": ("", "it's"),
}  # fmt: skip

NOTHING = Path("/dev/null")

# By customer: the environment and the facts.
Life = tuple[str, Sequence[Fact]]


def some_dimensions(chance: Random) -> Dimensions:
    plain = {name: chance.choice(VALUES[name]) for name in Dimensions._fields[:7]}
    return Dimensions(**plain, variants=chance.choice(VARIANTS), attributes=chance.choice(ATTRIBUTES))


def some_fact(chance: Random, of: Sequence[Dimensions]) -> Fact:
    days = chance.choice((-30_000, -400, -45, -15, -14, -3, -1, 0, 0, 1, 20))
    at = NOON + days * DAY + chance.choice((-1, 0, 1, HOUR, 5 * HOUR))
    money = PeriodMoney._make([*(chance.choice((0, 0, -990, 990, 12_345)) for _ in range(6)), chance.choice((0, 1))])
    currency, n = chance.choice(("", "USD", "EUR")), chance.choice((0, 0, 1, 12))
    return Fact(chance.choice(KINDS), at, n, currency, chance.choice((-1, 0, 1, 1, 2)), money, chance.choice(of))


def some_lives(chance: Random) -> dict[int, Life]:
    of = [some_dimensions(chance) for _ in range(4)]
    return {
        chance.randrange(1, 8): (
            chance.choice(ENVIRONMENTS),
            [some_fact(chance, of) for _ in range(chance.randrange(6))],
        )
        for _ in range(chance.randrange(1, 5))
    }


def some_question(chance: Random) -> Question:
    first = NOON // DAY + chance.choice((-500, -60, -31, -15, -14, 0, 3))
    filters = tuple(
        Filter(name, tuple(chance.sample(VALUES[name], chance.randrange(1, len(VALUES[name]) + 1))))
        for name in chance.sample(list(VALUES), chance.choice((0, 0, 1, 1, 2, 3)))
    )
    kinds = tuple(chance.sample(KINDS, chance.randrange(1, len(KINDS) + 1)))
    return Question(
        chance.choice(ENVIRONMENTS),
        kinds,
        first,
        first + chance.choice((0, 6, 31, 80, 600)),
        chance.choice(list(Resolution)),
        filters,
        chance.choice((None, None, *VALUES)),
        amounts=(amounts := chance.choice(list(Amounts))),
        any_n=tuple((one, chance.choice((None, 0, 5))) for one in kinds if chance.random() < 0.2),
        currency="EUR" if amounts is Amounts.DISPLAY else "USD",
    )


class Derivation:
    """In place of `derive`: makes the facts of customers as the file has them, and of others as they are now."""

    def __init__(self, old: Mapping[int, Life], new: Mapping[int, Life]) -> None:
        self._old, self._new = old, new

    def __call__(self, duck: Duck) -> None:
        empty(duck)
        asked = {one for (one,) in duck.execute("from changed").fetchall()}
        insert(duck, {**self._new} | {-1 - one: self._old[one] for one in asked if one in self._old})


def empty(duck: Duck) -> None:
    """Tables without facts. To derive them from no rows takes a tenth of a second, so it is done once."""
    if not duck.execute("select 1 from duckdb_views() where view_name = 'facts'").fetchall():
        derive(duck)
    for table in ("things", "origins", "prices", "fact_rows"):
        duck.execute(f"delete from {table}")


def insert(duck: Duck, lives: Mapping[int, Life]) -> None:
    facts = [(customer, *life) for customer, life in lives.items()]
    numbers = count(1)
    for customer, environment, (kind, at, n, currency, quantity, money, of) in (
        (customer, environment, fact) for customer, environment, facts_of in facts for fact in facts_of
    ):
        number = next(numbers)
        thing = [number, of.product, of.duration, of.store, of.offering]
        tags = ["\x1f".join(of.variants), "\x1f".join(of.attributes)]
        origin = [number, environment, of.country, of.platform, of.app_version, *tags]
        price = [number, currency, *money, currency if money.unconverted or not currency else "USD"]
        row = [kind, customer, at, n, quantity, 1, number, number, number]
        for table, values in (("things", thing), ("origins", origin), ("prices", price), ("fact_rows", row)):
            duck.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)


def write(file: Path, lives: Mapping[int, Life], now: Ms) -> None:
    """A file with these facts."""
    duck = books.connect(file.parent)
    duck.execute(f"attach '{file}' as kept")
    for table, columns in (("periods", PERIODS), ("customers", CUSTOMERS)):
        books.read(duck, f"table kept.{table}", NOTHING, columns)
        duck.execute(f"create temp view {table} as from kept.{table}")
    derive(duck)
    insert(duck, lives)
    values = {one: f"select {one} from facts" for one in ("environment", "currency", *Dimensions._fields[:7])}
    values["currency"] += " union select 'USD'"
    tags = {one: f"select unnest(string_split({one}, chr(31))) from facts" for one in ("variants", "attributes")}
    books.create(duck, values, tags)
    books.append(duck, now)
    duck.close()


@pytest.mark.parametrize("seed", range(12))
def test_every_question_gets_the_plain_sum_of_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    known: dict[int, Life] = {}
    file = None
    if seed % 4:
        known = some_lives(chance)
        file = tmp_path / "facts.duckdb"
        built = NOON - chance.choice((0, 3 * HOUR, 2 * DAY))
        write(file, known, built)
    kept = dict(known)
    now = NOON
    book = ProjectFacts(tmp_path, file)
    for _ in range(3):
        for _ in range(10):
            question = some_question(chance)
            facts = [fact for of, facts in known.values() if of == question.environment for fact in facts]
            answer = book.ask(question, now)
            assert _in_order(sums_of(answer.runs())) == sum_facts(facts, question, now), question
            # The same reading by month, and with few segments.
            largest = tuple(VALUES[question.segment][:1]) if question.segment else None
            wider = question._replace(resolution=Resolution.MONTH)
            runs = answer.runs(by=Resolution.MONTH, largest=largest)
            if question.resolution is not Resolution.WEEK:
                assert _in_order(sums_of(runs)) == sum_facts(facts, wider, now, largest), wider
        lives = some_lives(chance)
        with monkeypatch.context() as patched:
            patched.setattr(books, "derive", Derivation(kept, lives))
            book.replace(list(lives), NOTHING, NOTHING)
        known |= lives
        now += chance.choice((0, HOUR, 5 * HOUR, 20 * HOUR))


def _in_order(rows: Sequence[Sum]) -> list[Sum]:
    """As `sum_facts` sorts them."""
    return sorted(rows, key=lambda row: (row.kind, row.n, -1 if row.period is None else row.period, *row[3:5]))
