"""The products of a project, with their prices for a store, a country, a currency."""

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from msgspec import UNSET
from pydantic import ConfigDict, Field

from latchkey.domain.catalog import Credit, Product, ProductKind, ProductType
from latchkey.engine.storage.catalog.product_rows import Entitlement
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.errors import InvalidParameter
from latchkey.http.models import (
    NO_ITEMS,
    Amount,
    AnyId,
    Body,
    CountryCode,
    CurrencyCode,
    Id,
    IsoDuration,
    Name,
    Paging,
    Quantity,
    StoreName,
    not_null,
    one_of,
)
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.shared_bodies import rendered_apps
from latchkey.subjects.catalog import render, wire
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog
from latchkey.subjects.customers.wire import Deleted
from latchkey.wire.paging import LARGEST_LIMIT, page, project_path
from latchkey.wire.v2 import Page

products_router = Router(prefix="/v2/projects/{project_id}/products", tags=["V2 products"])

Type = Literal["subscription", "one_time", "consumable", "non_consumable", "non_renewing_subscription"]
AppIds = Annotated[list[AnyId], Field(max_length=100, description="Where it is sold; empty means in every app.")]
ExpandProduct = Annotated[list[Literal["app"]], Query(description="What to show inside the product.")]
ExpandProducts = Annotated[list[Literal["items.app"]], Query(description="What to show inside each product.")]


class NewCredits(Body):
    code: Id
    amount: Quantity


class NewSubscription(Body):
    duration: IsoDuration | None = None


# Either as Latchkey sees a product, or as one store's app sees it.
_OWN_FIELDS = ("id", "kind", "price", "currency", "duration", "trial_duration", "credits", "app_ids")
_APP_FIELDS = ("app_id", "title", "subscription")
_OWN_FORM: dict[str, Any] = {
    "required": ["id", "price", "currency"],
    "anyOf": [{"required": ["kind"]}, {"required": ["type"]}],
    "properties": dict.fromkeys(("store_identifier", *_APP_FIELDS), False),
}
_APP_FORM: dict[str, Any] = {
    "required": ["store_identifier", "app_id", "type"],
    "properties": dict.fromkeys(_OWN_FIELDS, False),
}


