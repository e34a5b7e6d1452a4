"""Products as an operator sees them. `storage/catalog/catalogs.py` loads them for purchases and reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latchkey.domain.catalog import Credit, ProductKind, ProductType
from latchkey.domain.instants import Ms
from latchkey.domain.money import Price
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_LOAD = query("load_products")
_PAGE = query("list_products")
_SAVE = query("save_product")
_SET_APPS = query("set_product_apps")
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

    @property
    def on_sale(self) -> bool:
        return self.deleted_at is None


async def load(connection: Connection, project_id: str, product_id: str) -> Product | None:
    """Including deleted ones."""
    return (await load_some(connection, project_id, [product_id])).get(product_id)


async def load_some(connection: Connection, project_id: str, ids: Iterable[str]) -> dict[str, Product]:
    """Those that exist, by id, including deleted ones."""
    rows = await connection.fetch(_LOAD, project_id, list(ids))
    return {row["id"]: product_of(row) for row in rows}


async def page(
    connection: Connection,
    project_id: str,
    after: str | None = None,
    limit: int | None = None,
    *,
    app_id: str | None = None,
    entitlement_id: str | None = None,
    with_deleted: bool = False,
) -> list[Product]:
    """By id: products on sale, in one app if it is given, or those that grant an entitlement. `after` is the last id of
    the page before."""
    rows = await connection.fetch(_PAGE, project_id, after, limit, with_deleted, app_id, entitlement_id)
    return [product_of(row) for row in rows]


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


async def set_apps(connection: Connection, project_id: str, product_id: str, app_ids: Sequence[str]) -> None:
    """The apps in which it is sold; none means in every app."""
    await connection.execute(_SET_APPS, project_id, product_id, list(app_ids))


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
