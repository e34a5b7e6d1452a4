"""The offering that a purchase was made from.

Only the app knows it, and tells it with the receipt, or a web page when it begins a checkout. Stores do not tell it, so
it is kept with the period or the one-time purchase that the receipt was about. It decides nothing; charts and receivers
break sales down by it.
"""

from collections.abc import Collection

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, without_plan
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Period, Subscription


def offering_of(bought: Subscription | Purchase, period: Period | None = None) -> str | None:
    """The lookup key of the offering. Renewals belong to the offering that the same product was last bought from."""
    if isinstance(bought, Purchase):
        return bought.offering
    if period is None:
        period = bought.current
    found: str | None = None
    for one in bought.periods:
        if one.product_id == period.product_id:
            found = one.offering or found
        elif one.order < period.order:
            found = None
        if one is period:
            break
    return found


def has_offering(catalog: Catalog, lookup_key: str | None) -> bool:
    return any(offering.lookup_key == lookup_key for offering in catalog.offerings.offerings)


def presented(
    bought: Subscription | Purchase, offering: str | None, product_ids: Collection[str], catalog: Catalog
) -> Subscription | Purchase:
    """A store's snapshot with what the app says of it. Offerings that the catalog does not have are ignored: an app can
    say anything."""
    if not has_offering(catalog, offering):
        return bought
    claimed = {without_plan(id) for id in product_ids}
    if isinstance(bought, Purchase):
        return replace(bought, offering=offering) if without_plan(bought.product_id) in claimed else bought
    if without_plan(bought.current.product_id) not in claimed:
        return bought
    return replace(bought, periods=(*bought.periods[:-1], replace(bought.current, offering=offering)))
