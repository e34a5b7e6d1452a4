"""Virtual currencies of a project. Balances are part of the customer; see `engine/storage/records.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Currency:
    code: str
    name: str
    description: str
    created_at: Ms


_CREATE = query("create_currency")
_PAGE = query("list_currencies")
_UPDATE = query("update_currency")
_DELETE = query("delete_currency")
_WAS_MOVED = query("currency_was_moved")
_FORGET_CREDITS = query("forget_credits")
_CREDITED = query("credited_products")
_SET_CREDIT = query("set_product_credit")


@dataclass(frozen=True, slots=True)
class CreditedProduct:
    code: str
    product_id: str
    amount: int


async def create(
    connection: Connection, project_id: str, code: str, name: str, description: str, now: Ms
) -> Currency | None:
    """None: the code is taken."""
    return _found(await connection.fetchrow(_CREATE, project_id, code, name, description, now))


async def load(connection: Connection, project_id: str, code: str) -> Currency | None:
    return _found(await connection.fetchrow(_PAGE, project_id, None, 1, code))


async def page(
    connection: Connection, project_id: str, after: str | None = None, limit: int | None = None
) -> list[Currency]:
    """By code; `after` is the last code of the page before."""
    return [_currency(row) for row in await connection.fetch(_PAGE, project_id, after, limit, None)]


async def update(
    connection: Connection, project_id: str, code: str, name: str | None, description: str | None
) -> Currency | None:
    """None as a new value keeps the old one. Returns None if there is no such currency."""
    return _found(await connection.fetchrow(_UPDATE, project_id, code, name, description))


async def credited_products(connection: Connection, project_id: str, codes: Sequence[str]) -> list[CreditedProduct]:
    """The products on sale that credit one of these currencies, by id."""
    rows = await connection.fetch(_CREDITED, project_id, list(codes))
    return [CreditedProduct(row["credits_code"], row["id"], row["credits_amount"]) for row in rows]


async def set_credit(
    connection: Connection, project_id: str, product_id: str, code: str | None, amount: int | None
) -> None:
    """What a purchase of this product credits; None is nothing."""
    await connection.execute(_SET_CREDIT, project_id, product_id, code, amount)


async def was_moved(connection: Connection, project_id: str, code: str) -> bool:
    """Whether any customer was ever credited or debited."""
    moved: bool = await connection.fetchval(_WAS_MOVED, project_id, code)
    return moved


async def delete(connection: Connection, project_id: str, code: str) -> None:
    """Also removes the currency from deleted products."""
    await connection.execute(_FORGET_CREDITS, project_id, code)
    await connection.execute(_DELETE, project_id, code)


def _found(row: Record | None) -> Currency | None:
    return None if row is None else _currency(row)


def _currency(row: Record) -> Currency:
    return Currency(code=row["code"], name=row["name"], description=row["description"], created_at=row["created_at"])
