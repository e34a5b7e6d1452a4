"""Purchase links as V2 shows them."""

from latchkey.subjects.purchase_links import rules, wire
from latchkey.wire.attributes import from_attributes


def purchase_link(start: str, one: rules.PurchaseLink) -> wire.PurchaseLink:
    """`start` is where the service is reached."""
    return from_attributes(wire.PurchaseLink, one, url=start + one.path)
