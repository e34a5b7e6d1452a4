"""Products with their prices, and entitlements."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import Listing, changes_rows, executes, fetches_one, saves
from latchkey.database.sql import query
from latchkey.domain.access.entitlements import Grant
from latchkey.domain.catalog import Credit, ListedPrice, Product, ProductKind, ProductType
from latchkey.domain.instants import Ms, parse_duration
from latchkey.domain.money.amounts import Price


class Entitlement(Struct, frozen=True):
    id: str
    display_name: str
    created_at: Ms


async def load_product(connection: Executor, project_id: str, product_id: str) -> Product | None:
    """Including deleted ones."""
    return (await load_some_products(connection, project_id, [product_id])).get(product_id)


async def load_some_products(connection: Executor, project_id: str, ids: Iterable[str]) -> dict[str, Product]:
    """Those that exist, by id, including deleted ones."""
    found = await page_products(connection, project_id, with_deleted=True, ids=list(ids))
    return {product.id: product for product in found}


async def page_products(
    connection: Executor,
    project_id: str,
    after: str | None = None,
    limit: int | None = None,
    *,
    app_id: str | None = None,
    entitlement_id: str | None = None,
    with_deleted: bool = False,
    ids: list[str] | None = None,
) -> list[Product]:
    """By id: products on sale, in one app if it is given, or those that grant an entitlement. `after` is the last id of
    the page before."""
    rows = await connection.fetch(
        query("list_products"), project_id, after, limit, with_deleted, app_id, entitlement_id, ids
    )
    return [product_of(row) for row in rows]


async def save_product(connection: Connection, project_id: str, product: Product) -> None:
    """Creates a product, or changes an existing one. A deleted product is on sale again."""
    await connection.execute(
        query("save_product"),
        project_id,
        product.id,
        product.display_name,
        product.kind,
        str(product.duration) if product.duration is not None else None,
        str(product.trial) if product.trial is not None else None,
        product.price.micros,
        product.price.currency,
        product.credits.code if product.credits is not None else None,
        product.credits.amount if product.credits is not None else None,
        product.created_at,
        product.type or product.kind,
        list(product.apps),
    )


async def delete_product(connection: Connection, project_id: str, product_id: str, now: Ms) -> None:
    """Takes a product off sale, with its listed prices."""
    await connection.execute(query("delete_product"), project_id, product_id, now)
    await connection.execute(_DELETE_PRICE, project_id, product_id, None, None, None)


def product_of(row: Record) -> Product:
    return Product(
        id=row["id"],
        display_name=row["display_name"],
        kind=ProductKind(row["kind"]),
        price=Price(row["price_micros"], row["currency"]),
        duration=parse_duration(row["duration"]) if row["duration"] else None,
        trial=parse_duration(row["trial_duration"]) if row["trial_duration"] else None,
        grants=tuple(row["entitlement_ids"]),
        credits=Credit(row["credits_code"], row["credits_amount"]) if row["credits_code"] is not None else None,
        type=ProductType(row["type"]),
        apps=tuple(row["app_ids"]),
        app_id=row["app_id"],
        created_at=row["created_at"],
        deleted_at=row["deleted_at"],
    )


_DELETE_PRICE = query("delete_product_price")


async def load_price(
    connection: Connection, project_id: str, product_ids: Sequence[str]
) -> dict[str, tuple[ListedPrice, ...]]:
    """By product, those without listed prices left out."""
    found: dict[str, tuple[ListedPrice, ...]] = {}
    for row in await connection.fetch(query("load_product_prices"), project_id, list(product_ids)):
        price = Price(row["price_micros"], row["currency"])
        one = ListedPrice(price, row["store"] or None, row["country"] or None)
        found[row["product_id"]] = (*found.get(row["product_id"], ()), one)
    return found


async def save_prices(connection: Connection, project_id: str, product_id: str, new: Sequence[ListedPrice]) -> None:
    """New ones, or other amounts for those that are listed."""
    rows = [(one.store or "", one.country or "", one.price.currency, one.price.micros) for one in new]
    columns = map(list, zip(*rows, strict=True))
    await connection.execute(query("save_product_prices"), project_id, product_id, *columns)


# By store, country and currency; an empty store or country is any. False: it is not listed.
delete_price = changes_rows(_DELETE_PRICE)


async def country_of(connection: Connection, project_id: str, app_user_id: str) -> str | None:
    """Where the customer was seen last."""
    row = await connection.fetchrow(query("customer_state"), project_id, app_user_id)
    return None if row is None else row["last_seen_country"]


ENTITLEMENTS = Listing("entitlement", query("list_entitlements"), Entitlement)


# False: the id is taken.
create_entitlement = saves(query("create_entitlement"), "id", "display_name", "created_at")
# None: there is no such entitlement.
rename = fetches_one(Entitlement, query("rename_entitlement"))
delete_entitlement = executes(query("delete_entitlement"))
# Detaches products from an entitlement, and records when customers who own one of them lost it.
detach = executes(query("detach_products"))


async def attach(connection: Connection, project_id: str, entitlement_id: str, product_ids: Sequence[str]) -> None:
    """As if they had never been detached."""
    async with connection.transaction():
        for statement in (query("forget_former_grants"), query("insert_grants")):
            await connection.execute(statement, project_id, entitlement_id, list(product_ids))


class Grid(Struct, frozen=True):
    """What each product grants. A deleted product is part of it while it still grants something."""

    version: int
    products: list[Product]
    entitlements: list[Entitlement]

    @property
    def grants(self) -> frozenset[Grant]:
        return frozenset(Grant(product.id, id) for product in self.products for id in product.grants)


async def load_mapping(connection: Connection, project_id: str) -> Grid | None:
    """None: there is no such project. Whatever changes after the version was read makes the version outdated."""
    settings = await connection.fetchrow(query("project_settings"), [project_id])
    if settings is None:
        return None
    every = await page_products(connection, project_id, with_deleted=True)
    shown = [product for product in every if product.on_sale or product.grants]
    return Grid(settings["catalog_version"], shown, await ENTITLEMENTS.page(connection, project_id))
