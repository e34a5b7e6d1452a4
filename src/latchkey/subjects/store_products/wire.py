"""What a store has for sale, beside the catalog, as V2 shows it."""

from typing import Literal

from msgspec import Struct

from latchkey.subjects.store_products.rules import ProductDifference, Status


class StoreProduct(Struct, frozen=True, kw_only=True):
    object: Literal["store_product"] = "store_product"
    # As purchases name it, with its base plan or price after a colon.
    id: str
    app_id: str
    status: Status
    # The product of the catalog: of the same id, or that without the base plan. Null: the catalog has none.
    product_id: str | None
    # As the store has it. Null: the store does not have the product, or does not say it.
    display_name: str | None
    type: str | None
    on_sale: bool
    duration: str | None
    trial_duration: str | None
    price: float | None
    currency: str | None
    # How many countries have a price of their own beside that one.
    country_prices: int
    # Introductory prices and other offers, in words. They are not taken over.
    offers: list[str]
    differences: list[ProductDifference]
    # Why it cannot be taken over.
    reason: str | None


class StoreTakeover(Struct, frozen=True, kw_only=True):
    object: Literal["store_products.takeover"] = "store_products.takeover"
    app_id: str
    # Ids of products of the catalog.
    created: list[str]
    updated: list[str]
