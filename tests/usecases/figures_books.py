"""The figures computed from all customers, to compare with the stored ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from latchkey.domain.figures.lines import Line, contributions
from latchkey.domain.figures.tally import NOTHING, Tally
from latchkey.domain.figures.window import Sums, Window
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Database
from latchkey.usecases.engine.changes import load_projects
from latchkey.usecases.figures.books import pseudonym

Books = dict[UUID, set[Line]]


async def kept(database: Database, project_id: str) -> Books:
    books: Books = defaultdict(set)
    rows = await database.pool.fetch("select * from figure_lines where project_id = $1", project_id)
    for row in rows:
        tally = Tally(*(row[column] for column in Tally._fields))
        books[row["purchase"]].add(Line(row["at"], row["currency"], Environment(row["environment"]), tally))
    return dict(books)


async def worked_out(database: Database, project_id: str) -> Books:
    books: Books = {}
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, Catalogs(), {project_id}))[project_id].catalog
        rows = await connection.fetch("select state from customers where project_id = $1", project_id)
    for row in rows:
        for key, lines in contributions(decode(row["state"]), catalog).items():
            if lines:
                books[pseudonym(key)] = set(lines)
    return books


async def agree(database: Database, project_id: str) -> Books:
    """Check that the stored lines equal the computed ones, that the lines of erased owners are still there, and that
    the days are the sums of the lines."""
    books, anew = await kept(database, project_id), await worked_out(database, project_id)
    assert {purchase: books.get(purchase) for purchase in anew} == anew
    orphans = await database.pool.fetch(
        "select store, store_id from purchase_owners where project_id = $1 and customer_id is null", project_id
    )
    assert books.keys() - anew.keys() <= {pseudonym((row["store"], row["store_id"])) for row in orphans}
    days: dict[tuple[str, int, str], Tally] = defaultdict(lambda: NOTHING)
    for lines in books.values():
        for at, currency, environment, tally in lines:
            days[environment, at // DAY, currency] = days[environment, at // DAY, currency].plus(tally)
    rows = await database.pool.fetch("select * from figure_days where project_id = $1", project_id)
    summed = {(row["environment"], row["day"], row["currency"]): _tally(row) for row in rows}
    assert {key: tally for key, tally in summed.items() if tally != NOTHING} == {
        key: tally for key, tally in days.items() if tally != NOTHING
    }
    return books


def sums(books: Books, window: Window, environment: Environment) -> Sums:
    """What a report needs, from the lines alone; new customers are not in them."""
    days: dict[int, dict[str, Tally]] = defaultdict(dict)
    ahead: dict[str, Tally] = {}
    ahead_then: dict[str, Tally] = {}
    for line in (one for lines in books.values() for one in lines if one.environment is environment):
        day = max(line.at // DAY, window.previous_start - 1)
        if day > window.today:
            continue
        _add(days[day], line)
        if day == window.today and line.at > window.now:
            _add(ahead, line)
        if day == window.then // DAY and line.at > window.then:
            _add(ahead_then, line)
    return Sums(days.pop(window.previous_start - 1, {}), days, ahead, ahead_then, {}, 0)


def _add(to: dict[str, Tally], line: Line) -> None:
    to[line.currency] = to.get(line.currency, NOTHING).plus(line.tally)


def _tally(row: Any) -> Tally:
    return Tally(*(row[column] for column in Tally._fields))
