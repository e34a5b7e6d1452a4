"""Products, prices and entitlements of V2."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from latchkey.subjects.projects.wire import App
from latchkey.wire.v2 import Page


class Credits(Struct, frozen=True, kw_only=True):
    code: str
    amount: int


class SubscriptionTerms(Struct, frozen=True, kw_only=True):
    # Null: only the store knows.
    duration: str | None
    # Stores have their own; the catalog has none.
    grace_period_duration: str | None = None
    trial_duration: str | None


class OneTimeTerms(Struct, frozen=True, kw_only=True):
    is_consumable: bool


class Product(Struct, frozen=True, kw_only=True):
    object: Literal["product"] = "product"
    id: str
    project_id: str
    # The same as `id`.
    store_identifier: str
    # The app that the request names, else the first app in which the product is sold, else the project's oldest app.
    # Null: the project has no app.
    app_id: str | None
    # The apps in which the product is sold; empty means in every app.
    app_ids: list[str]
    display_name: str
    type: Literal["subscription", "one_time", "consumable", "non_consumable", "non_renewing_subscription"]
    kind: Literal["subscription", "one_time"]
    # One of these two is null, by the kind.
    subscription: SubscriptionTerms | None
    one_time: OneTimeTerms | None
    duration: str | None
    trial_duration: str | None
    price: float
    currency: str
    credits: Credits | None
    entitlement_ids: list[str]
    created_at: int
    # Only in lists that include deleted products: they still grant the entitlement to their owners.
    deleted_at: int | UnsetType = UNSET
    # Only if `expand` asks for it.
    app: App | UnsetType = UNSET


class Entitlement(Struct, frozen=True, kw_only=True):
    object: Literal["entitlement"] = "entitlement"
    id: str
    project_id: str
    # The same as `id`.
    lookup_key: str
    display_name: str
    created_at: int
    # Only if `expand` asks for it.
    products: Page[Product] | UnsetType = UNSET


class ListedPrice(Struct, frozen=True, kw_only=True):
    """A price of a product beside its own."""

    object: Literal["product.price"] = "product.price"
    # `store.country.currency`, with `-` for any store or country.
    id: str
    product_id: str
    # Null: in any store, in any country.
    store: str | None
    country: str | None
    currency: str
    price: float


class ProductGrant(Struct, frozen=True, kw_only=True):
    """A purchase of one of these products credits the amount."""

    object: Literal["virtual_currency.product_grant"] = "virtual_currency.product_grant"
    product_ids: list[str]
    amount: int
    # Subscriptions credit nothing, so these two are always the same.
    trial_amount: Literal[0] = 0
    expire_at_cycle_end: Literal[False] = False
