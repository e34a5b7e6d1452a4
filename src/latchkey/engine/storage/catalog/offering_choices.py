"""What decides which offering a customer sees."""

from dataclasses import dataclass

from latchkey.database.pool import Connection
from latchkey.database.sql import query
from latchkey.domain.catalog import Catalog
from latchkey.engine.storage import state
from latchkey.engine.storage.catalog.catalogs import Catalogs

_LOAD = query("offering_choice")


@dataclass(frozen=True, slots=True)
class OfferingChoice:
    catalog: Catalog
    # The id of the offering that was assigned to the customer.
    override: str | None = None
    # Experiments and variants, oldest first.
    enrolled: tuple[tuple[str, str], ...] = ()


async def load(connection: Connection, catalogs: Catalogs, project_id: str, app_user_id: str) -> OfferingChoice:
    """The customer need not exist."""
    row = await connection.fetchrow(_LOAD, project_id, app_user_id)
    if row is None:
        return OfferingChoice(Catalog())
    catalog = await catalogs.at(connection, project_id, row["catalog_version"])
    enrolled: tuple[tuple[str, str], ...] = ()
    if catalog.offerings.of_variants and row["state"] is not None:
        customer = state.decode(row["state"])
        enrolled = tuple((one.experiment_id, one.variant_id) for one in customer.enrollments)
    return OfferingChoice(catalog, row["offering_id"], enrolled)
