"""Products as an operator sees them. `storage/catalog/catalogs.py` loads them for purchases and reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.domain.catalog import Credit, ProductKind, ProductType
from latchkey.domain.instants import Ms
from latchkey.domain.money import Price
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_LOAD = query("load_product")
_PAGE = query("list_products")
_SAVE = query("save_product")
_REMOVE_APPS = query("remove_product_apps")
_ADD_APPS = query("insert_product_apps")
_DELETE = query("delete_product")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTerms:
    """The checked fields of a product that an operator sets."""

    display_name: str
    kind: ProductKind
    price: Price
    duration: str | None
    trial_duration: str | None
    credits: Credit | None
    # None: only the kind is known.
    type: ProductType


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(ProductTerms):
    id: str
    # The apps in which it is sold; empty means in every app. An app may have been deleted since.
    app_ids: tuple[str, ...]
    # The first of these that exists, else the project's oldest app. None: the project has no app.
    app_id: str | None
    entitlement_ids: tuple[str, ...]
    created_at: Ms
    # A deleted product is off sale; its owners keep it.
    deleted_at: Ms | None


async def load(connection: Connection, project_id: str, product_id: str) -> Product | None:
    """Including deleted ones."""
    row = await connection.fetchrow(_LOAD, project_id, product_id)
    return None if row is None else product_of(row)


async def page(
    connection: Connection, project_id: str, after: str | None, limit: int, app_id: str | None = None
) -> list[Product]:
    """Products on sale, in one app if it is given, by id; `after` is the last id of the page before."""
    return [product_of(row) for row in await connection.fetch(_PAGE, project_id, after, limit, app_id)]


async def save(connection: Connection, project_id: str, product_id: str, terms: ProductTerms, created_at: Ms) -> None:
    """Creates a product, or changes an existing one. A deleted product is on sale again."""
    await connection.execute(
        _SAVE,
        project_id,
        product_id,
        terms.display_name,
        terms.kind,
        terms.duration,
        terms.trial_duration,
        terms.price.micros,
        terms.price.currency,
        terms.credits.code if terms.credits is not None else None,
        terms.credits.amount if terms.credits is not None else None,
        created_at,
        terms.type,
    )


async def set_apps(connection: Connection, project_id: str, product_id: str, app_ids: Sequence[str], now: Ms) -> None:
    """The apps in which it is sold; none means in every app."""
    async with connection.transaction():
        await connection.execute(_REMOVE_APPS, project_id, product_id, list(app_ids))
        await connection.execute(_ADD_APPS, project_id, product_id, list(app_ids), now)


async def delete(connection: Connection, project_id: str, product_id: str, now: Ms) -> bool:
    """Takes a product off sale. False: no such product is on sale."""
    return await connection.execute(_DELETE, project_id, product_id, now) != "UPDATE 0"


def product_of(row: Record) -> Product:
    return Product(
        id=row["id"],
        display_name=row["display_name"],
        kind=ProductKind(row["kind"]),
        price=Price(row["price_micros"], row["currency"]),
        duration=row["duration"],
        trial_duration=row["trial_duration"],
        credits=Credit(row["credits_code"], row["credits_amount"]) if row["credits_code"] is not None else None,
        type=ProductType(row["type"]),
        app_ids=tuple(row["app_ids"]),
        app_id=row["app_id"],
        entitlement_ids=tuple(row["entitlement_ids"]),
        created_at=row["created_at"],
        deleted_at=row["deleted_at"],
    )
