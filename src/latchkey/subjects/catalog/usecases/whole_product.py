"""A product with what it grants and its prices, saved in one transaction."""

from collections.abc import Sequence
from typing import Any

from latchkey.database.pool import Database, OneTransaction
from latchkey.domain.catalog import ListedPrice, Product
from latchkey.domain.instants import Ms
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog
from latchkey.subjects.catalog.usecases.product_catalog import ProductTerms
from latchkey.subjects.catalog.usecases.version import changing_catalog


async def save_whole(
    database: Database,
    project_id: str,
    product_id: str,
    terms: ProductTerms | dict[str, Any],
    now: Ms,
    *,
    attached: Sequence[str] = (),
    detached: Sequence[str] = (),
    prices: Sequence[ListedPrice] = (),
    unlisted: Sequence[str] = (),
) -> Product:
    """Whole terms create the product, some change it. What it grants and its prices change by these differences, so
    what somebody else changed meanwhile stays."""
    async with changing_catalog(database, project_id) as connection:
        within = OneTransaction(database, connection)
        if isinstance(terms, ProductTerms):
            await product_catalog.create_product(within, project_id, product_id, terms, now)
        else:
            await product_catalog.update_product(within, project_id, product_id, **terms)
        for entitlement_id in attached:
            await entitlement_catalog.attach_products(within, project_id, entitlement_id, [product_id])
        for entitlement_id in detached:
            await entitlement_catalog.detach_products(within, project_id, entitlement_id, [product_id], now)
        for price_id in unlisted:
            await product_catalog.delete_price(within, project_id, product_id, price_id)
        if prices:
            await product_catalog.set_prices(within, project_id, product_id, prices)
        return await product_catalog.load_product(connection, project_id, product_id)
