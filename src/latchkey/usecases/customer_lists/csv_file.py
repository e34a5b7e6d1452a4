"""A whole list of customers as CSV, a piece at a time: memory stays the same however long the list is."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator, Sequence
from io import StringIO
from typing import Any

from latchkey.domain.customers.filter import Filter, Sort
from latchkey.domain.instants import Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.customer_lists.columns import COLUMNS, Kind, needs_customer
from latchkey.usecases.customer_lists.listing import list_page
from latchkey.usecases.engine.changes import load_projects
from latchkey.usecases.exports.text import instant, money

# Customers per piece: other requests are served between two.
AT_ONCE = 200
# A spreadsheet takes a cell that begins like this for a formula, and runs it.
# The last four are the wide forms of the first four.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


async def csv_pieces(
    database: Database, catalogs: Catalogs, project_id: str, wanted: Filter, columns: Sequence[str], now: Ms
) -> AsyncIterator[bytes]:
    """In the order in which customers were created, the newest first: nobody is missed or listed twice because somebody
    was seen meanwhile. Each piece is a query of its own, so a slow reader holds no transaction open."""
    yield _written([("customer_id", *columns)])
    whole = needs_customer(columns)
    after: str | None = None
    while True:
        async with database.acquire() as connection:
            catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
        page = await list_page(
            database, project_id, wanted, now, sort=Sort.KEY, after=after, limit=AT_ONCE, whole=whole
        )
        rows = [
            (
                safe(entry.app_user_id or ""),
                *(cell(COLUMNS[name].kind, COLUMNS[name].value(entry, catalog)) for name in columns),
            )
            for entry in page.entries
        ]
        if rows:
            yield _written(rows)
        after = page.next
        if after is None:
            return
        await asyncio.sleep(0)


def cell(kind: Kind, value: Any) -> str:
    if value is None:
        return ""
    match kind:
        case Kind.INSTANT:
            return instant(value)
        case Kind.USD:
            return money(value)
        case Kind.LIST:
            return safe(" ".join(value))
        case Kind.TEXT:
            return safe(value)


def safe(text: str) -> str:
    """Text from outside as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _written(rows: Sequence[Sequence[str]]) -> bytes:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
