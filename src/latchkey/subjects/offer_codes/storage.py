"""Offer codes and their use, from the periods that charts count."""

from latchkey.database.rows import fetches_all
from latchkey.database.sql import query
from latchkey.subjects.offer_codes.rules import OfferCode, OfferCodeUse

list_codes = fetches_all(OfferCode, query("list_offer_codes"))
list_uses = fetches_all(OfferCodeUse, query("list_offer_code_uses"))
