"""Compared products and what was taken over, as V2 shows them."""

from collections.abc import Iterable
from typing import Any

from latchkey.domain.instants import Duration
from latchkey.subjects.store_products import rules, wire
from latchkey.wire.attributes import from_attributes


def store_product(app_id: str, one: rules.Compared) -> wire.StoreProduct:
    shown: dict[str, Any] = {"on_sale": False, "country_prices": 0, "offers": []}
    shown |= dict.fromkeys(("display_name", "type", "duration", "trial_duration", "price", "currency"))
    if (sold := one.sold) is not None:
        main = sold.prices[0].price if sold.prices else None
        shown = {
            "display_name": sold.name,
            "type": sold.type,
            "on_sale": sold.on_sale,
            "duration": str(sold.duration) if sold.duration is not None else None,
            "trial_duration": str(sold.trial) if isinstance(sold.trial, Duration) else None,
            "price": main.amount if main is not None else None,
            "currency": main.currency if main is not None else None,
            "country_prices": len(sold.prices[1:]),
            "offers": list(sold.offers),
        }
    known, reason = one.known.id if one.known is not None else None, one.reason or None
    return from_attributes(wire.StoreProduct, one, app_id=app_id, product_id=known, reason=reason, **shown)


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


def takeover(app_id: str, made: Iterable[rules.Compared]) -> wire.StoreTakeover:
    ids = {new: [one.wanted.id for one in made if one.wanted and one.creates is new] for new in (True, False)}
    return wire.StoreTakeover(app_id=app_id, created=ids[True], updated=ids[False])
