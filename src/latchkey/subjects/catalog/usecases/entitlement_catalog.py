"""Entitlements, and which products grant them. Attaching and detaching change customers' access at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from latchkey.database.pool import Connection, Database
from latchkey.domain.access.entitlements import Remapping, gains_and_losses, remapped
from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Conflict, InUse, NotFound, found
from latchkey.engine.clock import ScanProgress, walk
from latchkey.engine.due_transitions import at_present
from latchkey.engine.storage.catalog import product_rows as storage
from latchkey.engine.storage.catalog.catalogs import Catalogs, load_version
from latchkey.engine.storage.catalog.offering_rows import TARGETING_RULES
from latchkey.engine.storage.catalog.product_rows import ENTITLEMENTS, Entitlement, Grid
from latchkey.engine.storage.scans import mention
from latchkey.subjects.catalog.usecases.version import changing_catalog

load_entitlement = ENTITLEMENTS.get
list_entitlements = ENTITLEMENTS.load_page


async def create_entitlement(
    database: Database, project_id: str, id: str, display_name: str | None = None, *, now: Ms
) -> Entitlement:
    name = checked_name(checked_id(id) if display_name is None else display_name, "display_name")
    created = Entitlement(checked_id(id), name, now)
    async with changing_catalog(database, project_id) as connection:
        ENTITLEMENTS.require_new(await storage.create_entitlement(connection, project_id, created), id)
    return created


async def rename_entitlement(
    database: Database, project_id: str, entitlement_id: str, display_name: str
) -> Entitlement:
    name = checked_name(display_name, "display_name")
    async with changing_catalog(database, project_id) as connection:
        return ENTITLEMENTS.found(await storage.rename(connection, project_id, entitlement_id, name), entitlement_id)


async def delete_entitlement(database: Database, project_id: str, entitlement_id: str) -> None:
    """Refused while a product grants it: taking access from customers must be an explicit step, not a side effect. Also
    while a targeting rule names it: everybody would then be without it."""
    async with changing_catalog(database, project_id) as connection:
        await ENTITLEMENTS.get(connection, project_id, entitlement_id)
        granting = await storage.page_products(connection, project_id, entitlement_id=entitlement_id, with_deleted=True)
        if granting:
            names = ", ".join(repr(product.id) for product in granting)
            raise InUse(
                f"{entitlement_id!r} is granted by {names}, and customers may hold it by them. "
                "Detach the products first; that is what takes it from customers.",
                param="entitlement_id",
            )
        rules = [rule.name for rule in await TARGETING_RULES.page(connection, project_id) if rule.names(entitlement_id)]
        if rules:
            names = ", ".join(repr(name) for name in rules)
            raise InUse(
                f"{entitlement_id!r} is in the targeting rules {names}. Change them first.", param="entitlement_id"
            )
        await storage.delete_entitlement(connection, project_id, entitlement_id)


async def attach_products(
    database: Database, project_id: str, entitlement_id: str, product_ids: Sequence[str]
) -> Entitlement:
    """Attaches all of them, or none if one is unknown. Idempotent."""
    async with changing_catalog(database, project_id) as connection:
        entitlement = await ENTITLEMENTS.get(connection, project_id, entitlement_id)
        await require_known(connection, project_id, product_ids, on_sale=True)
        await storage.attach(connection, project_id, entitlement_id, product_ids)
    return entitlement


async def detach_products(
    database: Database, project_id: str, entitlement_id: str, product_ids: Sequence[str], now: Ms
) -> Entitlement:
    """Customers who held the entitlement only through one of these products lose it now. Deleted products can be named
    too."""
    async with changing_catalog(database, project_id) as connection:
        entitlement = await ENTITLEMENTS.get(connection, project_id, entitlement_id)
        await require_known(connection, project_id, product_ids, on_sale=False)
        await storage.detach(connection, project_id, entitlement_id, product_ids, now)
    return entitlement


async def list_products_of(
    database: Database, project_id: str, entitlement_id: str, after: str | None = None, limit: int = 100
) -> list[Product]:
    """Every product that grants it, including deleted ones: their owners still have the entitlement."""
    async with database.acquire() as connection:
        await ENTITLEMENTS.get(connection, project_id, entitlement_id)
        return await storage.page_products(
            connection, project_id, after, limit, entitlement_id=entitlement_id, with_deleted=True
        )


async def products_of(
    database: Database, project_id: str, entitlement_ids: Sequence[str], *, limit: int = 101
) -> dict[str, list[Product]]:
    """For each of these entitlements, the first products that grant it, including deleted ones."""
    async with database.acquire() as connection:
        return {
            id: await storage.page_products(connection, project_id, limit=limit, entitlement_id=id, with_deleted=True)
            for id in entitlement_ids
        }


async def require_known(
    connection: Connection, project_id: str, product_ids: Sequence[str], *, on_sale: bool, param: str = "product_ids"
) -> None:
    """Raises NotFound for a product that does not exist or, if required, is not on sale."""
    known = await storage.load_some_products(connection, project_id, product_ids)
    for product_id in product_ids:
        if product_id not in known or (on_sale and not known[product_id].on_sale):
            raise NotFound(f"There is no product {product_id!r} in this project.", param=param)


# The mapping of products to entitlements as one grid, changed in one step or not at all; and how many customers a
# change would affect.


class ChangedMeanwhile(Conflict):
    """Somebody else changed the catalog after it was read."""


async def load_grid(database: Database, project_id: str) -> Grid:
    async with database.acquire() as connection:
        return await _load_mapping(connection, project_id)


async def save_mapping(database: Database, project_id: str, change: Remapping, version: int, now: Ms) -> int:
    """Saves the whole change if the catalog is still at `version`, and returns the new version."""
    async with changing_catalog(database, project_id) as connection:
        # `changing_catalog` has incremented the version. Any other difference is a change by somebody else.
        now_at = version + 1
        if await load_version(connection, project_id) != now_at:
            raise ChangedMeanwhile("The catalog was changed meanwhile, so nothing was saved.", param="version")
        require_possible(await _load_mapping(connection, project_id), change)
        for entitlement_id in change.entitlement_ids:
            attached, detached = (
                sorted(grant.product_id for grant in grants if grant.entitlement_id == entitlement_id)
                for grants in (change.attached, change.detached)
            )
            await storage.attach(connection, project_id, entitlement_id, attached)
            await storage.detach(connection, project_id, entitlement_id, detached, now)
    return now_at


def require_possible(grid: Grid, change: Remapping) -> None:
    """Only products and entitlements of the grid can be mapped; a deleted product cannot get new grants."""
    known = {entitlement.id for entitlement in grid.entitlements}
    products = {product.id for product in grid.products}
    on_sale = {product.id for product in grid.products if product.on_sale}
    for grant in sorted(change.attached | change.detached):
        if grant.entitlement_id not in known:
            raise NotFound(f"There is no entitlement {grant.entitlement_id!r} in this project.", param="grant")
        if grant.product_id not in (on_sale if grant in change.attached else products):
            raise NotFound(f"There is no product {grant.product_id!r} in this project.", param="grant")


async def _load_mapping(connection: Connection, project_id: str) -> Grid:
    grid = await storage.load_mapping(connection, project_id)
    return found(grid, f"There is no project {project_id}.", "project_id")


@dataclass(frozen=True, slots=True)
class Preview:
    """Customers by entitlement, counted so far."""

    gains: Mapping[str, int] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)
    place: ScanProgress = field(default_factory=ScanProgress)


async def preview_mapping(
    database: Database,
    catalogs: Catalogs,
    project_id: str,
    change: Remapping,
    version: int,
    now: Ms,
    so_far: Preview | None = None,
    seconds: float | None = None,
) -> Preview:
    """How many customers would gain and lose if the change were made now."""
    async with database.acquire() as connection:
        if await load_version(connection, project_id) != version:
            raise ChangedMeanwhile("The catalog was changed meanwhile.", param="version")
        before = await catalogs.at(connection, project_id, version)
    return await preview_catalog(database, project_id, before, remapped(before, change), now, so_far, seconds)


async def preview_catalog(
    database: Database,
    project_id: str,
    before: Catalog,
    after: Catalog,
    now: Ms,
    so_far: Preview | None = None,
    seconds: float | None = None,
) -> Preview:
    """How many customers would gain and lose if the catalog were another one now. Counts for at most `seconds`. If
    `place.done` is false, pass the result as `so_far` to continue."""
    so_far = so_far or Preview()
    gains, losses = Counter(so_far.gains), Counter(so_far.losses)

    def look(customer: Customer, lives_at: Ms) -> None:
        gained, lost = gains_and_losses(at_present(customer, before, lives_at), before, after, lives_at)
        gains.update(gained)
        losses.update(lost)

    # A customer who never had one of these products, or a base plan of them, is not affected.
    changed = [id for id in {**before.products, **after.products} if before.grants(id) != after.grants(id)]
    words = [word for id in changed for word in (mention("product_id", id), mention("product_id", f"{id}:")[:-1])]
    if not words:
        return Preview(place=ScanProgress(done=True))
    place = await walk(database, project_id, words, look, now, so_far.place, seconds)
    return Preview(dict(gains), dict(losses), place)
