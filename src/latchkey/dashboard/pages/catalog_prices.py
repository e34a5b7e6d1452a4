"""The prices of a product by store, country and currency."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit, status_of
from latchkey.dashboard.pages.catalog_products import price_of
from latchkey.domain.refusal import Refusal
from latchkey.usecases.catalog import prices, products

pages = Pages()

_FIELDS = ("price", "currency", "country", "store")


@pages.get("/catalog/products/{product_id}/prices")
async def show(visit: Visit) -> Response:
    return await _page(visit, dict.fromkeys(_FIELDS, ""))


@pages.post("/catalog/products/{product_id}/prices", Needs.MANAGE, "product.price_set")
async def set_price(visit: Visit) -> Response:
    product_id, form = visit.param("product_id"), visit.form
    sent = {name: form.text(name) for name in _FIELDS}
    try:
        one = await prices.set_price(
            visit.database,
            visit.project_id,
            product_id,
            price_of(form.needed("price")),
            form.needed("currency").upper(),
            sent["store"] or None,
            sent["country"].upper() or None,
            visit.now,
        )
    except Refusal as refusal:
        return await _page(visit, sent, refusal)
    visit.audit(price=one.id)
    return await visit.to(
        visit.path("catalog", "products", product_id, "prices"), "Saved. What was bought keeps its price."
    )


@pages.post("/catalog/products/{product_id}/prices/{price_id}/delete", Needs.MANAGE, "product.price_deleted")
async def delete(visit: Visit) -> Response:
    product_id, price_id = visit.param("product_id"), visit.param("price_id")
    await prices.delete_price(visit.database, visit.project_id, product_id, price_id)
    return await visit.to(
        visit.path("catalog", "products", product_id, "prices"), f"The price {price_id} is listed no more."
    )


async def _page(visit: Visit, values: Mapping[str, str], refusal: Refusal | None = None) -> Response:
    product_id = visit.param("product_id")
    product = await products.load_product(visit.database, visit.project_id, product_id)
    listed = await prices.list_prices(visit.database, visit.project_id, product_id)
    status, error = status_of(refusal) if refusal else (200, "")
    if refusal:
        visit.audit(refusal=error)
    return visit.page(
        "catalog_prices.html", status, here="catalog", product=product, prices=listed, values=values, error=error
    )
