"""V2: offer codes and their use."""

from typing import Literal

from msgspec import Struct


class OfferCode(Struct, frozen=True, kw_only=True):
    """A code of a store that customers have redeemed."""

    object: Literal["offer_code"] = "offer_code"
    id: str
    project_id: str
    # The App Store tells the name of the offer, Google Play the code.
    offer_code: str
    store: str
    environment: Literal["production", "sandbox"]
    # Of its purchases.
    product_ids: list[str]
    # Purchases with it, and by how many customers.
    uses: int
    customers: int
    first_used_at: int
    last_used_at: int
