"""Changing which products grant which entitlements, and who would gain or lose by it."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms


class Grant(Struct, frozen=True, order=True):
    """One cell of the table on the mapping page: this product grants this entitlement."""

    product_id: str
    entitlement_id: str


class Remapping(Struct, frozen=True):
    attached: frozenset[Grant] = frozenset()
    detached: frozenset[Grant] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.attached or self.detached)

    def __len__(self) -> int:
        return len(self.attached) + len(self.detached)

    @property
    def entitlement_ids(self) -> tuple[str, ...]:
        return tuple(sorted({grant.entitlement_id for grant in self.attached | self.detached}))

    @property
    def product_ids(self) -> tuple[str, ...]:
        return tuple(sorted({grant.product_id for grant in self.attached | self.detached}))


def difference(before: Iterable[Grant], after: Iterable[Grant]) -> Remapping:
    had, wanted = frozenset(before), frozenset(after)
    return Remapping(wanted - had, had - wanted)


def remapped(catalog: Catalog, change: Remapping) -> Catalog:
    """The catalog with the change applied. Changes to products that are not in the catalog are ignored."""
    products = dict(catalog.products)
    for product_id in change.product_ids:
        if (product := products.get(product_id)) is None:
            continue
        granted = {Grant(product_id, grant) for grant in product.grants} | change.attached
        kept = sorted(grant.entitlement_id for grant in granted - change.detached if grant.product_id == product_id)
        products[product_id] = replace(product, grants=tuple(kept))
    return replace(catalog, products=products)


def gains_and_losses(customer: Customer, before: Catalog, after: Catalog, now: Ms) -> tuple[set[str], set[str]]:
    """The entitlements this customer would gain, and those they would lose."""
    has, will_have = active(customer, before, now).keys(), active(customer, after, now).keys()
    return set(will_have - has), set(has - will_have)
