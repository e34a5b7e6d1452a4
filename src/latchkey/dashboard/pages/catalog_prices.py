"""The prices of a product by store, country and currency."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages.catalog_products import price_of
from latchkey.usecases.catalog import prices, products

pages = Pages()

_FIELDS = ("price", "currency", "country", "store")


@pages.get("/catalog/products/{product_id}/prices")
async def show(visit: Visit) -> Response:
    product_id = visit.param("product_id")
    product = await products.load_product(visit.database, visit.project_id, product_id)
    listed = await prices.list_prices(visit.database, visit.project_id, product_id)
    values = {name: visit.form.text(name) for name in _FIELDS}
    return visit.page("catalog_prices.html", here="catalog", product=product, prices=listed, values=values)


@pages.post("/catalog/products/{product_id}/prices", Needs.MANAGE, "product.price_set", show)
async def set_price(visit: Visit) -> Response:
    product_id, form = visit.param("product_id"), visit.form
    one = await prices.set_price(
        visit.database,
        visit.project_id,
        product_id,
        price_of(form.needed("price")),
        form.needed("currency").upper(),
        form.text("store") or None,
        form.text("country").upper() or None,
        visit.now,
    )
    visit.audit(price=one.id)
    return await visit.to(
        visit.path("catalog", "products", product_id, "prices"), "Saved. What was bought keeps its price."
    )


@pages.post("/catalog/products/{product_id}/prices/{price_id}/delete", Needs.MANAGE, "product.price_deleted", show)
async def delete(visit: Visit) -> Response:
    product_id, price_id = visit.param("product_id"), visit.param("price_id")
    await prices.delete_price(visit.database, visit.project_id, product_id, price_id)
    return await visit.to(
        visit.path("catalog", "products", product_id, "prices"), f"The price {price_id} is listed no more."
    )
