"""Virtual currencies: the currencies in which a project's customers can have a balance."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name, checked_text
from latchkey.domain.refusal import Conflict, InUse, NotFound
from latchkey.storage.catalog import currencies
from latchkey.storage.catalog.currencies import Currency as Currency
from latchkey.storage.database import Database
from latchkey.usecases.catalog.product_grants import ProductGrant, set_grants
from latchkey.usecases.catalog.version import changing_catalog


async def create_currency(
    database: Database,
    project_id: str,
    code: str,
    name: str,
    description: str,
    now: Ms,
    grants: Sequence[ProductGrant] = (),
) -> Currency:
    """A new currency, which the products in `grants` credit from now on."""
    checked_id(code, "code")
    name, description = checked_name(name), checked_text(description, "description")
    async with changing_catalog(database, project_id) as connection:
        created = await currencies.create(connection, project_id, code, name, description, now)
        if created is None:
            raise Conflict(f"There is already a virtual currency {code!r} in this project.", param="code")
        if grants:
            await set_grants(connection, project_id, code, grants)
    return created


async def load_currency(database: Database, project_id: str, code: str) -> Currency:
    async with database.acquire() as connection:
        return _found(await currencies.load(connection, project_id, code), code)


async def list_currencies(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Currency]:
    async with database.acquire() as connection:
        return await currencies.page(connection, project_id, after, limit)


async def update_currency(
    database: Database,
    project_id: str,
    code: str,
    *,
    name: str | None = None,
    description: str | None = None,
    grants: Sequence[ProductGrant] | None = None,
) -> Currency:
    """Fields that are not given stay as they are. `grants` replaces all grants of the currency."""
    if name is not None:
        name = checked_name(name)
    if description is not None:
        description = checked_text(description, "description")
    changing = database.transaction() if grants is None else changing_catalog(database, project_id)
    async with changing as connection:
        changed = _found(await currencies.update(connection, project_id, code, name, description), code)
        if grants is not None:
            await set_grants(connection, project_id, code, grants)
    return changed


async def delete_currency(database: Database, project_id: str, code: str) -> None:
    """Refused if a product on sale credits it or a customer ever had any: balances must not disappear."""
    async with changing_catalog(database, project_id) as connection:
        _found(await currencies.load(connection, project_id, code), code)
        products = await currencies.products_crediting(connection, project_id, code)
        if products:
            names = ", ".join(map(repr, products))
            raise InUse(f"{code!r} comes with {names}. Take it out of the products first.", param="code")
        if await currencies.was_moved(connection, project_id, code):
            raise InUse(f"Customers have had {code!r}, so it cannot be deleted.", param="code")
        await currencies.delete(connection, project_id, code)


def _found(currency: Currency | None, code: str) -> Currency:
    if currency is None:
        raise NotFound(f"There is no virtual currency {code!r} in this project.", param="code")
    return currency
