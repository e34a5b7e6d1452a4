"""Who was credited with the virtual currency of a purchase that belongs to another customer by now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.credits import movement_id, movement_ids
from latchkey.domain.customers.customer import Customer
from latchkey.domain.purchases.purchase import PurchaseKind
from latchkey.storage.customers import records as customers
from latchkey.storage.customers.records import Stored
from latchkey.storage.database import Connection


async def lock_credited(
    connection: Connection,
    changed: Iterable[Stored],
    owners: Mapping[tuple[str, str, str], int | None],
    catalog: Catalog,
) -> dict[tuple[str, str, str], Stored | None]:
    """Who was credited with the virtual currency of purchases that came from another customer; locked too. Of purchases
    whose owner was erased only those that somebody else was credited with: the others credit whoever claims them."""
    asked = credits_of((one.customer for one in changed), catalog)
    erased = {
        key: (movement_id(key[1], key[2], 0),) for key, owner in owners.items() if owner is None and key not in asked
    }
    if not asked and not erased:
        return {}
    found = await customers.lock_credited(connection, asked | erased)
    return {key: stored for key, stored in found.items() if stored is not None or key in asked}


def credits_of(changed: Iterable[Customer], catalog: Catalog) -> dict[tuple[str, str, str], Sequence[str]]:
    """Purchases of virtual currency that may have come from another customer, with the ids of their credits and debits.
    Only a customer who ever received a transfer can have such purchases."""
    found: dict[tuple[str, str, str], Sequence[str]] = {}
    for customer in changed:
        if customer.transfers:
            for one in customer.purchases:
                product = catalog.products.get(one.product_id)
                if one.kind is PurchaseKind.ONE_TIME and product is not None and product.credits is not None:
                    found[customer.project_id, one.store, one.id] = movement_ids(one)
    return found