class NewProduct(Body):
    """Either `id`, `kind` or `type`, `price` and `currency`; or `store_identifier`, `app_id` and `type`. The second
    form has no price: the product costs nothing until a price is set."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [_OWN_FORM, _APP_FORM]})

    id: Id = not_null()
    kind: Literal["subscription", "one_time"] = not_null()
    price: Amount = not_null()
    currency: CurrencyCode = not_null()
    duration: IsoDuration | None = None
    trial_duration: IsoDuration | None = None
    credits: NewCredits | None = None
    app_ids: AppIds = not_null()
    store_identifier: Id = not_null()
    app_id: AnyId = not_null()
    type: Type = not_null()
    display_name: Name | None = None
    title: Name | None = None
    subscription: NewSubscription | None = None


class ProductChanges(Body):
    display_name: Name | None = None
    type: Type = not_null()
    app_ids: AppIds = not_null()
    duration: IsoDuration | None = None
    trial_duration: IsoDuration | None = None
    price: Amount = not_null()
    currency: CurrencyCode = not_null()
    credits: NewCredits | None = None


@products_router.creates("", wire.Product, "product.created")
async def create_product(call: WriteKey, new: NewProduct) -> Response:
    """Put a product on sale. With `store_identifier`, one app sells it; another app can sell the same one."""
    given, now = new.model_fields_set, call.now()
    if "store_identifier" in given:
        _require(given, _APP_FORM["required"], unknown=_OWN_FIELDS)
        sold, name = (new.store_identifier, new.app_id, ProductType(new.type)), new.display_name or new.title
        lasts = new.subscription.duration if new.subscription is not None else None
        made = await call.run(product_catalog.create_in_app, *sold, name, lasts, now)
        return reply(render.product(call.project_id, made, new.app_id), 201)
    _require(given, ("id", *(() if "type" in given else ("kind",)), "price", "currency"), unknown=_APP_FIELDS)
    terms = _given(new)
    terms["kind"] = ProductKind(new.kind) if "kind" in given else ProductType(new.type).kind
    made = await call.run(product_catalog.create_product, new.id, product_catalog.ProductTerms(**terms), now)
    return reply(render.product(call.project_id, made), 201)


@products_router.get("", responses=shows(Page[wire.Product]))
async def list_products(
    call: ReadKey,
    paging: Paging,
    app_id: Annotated[AnyId | None, Query(description="Only products that are sold in this app.")] = None,
    expand: ExpandProducts = NO_ITEMS,
) -> Response:
    """The products on sale, by id."""
    found = await call.run(product_catalog.list_products, *paging.window, app_id=app_id)
    items = await _rendered_products(call, found, app_id, apps=bool(expand))
    return reply(paging.of(items, filters={"app_id": app_id} if app_id is not None else None))


@products_router.get("/{product_id}", responses=shows(wire.Product))
async def read_product(call: ReadKey, product_id: str, expand: ExpandProduct = NO_ITEMS) -> Response:
    """One product on sale."""
    found = await call.run(product_catalog.load_product, product_id)
    return reply((await _rendered_products(call, [found], None, apps=bool(expand)))[0])


@products_router.updates("/{product_id}", wire.Product, "product.updated")
async def update_product(call: WriteKey, product_id: str, changes: ProductChanges) -> Response:
    """Change the given fields of a product. An active subscription keeps the price it was bought at."""
    changed = await call.run(product_catalog.update_product, product_id, **_given(changes))
    return reply(render.product(call.project_id, changed))


@products_router.deletes("/{product_id}", Deleted, "product.deleted")
async def delete_product(call: WriteKey, product_id: str) -> Response:
    """Take a product off sale. Its owners keep what it grants, and their subscriptions continue."""
    now = call.now()
    await call.run(product_catalog.delete_product, product_id, now)
    return reply(Deleted(object="product", id=product_id, deleted_at=now))


def _require(given: Collection[str], needed: Iterable[str], *, unknown: Iterable[str]) -> None:
    """The two forms of a new product do not mix."""
    for name in needed:
        if name not in given:
            raise InvalidParameter(f"{name}: This field is required.", param=name)
    for name in unknown:
        if name in given:
            raise InvalidParameter(f"{name}: There is no such field in this form of a product.", param=name)


def _given(body: NewProduct | ProductChanges) -> dict[str, Any]:
    """The terms that were sent, including nulls."""
    given = {name: getattr(body, name) for name in body.model_fields_set if name != "id"}
    if body.credits is not None:
        given["credits"] = Credit(body.credits.code, body.credits.amount)
    if "type" in given:
        given["type"] = ProductType(given["type"])
    if "app_ids" in given:
        given["app_ids"] = tuple(dict.fromkeys(given["app_ids"]))
    return given


async def _rendered_products(
    call: Call, found: Sequence[Product], app_id: str | None, *, apps: bool
) -> list[wire.Product]:
    if not apps:
        return [render.product(call.project_id, one, app_id) for one in found]
    known = await rendered_apps(call)
    return [render.product(call.project_id, one, app_id, known.get(app_id or one.app_id or "", UNSET)) for one in found]


class NewPrice(Body):
    price: Amount
    currency: CurrencyCode
    store: StoreName | None = Field(default=None, description="Null: in any store.")
    country: CountryCode | None = Field(default=None, description="Null: in any country.")


@products_router.get("/{product_id}/prices", responses=shows(Page[wire.ListedPrice]))
async def list_prices(call: ReadKey, product_id: str) -> Response:
    """The prices of the product beside its own, by store, country and currency. Not paged: there are at most 1,000."""
    found = await call.run(product_catalog.list_prices, product_id)
    path = project_path(call.project_id, "products", product_id, "prices")
    return reply(Page(items=[render.listed_price(product_id, one) for one in found], next_page=None, url=path))


@products_router.acts("/{product_id}/prices", wire.ListedPrice, "product.price_set", methods=("PUT",))
async def set_price(call: WriteKey, product_id: str, new: NewPrice) -> Response:
    """List a price. One of the same store, country and currency is replaced. What was bought keeps its price."""
    one = await call.run(product_catalog.set_price, product_id, **new.model_dump())
    return reply(render.listed_price(product_id, one))


@products_router.deletes("/{product_id}/prices/{price_id}", Deleted, "product.price_deleted")
async def delete_price(call: WriteKey, product_id: str, price_id: str) -> Response:
    """Take a listed price away. Its id is `store.country.currency`, with `-` for any."""
    await call.run(product_catalog.delete_price, product_id, price_id)
    return reply(Deleted(object="product.price", id=price_id, deleted_at=call.now()))


entitlements_router = Router(prefix="/v2/projects/{project_id}/entitlements", tags=["V2 entitlements"])

ExpandEntitlement = Annotated[list[Literal["product"]], Query(description="What to show inside the entitlement.")]
ExpandEntitlements = Annotated[
    list[Literal["items.product"]], Query(description="What to show inside each entitlement.")
]


class NewEntitlement(Body):
    """Either `lookup_key` or `id`: they are the same."""

    model_config = ConfigDict(json_schema_extra=one_of(id="string", lookup_key="string"))

    id: Id = not_null()
    lookup_key: Id = not_null()
    display_name: Name | None = None


class EntitlementChanges(Body):
    display_name: Name


class ProductIds(Body):
    product_ids: Annotated[list[Id], Field(min_length=1, max_length=100)]


@entitlements_router.creates("", wire.Entitlement, "entitlement.created")
async def create_entitlement(call: WriteKey, new: NewEntitlement) -> Response:
    """Create an entitlement. Products grant it once they are attached."""
    given = new.model_fields_set & {"id", "lookup_key"}
    if len(given) != 1:
        param = "lookup_key" if given else "id"
        raise InvalidParameter("Send either lookup_key or id; they are the same.", param=param)
    id = new.id or new.lookup_key
    made = await call.run(entitlement_catalog.create_entitlement, id, new.display_name, now=call.now())
    return reply(render.entitlement(call.project_id, made), 201)


@entitlements_router.get("", responses=shows(Page[wire.Entitlement]))
async def list_entitlements(call: ReadKey, paging: Paging, expand: ExpandEntitlements = NO_ITEMS) -> Response:
    """The project's entitlements, by id."""
    found = await call.run(entitlement_catalog.list_entitlements, *paging.window)
    return reply(paging.of(await _rendered_entitlements(call, found, products=bool(expand))))


