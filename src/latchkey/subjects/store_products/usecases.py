"""What a store has for sale beside the catalog, and taking it over."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import asdict

from latchkey.database.pool import Connection, OneTransaction
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound, Refusal, StoreRefused, StoreUnreachable
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.engine.storage.catalog import product_rows
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from latchkey.subjects.catalog.usecases.product_catalog import save_whole, terms_of
from latchkey.subjects.catalog.usecases.version import changing_catalog
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections, load
from latchkey.subjects.store_products import rules

# A store with thousands of products is asked page by page.
READING_SECONDS = 60
# In one transaction, during which nobody else changes the catalog.
MOST_AT_ONCE = 500


async def list_products(connections: Connections, project_id: str, app_id: str) -> tuple[rules.Compared, ...]:
    """By id: what the store has for sale, and what the catalog has. Asks the store."""
    store, sold = await _ask(connections, project_id, app_id)
    async with connections.database.acquire() as connection:
        return rules.compare(await _shelf(connection, project_id, app_id, store), sold)


async def take_over(
    connections: Connections, project_id: str, app_id: str, ids: Sequence[str], now: Ms
) -> list[rules.Compared]:
    """Makes the catalog like the store in these products: all of them, or none. Nobody gains or loses access. Returns
    what was changed; what needs no change is left out."""
    if len(ids) > MOST_AT_ONCE:
        raise Invalid(f"At most {MOST_AT_ONCE} products can be taken over at once.", param="product_ids")
    store, sold = await _ask(connections, project_id, app_id)
    # Locks the catalog, so that nothing is based on what another change replaces.
    async with changing_catalog(connections.database, project_id) as connection:
        found = {one.id: one for one in rules.compare(await _shelf(connection, project_id, app_id, store), sold)}
        changed = [one for id in dict.fromkeys(ids) if (one := _chosen(found, id)).changes]
        within = OneTransaction(connections.database, connection)
        for one in changed:
            try:
                await _make(within, project_id, one, now)
            except Refusal as refusal:
                raise Refusal(f"{one.id}: {refusal.message}", param="product_ids") from None
    return changed


async def _make(within: OneTransaction, project_id: str, one: rules.Compared, now: Ms) -> None:
    assert one.wanted is not None
    terms = terms_of(one.wanted)
    what = terms if one.creates else asdict(terms)
    await save_whole(within, project_id, one.wanted.id, what, now, prices=one.prices)


def _chosen(found: dict[str, rules.Compared], id: str) -> rules.Compared:
    one = found.get(id)
    if one is None or one.sold is None:
        raise NotFound(f"The store has no product {id!r} in this app.", param="product_ids")
    if one.wanted is None:
        reason = one.reason or "It is not on sale in the store."
        raise Refusal(f"{id!r} cannot be taken over. {reason}", param="product_ids")
    return one


async def _shelf(connection: Connection, project_id: str, app_id: str, store: str) -> rules.Shelf:
    products = await product_rows.page_products(connection, project_id, with_deleted=True)
    listed = await product_rows.load_price(connection, project_id, [product.id for product in products])
    return rules.Shelf(app_id, store, {product.id: product for product in products}, listed)


async def _ask(connections: Connections, project_id: str, app_id: str) -> tuple[str, tuple[StoreProduct, ...]]:
    """The app's store, and what it has for sale."""
    found = await load(connections, project_id, app_id)
    if found is None:
        raise NotFound("The store of this app has no list of products that could be read.", param="app_id")
    app = await connections.of_app(project_id, app_id)
    if app is None and found.row.credentials is not None:
        try:
            connections.parse(found.row.store, connections.unsealed(found.row))
        except ValueError as error:
            raise Refusal(f"The app's credentials cannot be used here: {error}.", param="app_id") from None
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
