"""The facts of a project in DuckDB: a file that was built from PostgreSQL, and the tail: what has changed since.

The file has the rows of `periods` and `customers` as they were read, and the facts that follow from them (`facts/`).
It is never changed. If a customer changes, the tail gets that customer's facts as the file has them with a weight of
-1, and as they are now with a weight of 1. A small project has no file, and all its facts are in the tail.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT
from latchkey.subjects.charts.rules.facts import Kind, Question
from latchkey.subjects.charts.storage.fact_sums import SEPARATOR, Answer, Source, is_tag, name, tag_sql, text, texts

if TYPE_CHECKING:
    import duckdb

Duck: TypeAlias = "duckdb.DuckDBPyConnection"


def _columns(definition: str) -> Mapping[str, str]:
    return dict(column.split() for column in definition.split(","))


# The columns of the two tables that are read from PostgreSQL, in the order of the queries.
PERIODS = _columns(
    """customer BIGINT, purchase UUID, place INTEGER, type VARCHAR, cause VARCHAR, sandbox BOOLEAN, store VARCHAR,
    product VARCHAR, duration VARCHAR, country VARCHAR, offering VARCHAR, purchased_at BIGINT, starts_at BIGINT,
    ends_at BIGINT, access_ends_at BIGINT, refunded_at BIGINT, currency VARCHAR, micros BIGINT, usd BIGINT,
    monthly_micros BIGINT, monthly_usd BIGINT, tax DOUBLE, commission DOUBLE, back VARCHAR, standing INTEGER,
    told_at BIGINT, failed_at BIGINT, grace_ends_at BIGINT, platform VARCHAR, app_version VARCHAR,
    seen_country VARCHAR, side TINYINT"""
)
CUSTOMERS = _columns(
    """customer BIGINT, first_seen_at BIGINT, clock VARCHAR, platform VARCHAR, app_version VARCHAR, country VARCHAR,
    enrollments VARCHAR, attributes VARCHAR"""
)
# Facts are made of so many periods at once. Those of each kind are sorted by day, so that a question about a year skips
# most of the others. With fewer periods at once it would skip less, with more they would not fit into memory.
_PERIODS_AT_ONCE = 500_000

_FOLDER = files("latchkey.subjects.charts.storage")
_SEPARATOR = "\n----\n"
_ONLY_IF = "-- Only if: "
_SETUP = _FOLDER.joinpath("setup.sql").read_text()
_FACTS = [file.read_text() for file in sorted(_FOLDER.joinpath("facts").iterdir(), key=lambda file: file.name)]
# With so many new rows the tail is compressed, to a twentieth, and those that were replaced give their memory back.
_LOOSE_ROWS = 100_000
# A file that was built with other ones is of no use. The number is raised when files change in another way.
RULES = _SEPARATOR.join(["3", _SETUP, *_FACTS])
*_DERIVATION, _VIEW = [statement for file in _FACTS for statement in file.split(_SEPARATOR)]
_TABLES = {"periods": PERIODS, "customers": CUSTOMERS}
# The tables that facts refer to, and the types of those columns that are enums in the file.
_CODED = {
    "things": {one: one for one in ("product", "duration", "store", "offering")},
    "origins": {one: one for one in ("environment", "country", "platform", "app_version")},
    "prices": {"currency": "currency", "shown": "currency"},
}
_AMOUNTS = ("quantity", "micros", "tax", "commission", "usd", "tax_usd", "commission_usd", "unconverted")
# The columns of the file that are enums, each with the SQL of its values.
_VALUES = {
    "environment": f"select unnest([{texts(Environment)}]) union select clock from customers",
    "currency": f"select {text(USD)} union select currency from periods",
    "product": "select product from periods",
    "duration": "select duration from periods",
    "store": "select store from periods",
    "country": "select unnest([country, seen_country]) from periods union select country from customers",
    "platform": "select platform from periods union select platform from customers",
    "app_version": "select app_version from periods union select app_version from customers",
    "offering": "select offering from periods",
}
# All variants and attributes that customers have, as they are in the texts of facts.
_TAGS = {
    "variants": 'select e.variant from (select unnest(from_json(enrollments, \'[{"variant": "VARCHAR"}]\')) as e'
    " from customers where enrollments is not null)",
    "attributes": f"select unnest(string_split(attributes, {text(SEPARATOR)})) from customers",
}
# Every purchase and customer has a fact of one of these.
_WITH_VALUES = (Kind.PAYMENT, Kind.ACTIVE, Kind.TRIAL, Kind.CUSTOMER, Kind.ENROLLED, Kind.BILLING_ISSUE)


def connect(folder: Path | None = None) -> Duck:
    """A database in memory. What does not fit in goes to the folder."""
    # Only here: it takes a fifth of a second, and most processes never need it.
    import duckdb

    atexit.unregister(_end_quietly)
    atexit.register(_end_quietly)
    duck = duckdb.connect(config={"autoinstall_known_extensions": False})
    duck.execute(f"set temp_directory = {text(str(folder / 'spilled') if folder else '')}")
    for statement in _SETUP.split(_SEPARATOR):
        duck.execute(statement)
    return duck


def _end_quietly() -> None:
    """DuckDB writes pages of warnings about itself to stderr when Python ends."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def derive(duck: Duck) -> None:
    """Makes the temporary table `facts` from `periods` and `customers`. Of a few customers, to plan a statement takes
    longer than to run it, so those that would find nothing are left out."""
    for statement in (*_DERIVATION, _VIEW):
        condition, _, _ = statement.partition("\n")
        if not condition.startswith(_ONLY_IF) or _rows(duck, condition.removeprefix(_ONLY_IF) + " limit 1"):
            duck.execute(statement)


