"""Compared products and what was taken over, as V2 shows them."""

from collections.abc import Sequence

from msgspec import structs

from latchkey.domain.instants import Duration
from latchkey.subjects.store_products import rules, wire


def store_product(app_id: str, one: rules.Compared) -> wire.StoreProduct:
    sold = one.sold
    main = sold.prices[0].price if sold is not None and sold.prices else None
    return wire.StoreProduct(
        id=one.id,
        app_id=app_id,
        status=one.status,
        product_id=one.known.id if one.known is not None else None,
        display_name=sold.name if sold is not None else None,
        type=sold.type if sold is not None else None,
        on_sale=sold is not None and sold.on_sale,
        duration=str(sold.duration) if sold is not None and sold.duration is not None else None,
        trial_duration=str(sold.trial) if sold is not None and isinstance(sold.trial, Duration) else None,
        price=main.amount if main is not None else None,
        currency=main.currency if main is not None else None,
        country_prices=len(sold.prices[1:]) if sold is not None else 0,
        offers=list(sold.offers) if sold is not None else [],
        differences=[wire.ProductDifference(**structs.asdict(difference)) for difference in one.differences],
        reason=one.reason or None,
    )


_WORDS = {
    "new": "Not in the catalog yet",
    "same": "The same",
    "deleted": "Taken off sale here",
    "archived": "On sale here, but no longer in the store",
    "missing": "On sale here, but the store does not have it",
    "off_sale": "Not on sale",
}
FIELDS = {
    "price": "Price",
    "country_prices": "Prices by country",
    "duration": "Billing period",
    "trial": "Trial",
    "type": "Type",
    "apps": "This app",
}


def in_words(one: rules.Compared) -> str:
    """How the two stand to each other, for people."""
    if one.status == "covered" and one.known is not None:
        return f"Here, {one.known.id} stands for all its plans"
    shown = [f"{FIELDS[each.field]}: {each.here} here, {each.there} in the store" for each in one.differences]
    return one.reason or "; ".join(shown) or _WORDS[one.status]


def takeover(app_id: str, made: Sequence[rules.Takeover]) -> wire.StoreTakeover:
    created, updated = ([one.product_id for one in made if (one.kind is not None) is new] for new in (True, False))
    return wire.StoreTakeover(app_id=app_id, created=created, updated=updated)
