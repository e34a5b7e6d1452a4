"""Counts which customers a change of the mapping would affect, before it is made: decision 45.

Each customer is examined with the same rules that decide about access, so preview and result cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from latchkey.domain.access.remapping import Remapping, gains_and_losses, remapped
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.catalog import version as versions
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.catalog.mapping import ChangedMeanwhile
from latchkey.usecases.engine.passing_time import at_present
from latchkey.usecases.engine.walk import Progress, mention, walk


@dataclass(frozen=True, slots=True)
class Preview:
    """Customers by entitlement, counted so far."""

    gains: Mapping[str, int] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)
    place: Progress = field(default_factory=Progress)


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
    """How many customers would gain and lose if the change were made now. Counts for at most `seconds`. If `place.done`
    is false, pass the result as `so_far` to continue."""
    so_far = so_far or Preview()
    async with database.acquire() as connection:
        if await versions.load(connection, project_id) != version:
            raise ChangedMeanwhile("The catalog was changed meanwhile.", param="version")
        before = await catalogs.at(connection, project_id, version)
    after = remapped(before, change)
    gains, losses = Counter(so_far.gains), Counter(so_far.losses)

    def look(customer: Customer, lives_at: Ms) -> None:
        gained, lost = gains_and_losses(at_present(customer, before, lives_at), before, after, lives_at)
        gains.update(gained)
        losses.update(lost)

    # A customer who never had one of these products is not affected.
    words = [mention("product_id", product_id) for product_id in change.product_ids]
    place = await walk(database, project_id, words, look, now, so_far.place, seconds)
    return Preview(dict(gains), dict(losses), place)
