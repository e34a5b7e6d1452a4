"""Offer codes as V2 shows them."""

from latchkey.subjects.offer_codes import wire
from latchkey.subjects.offer_codes.rules import OfferCode
from latchkey.wire.attributes import from_attributes


def offer_code(project_id: str, one: OfferCode) -> wire.OfferCode:
    return from_attributes(wire.OfferCode, one, project_id=project_id, product_ids=one.products)
