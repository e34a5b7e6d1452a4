"""The prices of a product for a store, a country, a currency."""

from __future__ import annotations

from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Amount, Body, CountryCode, CurrencyCode, StoreName
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.domain.prices import ListedPrice
from latchkey.usecases.catalog import prices
from latchkey.usecases.rendering.management import project_path
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/products/{product_id}/prices", tags=["V2 products"])


class NewPrice(Body):
    price: Amount
    currency: CurrencyCode
    store: StoreName | None = Field(default=None, description="Null: in any store.")
    country: CountryCode | None = Field(default=None, description="Null: in any country.")


@router.get("", responses=shows(Page[wire.ListedPrice]), response_class=Response)
async def list_prices(services: Provided, caller: ReadKey, product_id: str) -> Response:
    """The prices of the product beside its own, by store, country and currency. Not paged: there are at most 1,000."""
    found = await prices.list_prices(services.database, caller.project_id, product_id)
    path = project_path(caller.project_id, "products", product_id, "prices")
    return reply(Page(items=[_shown(product_id, one) for one in found], next_page=None, url=path))


@router.put("", responses=shows(wire.ListedPrice), response_class=Response)
@audited("product.price_set")
async def set_price(services: Provided, caller: WriteKey, product_id: str, new: NewPrice) -> Response:
    """List a price. One of the same store, country and currency is replaced. What was bought keeps its price."""
    one = await prices.set_price(
        services.database,
        caller.project_id,
        product_id,
        new.price,
        new.currency,
        new.store,
        new.country,
        services.now(),
    )
    return reply(_shown(product_id, one))


@router.delete("/{price_id}", responses=shows(Deleted), response_class=Response)
@audited("product.price_deleted")
async def delete_price(services: Provided, caller: WriteKey, product_id: str, price_id: str) -> Response:
    """Take a listed price away. Its id is `store.country.currency`, with `-` for any."""
    await prices.delete_price(services.database, caller.project_id, product_id, price_id)
    return reply(Deleted(object="product.price", id=price_id, deleted_at=services.now()))


def _shown(product_id: str, one: ListedPrice) -> wire.ListedPrice:
    return wire.ListedPrice(
        id=one.id,
        product_id=product_id,
        store=one.store,
        country=one.country,
        currency=one.price.currency,
        price=one.price.amount,
    )
