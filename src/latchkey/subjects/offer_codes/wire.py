"""V2: offer codes and their use."""

from typing import Literal

from latchkey.subjects.offer_codes import rules


class OfferCode(rules.OfferCode, frozen=True, kw_only=True):
    """A code of a store that customers have redeemed."""

    object: Literal["offer_code"] = "offer_code"
    project_id: str
