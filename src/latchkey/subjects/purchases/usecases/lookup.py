"""Subscriptions and purchases by their V2 id, by an id of their store, or of one customer."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from latchkey.database.pool import Database
from latchkey.domain.catalog import Product
from latchkey.domain.purchases import reference
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.reference import Issued, Kind, issued
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.purchases.summary import granted_by, summary_of
from latchkey.domain.refusal import NotFound
from latchkey.engine.reads import CustomerView, look_at
from latchkey.engine.storage import records
from latchkey.engine.storage.catalog import product_rows as catalog_storage
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.catalog.product_rows import Entitlement
from latchkey.subjects.customers.usecases.profile import ProfileServices
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections
from latchkey.subjects.search.usecases import of_transaction

# How often a purchase may change hands between the lookup of its owner and the read.
_TRIES = 3


class FoundPurchase(Struct, frozen=True):
    view: CustomerView
    bought: Subscription | Purchase
    # What it grants, as the catalog has it now, by id.
    entitlements: tuple[Entitlement, ...]
    # What it renews into, if that is another product of the catalog.
    next_product: Product | None = None


class LookupServices(ProfileServices, Protocol):
    @property
    def catalogs(self) -> Catalogs: ...

    @property
    def stores(self) -> Connections: ...


async def by_id(services: LookupServices, project_id: str, kind: Kind, id: str) -> FoundPurchase:
    key = reference.parsed(id, kind)
    for _ in range(_TRIES if key is not None else 0):
        assert key is not None
        owner = await records.owner_of(services.database, project_id, key)
        row = await services.reader.read(project_id, owner) if owner is not None else None
        if row is None:
            break
        view = look_at(row, services.now())
        bought = view.customer.subscription(*key) or view.customer.purchase(*key)
        if bought is not None and reference.kind_of(bought) == kind:
            return (await _with_catalog(services.database, project_id, [(view, bought)]))[0]
    raise NotFound(f"There is no {kind} {id!r}.", param=f"{kind}_id")


async def by_store_id(services: LookupServices, project_id: str, kind: Kind, store_id: str) -> list[FoundPurchase]:
    """All with this id in any store, or with a period of this id; oldest first."""
    views = await of_transaction(services.database, services.catalogs, project_id, store_id, services.now())
    found = [
        (view, bought)
        for view in views
        for bought in view.customer.bought
        if reference.kind_of(bought) == kind and reference.has_transaction(bought, store_id)
    ]
    found.sort(key=lambda one: one[1].order)
    return await _with_catalog(services.database, project_id, found)


async def of_customer(
    services: LookupServices, view: CustomerView, kind: Kind, environment: Environment | None
) -> list[FoundPurchase]:
    """A customer's subscriptions or one-time purchases, by their V2 id."""
    project_id = view.customer.project_id
    mine = [
        (view, one)
        for one in view.customer.bought
        if reference.kind_of(one) == kind and environment in (None, one.environment)
    ]
    mine.sort(key=lambda one: reference.v2_id(one[1]))
    return await _with_catalog(services.database, project_id, mine)


def invoices_of(view: CustomerView) -> list[tuple[Issued, Product | None]]:
    """A customer's invoices by id, each with its product as the catalog has it now."""
    return [(one, view.catalog.find(one.period.product_id)) for one in issued(view.customer.subscriptions)]


async def _with_catalog(
    database: Database, project_id: str, found: Sequence[tuple[CustomerView, Subscription | Purchase]]
) -> list[FoundPurchase]:
    if not found:
        return []
    granted = [granted_by(bought, view.catalog, view.now) for view, bought in found]
    following = [_next_product(view, bought) for view, bought in found]
    async with database.acquire() as connection:
        entitlements = await catalog_storage.ENTITLEMENTS.page(connection, project_id)
        sold = await catalog_storage.load_some_products(
            connection, project_id, {id for id in following if id is not None}
        )
    known = {entitlement.id: entitlement for entitlement in entitlements}
    return [
        FoundPurchase(view, bought, tuple(known[id] for id in ids if id in known), sold.get(following_id or ""))
        for (view, bought), ids, following_id in zip(found, granted, following, strict=True)
    ]


def _next_product(view: CustomerView, bought: Subscription | Purchase) -> str | None:
    """As the catalog names it: a product may be listed without its base plan."""
    if reference.kind_of(bought) != "subscription":
        return None
    product_id = summary_of(bought, view.catalog, view.now).next_product_id
    product = view.catalog.find(product_id) if product_id is not None else None
    return product.id if product is not None else None
