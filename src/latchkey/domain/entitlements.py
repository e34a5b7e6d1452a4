"""Who may do what: from purchases and the catalog to entitlements with an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchase import Purchase
from latchkey.domain.subscription import Subscription


class Access(NamedTuple):
    """One reason to hold an entitlement. Readers judge by `ends_at` alone; None never ends."""

    # A tuple: every read makes one for each period and entitlement, and a frozen dataclass is four times as dear.

    entitlement_id: str
    product_id: str
    purchased_at: Ms
    ends_at: Ms | None
    grace_ends_at: Ms | None
    source: Subscription | Purchase

    def is_active(self, now: Ms) -> bool:
        return self.ends_at is None or self.ends_at > now

    @property
    def rank(self) -> tuple[bool, Ms, Ms, str]:
        """The access that ends last wins; no end beats every end."""
        return self.ends_at is None, self.ends_at or 0, self.purchased_at, self.product_id


def accesses(customer: Customer, catalog: Catalog) -> Iterator[Access]:
    """Every reason, past and present, for this customer to hold anything."""
    for subscription in customer.subscriptions:
        periods, status = subscription.periods, subscription.status
        # The period after which a payment failed: a store may keep access open beyond its end.
        failing = periods[-1] if status.billing_issue_at is not None else None
        for period in periods:
            product_id, purchased_at = period.product_id, period.purchased_at
            grace = status.grace_ends_at if period is failing and subscription.in_grace else None
            ends_at = subscription.access_ends_at if period is failing else period.access_ends_at
            for entitlement_id in catalog.grants(product_id):
                yield Access(entitlement_id, product_id, purchased_at, ends_at, grace, subscription)
    for purchase in customer.purchases:
        granted = (purchase.entitlement_id,) if purchase.entitlement_id else catalog.grants(purchase.product_id)
        for entitlement_id in granted:
            yield Access(
                entitlement_id, purchase.product_id, purchase.purchased_at, purchase.access_ends_at, None, purchase
            )


def held(customer: Customer, catalog: Catalog) -> dict[str, Access]:
    """Every entitlement ever granted, each by the access that ends last."""
    best: dict[str, Access] = {}
    for access in accesses(customer, catalog):
        entitlement_id, ends_at = access.entitlement_id, access.ends_at
        known = best.get(entitlement_id)
        # Ranks are compared in full only where their first parts do not decide: somebody may have renewed for years.
        if (
            known is None
            or (ends_at is not None and known.ends_at is not None and ends_at > known.ends_at)
            or access.rank > known.rank
        ):
            best[entitlement_id] = access
    return best if len(best) < 2 else dict(sorted(best.items()))


def active(customer: Customer, catalog: Catalog, now: Ms) -> dict[str, Access]:
    return {id: access for id, access in held(customer, catalog).items() if access.is_active(now)}
