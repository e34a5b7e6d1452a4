"""Virtual currencies of a project. Balances are part of the customer; see `engine/storage/records.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import Listing, fetch_all, fetch_one, item_of
from latchkey.database.sql import query
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Currency:
    code: str
    name: str
    description: str
    created_at: Ms


@dataclass(frozen=True, slots=True)
class CreditedProduct:
    code: str
    product_id: str
    amount: int


CURRENCIES = Listing("virtual currency", query("list_currencies"), partial(item_of, Currency), param="code")


async def create(connection: Connection, project_id: str, currency: Currency) -> bool:
    """False: the code is taken."""
    values = currency.code, currency.name, currency.description, currency.created_at
    return await connection.execute(query("create_currency"), project_id, *values) != "INSERT 0 0"


async def update(
    connection: Connection, project_id: str, code: str, name: str | None, description: str | None
) -> Currency | None:
    """None as a new value keeps the old one. Returns None if there is no such currency."""
    return await fetch_one(connection, Currency, query("update_currency"), project_id, code, name, description)


async def credited_products(connection: Executor, project_id: str, codes: Sequence[str]) -> list[CreditedProduct]:
    """The products on sale that credit one of these currencies, by id."""
    return await fetch_all(connection, CreditedProduct, query("credited_products"), project_id, list(codes))


async def set_credit(
    connection: Connection, project_id: str, product_id: str, code: str | None, amount: int | None
) -> None:
    """What a purchase of this product credits; None is nothing."""
    await connection.execute(query("set_product_credit"), project_id, product_id, code, amount)


async def was_moved(connection: Connection, project_id: str, code: str) -> bool:
    """Whether any customer was ever credited or debited."""
    moved: bool = await connection.fetchval(query("currency_was_moved"), project_id, code)
    return moved


async def delete(connection: Connection, project_id: str, code: str) -> None:
    """Also removes the currency from deleted products."""
    await connection.execute(query("delete_currency"), project_id, code)
