"""What the facts of one purchase can be broken down by."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.fact import Dimensions
from latchkey.domain.charts.facts.subject import Origin
from latchkey.domain.charts.month import own_length, sold_length
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Duration, Ms, format_duration
from latchkey.domain.purchases.presented import offering_of
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType, Subscription

_STANDARD = (PeriodType.NORMAL, PeriodType.PREPAID)


def variants_of(customer: Customer, until: Ms | None = None) -> tuple[str, ...]:
    """Of a purchase: those that the customer was enrolled in when it was made. An experiment has no effect on what was
    bought before."""
    if not customer.enrollments:
        return ()
    return tuple(
        sorted(
            f"{one.experiment_id}:{one.variant_id}"
            for one in customer.enrollments
            if until is None or one.enrolled_at <= until
        )
    )


def attributes_of(customer: Customer, names: Sequence[str]) -> tuple[str, ...]:
    if not names or not customer.attributes:
        return ()
    known = customer.attributes
    return tuple(sorted(f"{name}={known[name].value}" for name in names if name in known))


def of_customer(customer: Customer, origin: Origin, attributes: tuple[str, ...]) -> Dimensions:
    return Dimensions(
        country=origin.country,
        platform=origin.platform,
        app_version=origin.app_version,
        variants=variants_of(customer),
        attributes=attributes,
    )


def of_purchase(
    purchase: Purchase, customer: Customer, catalog: Catalog, origin: Origin, attributes: tuple[str, ...]
) -> Dimensions:
    product = catalog.find(purchase.product_id)
    duration = product.duration if product is not None else None
    return Dimensions(
        purchase.product_id,
        "" if duration is None else format_duration(duration),
        purchase.store,
        purchase.country or origin.country,
        origin.platform,
        origin.app_version,
        purchase.offering or "",
        variants_of(customer, purchase.purchased_at),
        attributes,
    )


class SubscriptionDimensions:
    """The dimensions of each period of a subscription, and the length that its price is for."""

    __slots__ = ("_catalog", "_found", "_lengths", "_like", "_presented", "_subscription")

    def __init__(
        self,
        subscription: Subscription,
        customer: Customer,
        catalog: Catalog,
        origin: Origin,
        attributes: tuple[str, ...],
    ) -> None:
        self._subscription = subscription
        self._catalog = catalog
        self._like = Dimensions(
            "",
            "",
            subscription.store,
            origin.country,
            origin.platform,
            origin.app_version,
            "",
            variants_of(customer, subscription.started_at),
            attributes,
        )
        self._presented = any(one.offering is not None for one in subscription.periods)
        self._found: dict[tuple[str, str, str], Dimensions] = {}
        self._lengths: dict[str, Duration | None] = {}

    def of(self, period: Period) -> Dimensions:
        like = self._like
        offering = (offering_of(self._subscription, period) or "") if self._presented else ""
        key = period.product_id, period.country or like.country, offering
        found = self._found.get(key)
        if found is None:
            length = self._length(period.product_id)
            found = self._found[key] = Dimensions(
                period.product_id,
                "" if length is None else format_duration(length),
                like.store,
                key[1],
                like.platform,
                like.app_version,
                offering,
                like.variants,
                like.attributes,
            )
        return found

    def length(self, period: Period, following: Period | None) -> Duration:
        """An introductory price is for the time of its own period, any other price for the product's: extensions and
        early ends move a period's own. An introductory period that a product change has cut short has lost its own
        length, so the product's counts."""
        cut = following is not None and following.cause is Cause.CHANGE and following.purchased_at <= period.ends_at
        known = self._length(period.product_id)
        if known is None or (period.period_type is PeriodType.INTRO and not cut):
            return own_length(period.ends_at - period.starts_at)
        return known

    def _length(self, product_id: str) -> Duration | None:
        """Of a product that is not in the catalog: the sold length that is closest to its first standard period."""
        if product_id not in self._lengths:
            product = self._catalog.find(product_id)
            length = product.duration if product is not None else None
            if length is None:
                standard = (
                    one
                    for one in self._subscription.periods
                    if one.product_id == product_id and one.period_type in _STANDARD
                )
                first = next(standard, None)
                length = None if first is None else sold_length(first.ends_at - first.purchased_at)
            self._lengths[product_id] = length
        return self._lengths[product_id]
