"""Prices of a product for a store, a country, a currency; and the price that one buyer sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.instants import Ms
from latchkey.domain.money import NO_CURRENCY, Price, to_micros
from latchkey.domain.naming import checked_country, checked_currency, checked_store
from latchkey.domain.prices import ListedPrice, price_for
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.storage.catalog import prices, products
from latchkey.storage.database import Connection, Database
from latchkey.usecases.catalog.version import changing_catalog

# Every country in its currency, in several stores.
MOST = 1000


async def list_prices(database: Database, project_id: str, product_id: str) -> tuple[ListedPrice, ...]:
    """By store, country and currency."""
    async with database.acquire() as connection:
        await _on_sale(connection, project_id, product_id)
        return (await prices.load(connection, project_id, [product_id])).get(product_id, ())


async def set_price(
    database: Database,
    project_id: str,
    product_id: str,
    amount: float,
    currency: str,
    store: str | None,
    country: str | None,
    now: Ms,
) -> ListedPrice:
    """Lists a price, or changes one of the same store, country and currency."""
    one = ListedPrice(_price(amount, currency), store and checked_store(store), country and checked_country(country))
    async with changing_catalog(database, project_id) as connection:
        await _on_sale(connection, project_id, product_id)
        await prices.save(connection, project_id, product_id, one, now)
        if len((await prices.load(connection, project_id, [product_id]))[product_id]) > MOST:
            raise Refusal(f"A product has at most {MOST:,} prices. Delete some first.")
    return one


async def delete_price(database: Database, project_id: str, product_id: str, price_id: str) -> None:
    async with changing_catalog(database, project_id) as connection:
        await _on_sale(connection, project_id, product_id)
        parts = [part if part != "-" else "" for part in price_id.split(".")]
        if len(parts) != 3 or not await prices.delete(connection, project_id, product_id, *parts):
            raise NotFound(f"The product {product_id!r} has no price {price_id[:100]!r}.", param="price_id")


async def shown_prices(
    database: Database,
    project_id: str,
    catalog: Catalog,
    shown: Sequence[Product],
    app_user_id: str,
    *,
    store: str | None,
    country: str | None,
    currency: str | None,
) -> list[Product]:
    """The products at the prices that this buyer sees. `country` is where the request comes from; where that is not
    known, the place counts where the customer was seen last."""
    if not catalog.lists_prices or not shown:
        return list(shown)
    async with database.acquire() as connection:
        listed = await prices.load(connection, project_id, [one.id for one in shown])
        if listed and country is None:
            country = await prices.country_of(connection, project_id, app_user_id)

    def at_its_price(one: Product) -> Product:
        price = price_for(one.price, listed.get(one.id, ()), store=store, country=country, currency=currency)
        return replace(one, price=price)

    return [at_its_price(one) for one in shown]


def _price(amount: float, currency: str) -> Price:
    checked_currency(currency)
    if currency == NO_CURRENCY:
        raise Invalid(f"{NO_CURRENCY} is no currency.", param="currency")
    try:
        return Price(to_micros(amount), currency)
    except ValueError as error:
        raise Invalid(str(error), param="price") from None


async def _on_sale(connection: Connection, project_id: str, product_id: str) -> None:
    product = await products.load(connection, project_id, product_id)
    if product is None or product.deleted_at is not None:
        raise NotFound(f"There is no product {product_id!r} in this project.", param="product_id")
