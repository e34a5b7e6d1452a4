"""An offer code of a store, and its use."""

from msgspec import Struct

from latchkey.domain.instants import Ms


class OfferCode(Struct, frozen=True):
    # The App Store tells the name of the offer, Google Play the code.
    offer_code: str
    store: str
    # production or sandbox.
    environment: str
    products: list[str]
    # Purchases with it, and by how many customers.
    uses: int
    customers: int
    first_used_at: Ms
    last_used_at: Ms

    @property
    def id(self) -> str:
        return f"{self.store}.{self.environment}.{self.offer_code}"


class OfferCodeUse(Struct, frozen=True):
    product: str
    used_at: Ms
    # None: the customer was erased.
    app_user_id: str | None
