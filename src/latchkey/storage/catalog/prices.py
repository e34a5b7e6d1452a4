"""The listed prices of products. They are not part of the catalog that every read needs: there can be hundreds each."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.instants import Ms
from latchkey.domain.money import Price
from latchkey.domain.prices import ListedPrice
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_LOAD = query("load_product_prices")
_SAVE = query("save_product_price")
_DELETE = query("delete_product_price")
_CUSTOMER = query("customer_state")


async def load(
    connection: Connection, project_id: str, product_ids: Sequence[str]
) -> dict[str, tuple[ListedPrice, ...]]:
    """By product, those without listed prices left out."""
    found: dict[str, tuple[ListedPrice, ...]] = {}
    for row in await connection.fetch(_LOAD, project_id, list(product_ids)):
        price = Price(row["price_micros"], row["currency"])
        one = ListedPrice(price, row["store"] or None, row["country"] or None)
        found[row["product_id"]] = (*found.get(row["product_id"], ()), one)
    return found


async def save(connection: Connection, project_id: str, product_id: str, one: ListedPrice, now: Ms) -> None:
    """A new one, or another amount for one that is listed."""
    await connection.execute(
        _SAVE,
        project_id,
        product_id,
        one.store or "",
        one.country or "",
        one.price.currency,
        one.price.micros,
        now,
    )


async def delete(
    connection: Connection, project_id: str, product_id: str, store: str, country: str, currency: str
) -> bool:
    """False: it is not listed. An empty store or country is any."""
    return await connection.execute(_DELETE, project_id, product_id, store, country, currency) != "DELETE 0"


async def delete_all(connection: Connection, project_id: str, product_id: str) -> None:
    await connection.execute(_DELETE, project_id, product_id, None, None, None)


async def country_of(connection: Connection, project_id: str, app_user_id: str) -> str | None:
    """Where the customer was seen last."""
    row = await connection.fetchrow(_CUSTOMER, project_id, app_user_id)
    return None if row is None else row["last_seen_country"]
