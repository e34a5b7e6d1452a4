"""The facts from which an answer about access is built."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.access.entitlements import Access
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.standing import Standing, standing_of
from latchkey.domain.purchases.subscription import Period, Subscription


@dataclass(frozen=True, slots=True)
class Case:
    """The access that decides, and the customer, catalog and period it comes from."""

    customer: Customer
    catalog: Catalog
    access: Access
    # The period that gives the access, if a subscription does.
    period: Period | None
    now: Ms

    @property
    def subscription(self) -> Subscription | None:
        """The subscription whose current period gives the access; None if an older period gives it."""
        source = self.access.source
        return source if isinstance(source, Subscription) and source.current is self.period else None

    @property
    def standing(self) -> Standing | None:
        """Of that subscription, right now."""
        return standing_of(self.subscription, self.now) if self.subscription is not None else None

    @property
    def next_grants(self) -> bool:
        """Whether the next period, if there is one, grants the entitlement."""
        one = self.subscription
        if one is None or one.store in self.catalog.closed_stores:
            return False
        product = self.catalog.find(one.status.next_product_id or one.current.product_id)
        return product is not None and product.duration is not None and self.access.entitlement_id in product.grants

    @property
    def renews(self) -> bool:
        """Whether access continues by itself at the end of the period."""
        one = self.subscription
        if one is None or one.current.missed_renewal:
            return False
        return self.standing in (Standing.RENEWS, Standing.OVERDUE) and self.next_grants

    @property
    def following(self) -> Period | None:
        """The period of the subscription after the one that gives the access."""
        source, period = self.access.source, self.period
        if period is None or isinstance(source, Purchase):
            return None
        return next((one for one in source.periods if one.order > period.order), None)

    @property
    def changed_without_gap(self) -> bool:
        """Whether the subscription continued at once with another product. After a gap, something else had ended it."""
        period, following = self.period, self.following
        if period is None or following is None or following.product_id == period.product_id:
            return False
        return following.starts_at <= period.access_ends_at
