"""The products of web pages and of the test store, with their prices. Other apps ask their own store."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from latchkey.api.authentication import AppReadKey
from latchkey.api.models import PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.api.visit import country_of
from latchkey.usecases.catalog.loading import load_catalog
from latchkey.usecases.catalog.prices import shown_prices
from latchkey.usecases.rendering.store_products import product_details
from latchkey.wire.store_products import ProductDetailsList

router = Router(prefix="/rcbilling/v1", tags=["Apps: products and checkout"])

MOST = 500


@router.get("/subscribers/{app_user_id}/products", responses=shows(ProductDetailsList), response_class=Response)
async def read_store_products(
    request: Request,
    services: Provided,
    caller: AppReadKey,
    app_user_id: PathUserId,
    id: Annotated[list[str] | None, Query(description="A product's id; repeat it for several.")] = None,
    currency: Annotated[str | None, Query(description="Prices in this currency, where there are any.")] = None,
) -> Response:
    """The products on sale in this app among these ids, with the catalog's prices for the buyer's country and this
    currency. Other ids are left out. The SDK's parameter `discount_code` changes nothing. Where a payment provider
    sells on web pages, a product has one price, which is the provider's, and a user who has had a subscription there
    sees no free trial."""
    catalog = await load_catalog(services.changes, caller.project_id)
    asked = list(dict.fromkeys(id or ()))[:MOST]
    found = [
        (one, product)
        for one in asked
        if (product := catalog.offered(one)) is not None
        # A secret key belongs to no app.
        and (not product.apps or caller.app_id is None or caller.app_id in product.apps)
    ]
    shown = await services.checkouts.without_used_trials(
        caller.project_id, caller.store, app_user_id, [product for _, product in found]
    )
    if not services.checkouts.sells(caller.store):
        shown = await shown_prices(
            services.database,
            caller.project_id,
            catalog,
            shown,
            app_user_id,
            store=caller.store,
            country=country_of(dict(request.scope["headers"])),
            currency=(currency or "").upper() or None,
        )
    details = [product_details(catalog, product, one) for (one, _), product in zip(found, shown, strict=True)]
    return reply(ProductDetailsList(product_details=details))
