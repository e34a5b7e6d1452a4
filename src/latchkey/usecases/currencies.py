"""Virtual currencies: what a project's customers can hold balances of."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name, checked_text
from latchkey.domain.refusal import Conflict, InUse, NotFound
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.catalog import changing_catalog

CREATE_CURRENCY = query("create_currency")
LOAD_CURRENCY = query("load_currency")
LIST_CURRENCIES = query("list_currencies")
UPDATE_CURRENCY = query("update_currency")
DELETE_CURRENCY = query("delete_currency")
PRODUCTS_CREDITING = query("products_crediting")
CURRENCY_WAS_MOVED = query("currency_was_moved")
FORGET_CREDITS = query("forget_credits")


@dataclass(frozen=True, slots=True)
class Currency:
    code: str
    name: str
    description: str
    created_at: Ms


async def create_currency(
    database: Database, project_id: str, code: str, name: str, description: str, now: Ms
) -> Currency:
    checked_id(code, "code")
    name, description = checked_name(name), checked_text(description, "description")
    async with changing_catalog(database, project_id) as connection:
        row = await connection.fetchrow(CREATE_CURRENCY, project_id, code, name, description, now)
        if row is None:
            raise Conflict(f"There is already a virtual currency {code!r} in this project.", param="code")
    return Currency(*row)


async def load_currency(database: Database, project_id: str, code: str) -> Currency:
    async with database.acquire() as connection:
        return _found(await connection.fetchrow(LOAD_CURRENCY, project_id, code), code)


async def list_currencies(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Currency]:
    async with database.acquire() as connection:
        return [Currency(*row) for row in await connection.fetch(LIST_CURRENCIES, project_id, after, limit)]


async def update_currency(
    database: Database, project_id: str, code: str, *, name: str | None = None, description: str | None = None
) -> Currency:
    """Where something is not given, it stays."""
    if name is not None:
        name = checked_name(name)
    if description is not None:
        description = checked_text(description, "description")
    async with database.transaction() as connection:
        return _found(await connection.fetchrow(UPDATE_CURRENCY, project_id, code, name, description), code)


async def delete_currency(database: Database, project_id: str, code: str) -> None:
    """Only one that no product comes with and nobody ever had: balances never vanish."""
    async with changing_catalog(database, project_id) as connection:
        _found(await connection.fetchrow(LOAD_CURRENCY, project_id, code), code)
        rows = await connection.fetch(PRODUCTS_CREDITING, project_id, code)
        if rows:
            names = ", ".join(repr(row["id"]) for row in rows)
            raise InUse(f"{code!r} comes with {names}. Take it out of the products first.", param="code")
        if await connection.fetchval(CURRENCY_WAS_MOVED, project_id, code):
            raise InUse(f"Customers have had {code!r}, so it has to stay.", param="code")
        await connection.execute(FORGET_CREDITS, project_id, code)
        await connection.execute(DELETE_CURRENCY, project_id, code)


def _found(row: Record | None, code: str) -> Currency:
    if row is None:
        raise NotFound(f"There is no virtual currency {code!r} in this project.", param="code")
    return Currency(*row)
