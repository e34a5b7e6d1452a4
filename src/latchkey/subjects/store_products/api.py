"""The products of an app in its store: listed beside the catalog, and taken over."""

from typing import Annotated

from pydantic import Field

from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.models import AnyId, Body
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.store_products import render, usecases, wire
from latchkey.wire.paging import project_path
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/apps/{app_id}/store_products", tags=["V2 apps"])


class ChosenProducts(Body):
    product_ids: Annotated[list[AnyId], Field(min_length=1, max_length=usecases.MOST_AT_ONCE)]


@router.get("", responses=shows(Page[wire.StoreProduct]))
async def list_store_products(call: ReadKey, app_id: str) -> Response:
    """What the app's store has for sale, and what the catalog has, with the differences. Asks the store each time. Not
    paged: there are at most 2,000."""
    found = await usecases.list_products(call.services.stores, call.project_id, app_id)
    path = project_path(call.project_id, "apps", app_id, "store_products")
    return reply(Page(items=[render.store_product(app_id, one) for one in found], next_page=None, url=path))


@router.acts("/actions/take_over", wire.StoreTakeover, "store_products.taken_over")
async def take_over_store_products(call: WriteKey, app_id: str, chosen: ChosenProducts) -> Response:
    """Make the catalog like the store in these products: all of them, or none. Nobody gains or loses access. What is
    the same already is not changed."""
    stores, ids = call.services.stores, chosen.product_ids
    made = await usecases.take_over(stores, call.project_id, app_id, ids, call.now())
    return reply(render.takeover(app_id, made))
