"""What a purchase link sells, and how a page opens the app."""

from msgspec import Struct

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.instants import Ms
from latchkey.subjects.checkout.rules import on_sale

# Below `/`. Their addresses are given to buyers.
ROOT = "/buy"
# The host by which the SDKs recognise a link to redeem.
_REDEEMS = "redeem_web_purchase"


class PurchaseLink(Struct, frozen=True, kw_only=True):
    # Cannot be guessed.
    id: str
    project_id: str
    # The app at a payment provider that sells.
    app_id: str
    # One of the two.
    product_id: str | None = None
    offering_id: str | None = None
    created_at: Ms
    archived_at: Ms | None = None

    @property
    def path(self) -> str:
        return f"{ROOT}/{self.id}"


class Offer(Struct, frozen=True):
    product: Product
    # The lookup key of the offering that it is sold from.
    offering: str | None = None


def offers_of(link: PurchaseLink, catalog: Catalog, store: str) -> list[Offer]:
    """What can be bought by this link now, in the order of the offering. Empty: nothing any more."""
    if link.archived_at is not None:
        return []
    named: list[tuple[str, str | None]] = [(link.product_id, None)] if link.product_id is not None else []
    for offering in catalog.offerings.offerings:
        if offering.id == link.offering_id:
            named = [(one.product_id, offering.lookup_key) for each in offering.packages for one in each.products]
    found = ((on_sale(catalog, link.app_id, store, id), offering) for id, offering in named)
    return list({product.id: Offer(product, offering) for product, offering in found if product is not None}.values())


def opens_app(deep_link: str, token: str | None = None) -> str:
    """The address that opens the app, and lets it redeem this token. The SDKs know it by its host; behind a universal
    link, whose host is the app's own, the app looks for the token itself."""
    if token is None:
        return deep_link
    scheme, _, _ = deep_link.partition("://")
    address = deep_link if scheme == "https" else f"{scheme}://{_REDEEMS}"
    return f"{address}?redemption_token={token}"
