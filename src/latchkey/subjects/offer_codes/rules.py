"""An offer code of a store, and its use."""

from typing import Literal

from msgspec import Struct

from latchkey.domain.instants import Ms


class OfferCode(Struct, frozen=True, kw_only=True):
    id: str
    # The App Store tells the name of the offer, Google Play the code.
    offer_code: str
    store: str
    environment: Literal["production", "sandbox"]
    # Of its purchases.
    product_ids: list[str]
    # Purchases with it, and by how many customers.
    uses: int
    customers: int
    first_used_at: Ms
    last_used_at: Ms


class OfferCodeUse(Struct, frozen=True):
    product: str
    used_at: Ms
    # None: the customer was erased.
    app_user_id: str | None
