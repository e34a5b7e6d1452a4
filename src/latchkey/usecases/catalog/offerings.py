"""What an app can offer its user: every product on sale, as one offering."""

from __future__ import annotations

from latchkey.domain.catalog import Product
from latchkey.usecases.engine.changes import Changes, load_projects


async def load_offered(changes: Changes, project_id: str) -> list[Product]:
    """The products on sale, by id."""
    async with changes.database.acquire() as connection:
        catalog = (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
    return [product for _, product in sorted(catalog.products.items()) if product.on_sale]