@entitlements_router.get("/{entitlement_id}", responses=shows(wire.Entitlement))
async def read_entitlement(call: ReadKey, entitlement_id: str, expand: ExpandEntitlement = NO_ITEMS) -> Response:
    """One entitlement."""
    found = await call.run(entitlement_catalog.load_entitlement, entitlement_id)
    return reply((await _rendered_entitlements(call, [found], products=bool(expand)))[0])


@entitlements_router.updates("/{entitlement_id}", wire.Entitlement, "entitlement.renamed")
async def update_entitlement(call: WriteKey, entitlement_id: str, changes: EntitlementChanges) -> Response:
    """Rename an entitlement."""
    changed = await call.run(entitlement_catalog.rename_entitlement, entitlement_id, changes.display_name)
    return reply(render.entitlement(call.project_id, changed))


@entitlements_router.deletes("/{entitlement_id}", Deleted, "entitlement.deleted")
async def delete_entitlement(call: WriteKey, entitlement_id: str) -> Response:
    """Delete an entitlement that no product grants. Detach the products first."""
    await call.run(entitlement_catalog.delete_entitlement, entitlement_id)
    return reply(Deleted(object="entitlement", id=entitlement_id, deleted_at=call.now()))


@entitlements_router.acts(
    "/{entitlement_id}/actions/attach_products", wire.Entitlement, "entitlement.products_attached"
)
async def attach_products(call: WriteKey, entitlement_id: str, named: ProductIds) -> Response:
    """Let these products grant the entitlement, also to customers who already own them."""
    found = await call.run(entitlement_catalog.attach_products, entitlement_id, named.product_ids)
    return reply(render.entitlement(call.project_id, found))


@entitlements_router.acts(
    "/{entitlement_id}/actions/detach_products", wire.Entitlement, "entitlement.products_detached"
)
async def detach_products(call: WriteKey, entitlement_id: str, named: ProductIds) -> Response:
    """Stop these products from granting the entitlement. Customers who had it only through them lose it at once;
    attaching the products again gives it back."""
    found = await call.run(entitlement_catalog.detach_products, entitlement_id, named.product_ids, call.now())
    return reply(render.entitlement(call.project_id, found))


@entitlements_router.get("/{entitlement_id}/products", responses=shows(Page[wire.Product]))
async def list_products_of_entitlement(call: ReadKey, entitlement_id: str, paging: Paging) -> Response:
    """Every product that grants it, by id. A deleted one has `deleted_at`: it still grants it to its owners."""
    found = await call.run(entitlement_catalog.list_products_of, entitlement_id, *paging.window)
    return reply(paging.of([render.product(call.project_id, product) for product in found]))


async def _rendered_entitlements(call: Call, found: Sequence[Entitlement], *, products: bool) -> list[wire.Entitlement]:
    if not products:
        return [render.entitlement(call.project_id, one) for one in found]
    inside = await call.run(entitlement_catalog.products_of, [one.id for one in found])
    return [render.entitlement(call.project_id, one, _page(call.project_id, one.id, inside[one.id])) for one in found]


def _page(project_id: str, entitlement_id: str, found: Sequence[Product]) -> Page[wire.Product]:
    """The list inside an entitlement: all its products, up to the largest page."""
    path = project_path(project_id, "entitlements", entitlement_id, "products")
    items = [render.product(project_id, product) for product in found]
    return page(items, lambda item: item.id, path, LARGEST_LIMIT, None)
