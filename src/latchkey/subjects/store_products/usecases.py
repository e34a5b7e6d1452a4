"""What a store has for sale beside the catalog, and taking it over."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from latchkey.database.pool import Connection, OneTransaction
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound, Refusal, StoreRefused, StoreUnreachable
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.engine.storage.catalog import product_rows
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog
from latchkey.subjects.catalog.usecases.version import changing_catalog
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections, load
from latchkey.subjects.store_products import rules

# A store with thousands of products is asked page by page.
READING_SECONDS = 60
# In one transaction, during which nobody else changes the catalog.
MOST_AT_ONCE = 500


class _Unchanged(Exception):
    """Ends a transaction that has changed nothing."""


async def list_products(connections: Connections, project_id: str, app_id: str) -> tuple[rules.Compared, ...]:
    """By id: what the store has for sale, and what the catalog has. Asks the store."""
    store, sold = await _ask(connections, project_id, app_id)
    async with connections.database.acquire() as connection:
        return rules.compare(await _shelf(connection, project_id, app_id, store), sold)


async def take_over(
    connections: Connections, project_id: str, app_id: str, ids: Sequence[str], now: Ms
) -> tuple[rules.Takeover, ...]:
    """Makes the catalog like the store in these products: all of them, or none. Nobody gains or loses access. Returns
    what was changed; what needs no change is left out."""
    if len(ids) > MOST_AT_ONCE:
        raise Invalid(f"At most {MOST_AT_ONCE} products can be taken over at once.", param="product_ids")
    store, sold = await _ask(connections, project_id, app_id)
    changes: list[rules.Takeover] = []
    with suppress(_Unchanged):
        # Locks the catalog, so that nothing is based on what another change replaces.
        async with changing_catalog(connections.database, project_id) as connection:
            shelf = await _shelf(connection, project_id, app_id, store)
            found = {one.id: one for one in rules.compare(shelf, sold)}
            changes += filter(None, (rules.takeover(shelf, _chosen(found, id)) for id in dict.fromkeys(ids)))
            if not changes:
                raise _Unchanged
            database = OneTransaction(connections.database, connection)
            for change in changes:
                try:
                    await _make(database, project_id, change, now)
                except Refusal as refusal:
                    raise Refusal(f"{change.product_id}: {refusal.message}", param="product_ids") from None
    return tuple(changes)


async def _make(database: OneTransaction, project_id: str, change: rules.Takeover, now: Ms) -> None:
    place = project_id, change.product_id
    if change.kind is not None:
        terms = product_catalog.ProductTerms(kind=change.kind, **change.terms)
        await product_catalog.create_product(database, *place, terms, now)
    elif change.terms:
        await product_catalog.update_product(database, *place, dict(change.terms))
    for entitlement_id in change.grants:
        await entitlement_catalog.attach_products(database, project_id, entitlement_id, [change.product_id])
    if change.prices:
        await product_catalog.set_prices(database, *place, change.prices)


def _chosen(found: dict[str, rules.Compared], id: str) -> rules.Compared:
    one = found.get(id)
    if one is None or one.sold is None:
        raise NotFound(f"The store has no product {id!r} in this app.", param="product_ids")
    if one.status not in rules.POSSIBLE:
        reason = one.reason or "It is not on sale in the store."
        raise Refusal(f"{id!r} cannot be taken over. {reason}", param="product_ids")
    return one


async def _shelf(connection: Connection, project_id: str, app_id: str, store: str) -> rules.Shelf:
    products = await product_rows.page_products(connection, project_id, with_deleted=True)
    listed = await product_rows.load_price(connection, project_id, [product.id for product in products])
    return rules.Shelf(app_id, store, {product.id: product for product in products}, listed)


async def _ask(connections: Connections, project_id: str, app_id: str) -> tuple[str, tuple[StoreProduct, ...]]:
    """The app's store, and what it has for sale."""
    if await load(connections, project_id, app_id) is None:
        raise NotFound("The store of this app has no list of products that could be read.", param="app_id")
    app = await connections.of_app(project_id, app_id)
    if app is None:
        raise Refusal("This app has no credentials yet, so its store cannot be asked. Save them first.", param="app_id")
    try:
        async with asyncio.timeout(READING_SECONDS):
            return app.store, await connections.adapters[app.store].products(app)
    except ActionRefused as error:
        raise StoreRefused(error.message, param="app_id") from None
    except CredentialsRefused as error:
        raise StoreRefused(f"The store refuses the app's credentials. {error.message}", param="app_id") from None
    except StoreDown as error:
        raise StoreUnreachable(error.message, retry_after_ms=error.retry_after_ms) from None
    except TimeoutError:
        words = f"The store did not list its products within {READING_SECONDS} s. Try again later."
        raise StoreUnreachable(words) from None