def read(duck: Duck, table: str, source: Path, columns: Mapping[str, str], *, order: str = "") -> None:
    """Makes a table of a CSV that PostgreSQL has written."""
    types = ", ".join(f"{text(column)}: {text(type)}" for column, type in columns.items())
    duck.execute(
        f"create or replace {table} as from read_csv({text(str(source))}, columns = {{{types}}}, header = false,"
        " auto_detect = false, quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false,"
        f" strict_mode = true) {order}"
    )


class ProjectFacts:
    """`replace` is not for several threads at once. `ask` and the others are, also while it runs."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self._duck = duck = connect(folder)
        self._sources = [Source("recent.tail", weighed=True)]
        self.has_file = file is not None
        self._customers: set[int] = set()
        # Rows since the tail was last compressed.
        self._loose = 0
        if file is not None:
            duck.execute(f"attach {text(str(file))} as kept (read_only)")
            tags = frozenset(filter(is_tag, _kept_columns(duck)))
            self._sources += [Source("kept.facts", timed=False, columns=tags), Source("kept.ahead", columns=tags)]

    @property
    def changed(self) -> int:
        """How many customers the tail has."""
        return len(self._customers)

    def ask(self, question: Question, now: Ms) -> Answer:
        return Answer(self._duck.cursor(), self._sources, question, now)

    def values(self, environment: str, dimension: str, limit: int) -> list[str]:
        """Those of a dimension that facts have, the most frequent first."""
        union = " union all ".join(
            f"select {source.column(dimension)}::varchar as value,"
            f" {'sum(weight)' if source.weighed else 'count(*)'} as uses from {source.table}"
            f" where environment = {text(environment)} and kind in ({texts(_WITH_VALUES)}) group by all"
            for source in self._sources
        )
        # "" is a value of every dimension that is not the project's own: nothing is known.
        known = "where value <> ''" if is_tag(dimension) else ""
        found = _rows(
            self._duck.cursor(),
            f"select value, sum(uses) as uses from ({union}) {known} group by value having sum(uses) > 0"
            f" order by uses desc, value limit {limit}",
        )
        return [value for value, _ in found]

    def has_sales(self, environment: str) -> bool:
        sold = f"where environment = {text(environment)} and store <> '' limit 1"
        return any(_rows(self._duck.cursor(), f"from {source.table} {sold}") for source in self._sources)

    def replace(self, customers: Sequence[int], periods: Path, people: Path) -> None:
        """These customers have changed. The files have all their rows.

        Their old and new facts are made together, the old ones of other customers and purchases. Most facts are the
        same as before, so the tail gets only what differs."""
        duck = self._duck
        duck.execute("begin")
        try:
            duck.execute("create or replace temp table changed as select unnest($1::bigint[]) as customer", [customers])
            duck.execute("delete from recent.tail where customer in (from changed)")
            for (table, columns), source in zip(_TABLES.items(), (periods, people), strict=True):
                read(duck, f"temp table {table}", source, columns)
            if self.has_file:
                old = "select * replace (-1 - customer as customer{}) from kept.{} semi join changed using (customer)"
                purchase = ", md5('old' || purchase)::uuid as purchase"
                duck.execute(f"insert into periods {old.format(purchase, 'periods')}")
                duck.execute(f"insert into customers {old.format('', 'customers')}")
            derive(duck)
            [(appended,)] = _rows(
                duck,
                "insert into recent.tail by name select sum(if(customer < 0, -1, 1)) as weight,"
                " * replace (if(customer < 0, -1 - customer, customer) as customer) from facts"
                " group by all having weight <> 0",
            )
            duck.execute("commit")
        except BaseException:
            duck.execute("rollback")
            raise
        self._customers.update(customers)
        self._loose += appended
        if self._loose > _LOOSE_ROWS:
            duck.execute("checkpoint recent")
            self._loose = 0


def build(path: Path, periods: Path, people: Path, now: Ms) -> None:
    """Makes the file from all rows of a project. Facts after now stand in a table of their own, with those of test
    clocks, so that no question needs to look at the time of all others."""
    duck = connect(path.parent)
    try:
        duck.execute(f"attach {text(str(path))} as kept")
        for (table, columns), source in zip(_TABLES.items(), (periods, people), strict=True):
            read(duck, f"table kept.{table}", source, columns, order="order by customer")
            duck.execute(f"create temp view {table} as from kept.{table}")
        create(duck, _VALUES, _TAGS)
        for first, last in _portions(duck):
            for table in ("periods", "customers"):
                portion = f"from kept.{table} where customer between {first} and {last}"
                duck.execute(f"create or replace temp view {table} as {portion}")
            derive(duck)
            append(duck, now)
    finally:
        duck.close()


def _portions(duck: Duck) -> Iterator[tuple[int, int]]:
    """The first and last customers of each."""
    found = _rows(
        duck,
        "select max(customer) from ("
        f"select customer, row_number() over (order by customer) // {_PERIODS_AT_ONCE} as portion from kept.periods"
        ") group by portion order by 1",
    )
    first = -(2**62)
    for (last,) in found[:-1]:
        yield first, last
        first = last + 1
    yield first, 2**62


def create(duck: Duck, values: Mapping[str, str], tags: Mapping[str, str]) -> None:
    """Creates the tables of facts, with an enum for each text, experiment and attribute: SQL of all their values."""
    all_values = dict(values)
    for field, prefix in (("variants", EXPERIMENT), ("attributes", ATTRIBUTE)):
        duck.execute(
            f"create or replace temp table {field} as select distinct"
            f" {text(prefix)} || split_part(tag, '=', 1) as dimension,"
            " array_to_string(string_split(tag, '=')[2:], '=') as value"
            f" from ({tags[field]}) as t (tag) where tag <> ''"
        )
        for (dimension,) in _rows(duck, f"select distinct dimension from {field} order by 1"):
            all_values[dimension] = f"select value from {field} where dimension = {text(dimension)}"
    duck.execute(f"create type kept.kind as enum ({texts(Kind)})")
    columns = ["kind kept.kind", "shown kept.currency"]
    for column, sql in all_values.items():
        found = f"from (select '' union ({sql})) as t (v) where v is not null order by v"
        duck.execute(f"create type kept.{name(column)} as enum ({found})")
        columns.append(f"{name(column)} kept.{name(column)}")
    columns += ["day integer", "month integer", "n integer", *(f"{one} bigint" for one in _AMOUNTS)]
    duck.execute(f"create table kept.facts ({', '.join(columns)})")
    duck.execute(f"create table kept.ahead ({', '.join(columns)}, moment bigint)")


def append(duck: Duck, now: Ms) -> None:
    """Adds what `derive` has made. Texts become enums where each stands once."""
    columns = _kept_columns(duck)
    tags = "".join(f", {tag_sql(one)}::kept.{name(one)} as {name(one)}" for one in filter(is_tag, columns))
    for table, types in _CODED.items():
        enums = ", ".join(f"{column}::kept.{type} as {column}" for column, type in types.items())
        more = tags if table == "origins" else ""
        duck.execute(f"create or replace temp table {table} as select * replace ({enums}){more} from {table}")
    # Sorted while the rows are narrow. What they refer to is joined in this order.
    duck.execute(
        "create or replace temp table fact_rows as select f.* replace (f.kind::kept.kind as kind, 0 as customer)"
        " from fact_rows f join origins o on o.origin = f.origin"
        " order by f.kind::kept.kind, o.environment, (f.moment // 86400000)::integer"
    )
    duck.execute(_VIEW)
    facts = f"select {', '.join(map(name, columns))}{{}} from facts where {{}}"
    is_past = f"moment <= {now} and environment in ({texts(Environment)})"
    # As written: all that facts refer to is small beside them, but it is not estimated so.
    duck.execute("set disabled_optimizers = 'join_order,build_side_probe_side'")
    duck.execute(f"insert into kept.facts {facts.format('', is_past)}")
    duck.execute(f"insert into kept.ahead {facts.format(', moment', f'not ({is_past})')}")
    duck.execute("reset disabled_optimizers")


def _kept_columns(duck: Duck) -> list[str]:
    found = _rows(
        duck,
        # As `name` has written them.
        "select if(column_name[:4] = 'tag_', decode(from_hex(column_name[5:])), column_name) from duckdb_columns()"
        " where database_name = 'kept' and table_name = 'facts' order by column_index",
    )
    return [column for (column,) in found]


def _rows(duck: Duck, sql: str) -> list[tuple[Any, ...]]:
    return duck.execute(sql).fetchall()


if __name__ == "__main__":
    os.nice(10)
    _made, _periods, _people = map(Path, sys.argv[1:4])
    build(_made, _periods, _people, int(sys.argv[4]))
