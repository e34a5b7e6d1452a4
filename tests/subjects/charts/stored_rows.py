"""What charts count in a project: the stored rows against those made of the customers now, and the facts."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from msgspec import json, structs

from latchkey.database.pool import Database, Record
from latchkey.domain.charts.period_rows import GONE, PeriodRow, rows_of
from latchkey.domain.instants import Ms
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.state import decode
from latchkey.subjects.charts.storage.fact_cache import copy_rows
from latchkey.subjects.charts.storage.project_facts import CUSTOMERS, PERIODS, connect, derive, read


class Key(NamedTuple):
    kind: str
    environment: str
    moment: Ms
    n: int
    currency: str
    product: str
    duration: str
    store: str
    country: str
    platform: str
    app_version: str
    offering: str
    variants: str
    attributes: str


# With quantity and amounts.
Facts: TypeAlias = dict[Key, tuple[int, ...]]

_FIELDS = tuple(one.name for one in structs.fields(PeriodRow))


async def agree(database: Database, project_id: str) -> list[PeriodRow]:
    """Checks that the rows, which were written change by change, are those that the customers would have if they were
    written today. Returns them."""
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, Catalogs(), {project_id}))[project_id].catalog
        customers = {
            row["id"]: decode(row["state"])
            for row in await connection.fetch("select id, state from customers where project_id = $1", project_id)
        }
        found = await connection.fetch(
            "select *, customer_id as who from chart_periods where project_id = $1 and customer_id = any($2)"
            " and side <> 2 and type <> $3",
            project_id, list(customers), GONE,
        )  # fmt: skip
    stored = {(row["purchase"].hex, row["period"]): _row(row) for row in found}
    made = {(row.purchase, row.period): row for key, one in customers.items() for row in rows_of(key, one, catalog)}
    wrong = {key: (stored.get(key), made.get(key)) for key in stored | made if stored.get(key) != made.get(key)}
    assert not wrong, wrong
    return list(stored.values())


def _row(row: Record) -> PeriodRow:
    found = {name: row[name] for name in _FIELDS}
    purchase, back = row["purchase"], row["back"]
    found["purchase"] = purchase.hex
    found["back"] = None if back is None else json.decode(back, type=tuple[tuple[int, ...], ...])
    return PeriodRow(**found)


async def facts(database: Database, project_id: str) -> Facts:
    """All facts of a project, added up over its customers, as they follow from the stored rows."""
    duck = connect()
    with TemporaryDirectory() as folder:
        periods, people = Path(folder, "periods.csv"), Path(folder, "customers.csv")
        async with database.acquire() as connection:
            await copy_rows(connection, project_id, periods, people)
        read(duck, "temp table periods", periods, PERIODS)
        read(duck, "temp table customers", people, CUSTOMERS)
    derive(duck)
    found = duck.execute(
        f"select {', '.join(Key._fields)}, sum(quantity)::bigint, sum(micros)::bigint, sum(tax)::bigint,"
        " sum(commission)::bigint, sum(usd)::bigint, sum(tax_usd)::bigint, sum(commission_usd)::bigint,"
        " sum(unconverted)::bigint"
        " from facts group by all"
    ).fetchall()
    duck.close()
    places = len(Key._fields)
    return {Key(*row[:places]): row[places:] for row in found if any(row[places:])}
