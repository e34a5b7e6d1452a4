"""Purchase links: made and archived by the operator, opened by buyers."""

import secrets

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound, found
from latchkey.domain.stores.store import store_of
from latchkey.engine.changes import Changes
from latchkey.engine.storage.catalog import product_rows
from latchkey.engine.storage.catalog.app_rows import APPS, App
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS
from latchkey.subjects.catalog.usecases.version import load_catalog
from latchkey.subjects.purchase_links import storage
from latchkey.subjects.purchase_links.rules import Offer, PurchaseLink, offers_of

list_links = storage.LINKS.load_page
load_link = storage.LINKS.get

NOT_SOLD = "This is not sold here any more."


class NotSold(NotFound):
    """The link is archived, or what it sold."""


async def create_link(
    database: Database,
    project_id: str,
    app_id: str,
    now: Ms,
    *,
    product_id: str | None = None,
    offering_id: str | None = None,
) -> PurchaseLink:
    """For a product, or for all products of an offering that the app sells."""
    if (product_id is None) == (offering_id is None):
        raise Invalid("A link is for a product or for an offering: name one of the two.", param="product_id")
    async with database.transaction() as connection:
        app = await APPS.get(connection, project_id, app_id)
        if not store_of(app.store).has_payment_pages:
            raise Invalid("A link needs an app in Stripe or in web billing, which sells on web pages.", param="app_id")
        if offering_id is not None:
            await OFFERINGS.get(connection, project_id, offering_id)
        else:
            product = await product_rows.load_product(connection, project_id, product_id or "")
            if product is None or not product.on_sale or (product.apps and app_id not in product.apps):
                raise NotFound(f"The app {app_id} sells no product {product_id!r}.", param="product_id")
        link = PurchaseLink(
            # Only letters and digits: other signs at the end of an address are often cut off in messages.
            id=secrets.token_hex(20),
            project_id=project_id,
            app_id=app_id,
            product_id=product_id,
            offering_id=offering_id,
            created_at=now,
        )
        await storage.create(connection, project_id, link)
    return link


async def archive_link(database: Database, project_id: str, link_id: str, now: Ms) -> PurchaseLink:
    """Nobody can buy by it any more. Those who have bought keep what they have, and their page."""
    return storage.LINKS.found(await storage.archive(database, project_id, link_id, now), link_id)


async def open_link(database: Database, link_id: str) -> tuple[PurchaseLink, App]:
    """As a buyer opens it."""
    link = found(await storage.find(database, link_id), "There is no such page. Is the whole address there?")
    app = await APPS.find(database, link.project_id, link.app_id)
    if app is None:
        raise NotSold(NOT_SOLD)
    return link, app


async def offers(changes: Changes, link: PurchaseLink, app: App) -> list[Offer]:
    """What it sells now. Never empty."""
    sold = offers_of(link, await load_catalog(changes, link.project_id), app.store)
    if not sold:
        raise NotSold(NOT_SOLD)
    return sold


def public_start(public_url: str, host: str) -> str:
    """What the addresses of links begin with."""
    return public_url.rstrip("/") or f"https://{host}"
