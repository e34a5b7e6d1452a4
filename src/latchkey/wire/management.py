"""V2: a project's catalog, settings, team and audit log. Instants are epoch milliseconds."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from latchkey.wire.v2 import Page

# The stores in which an app can be created.
AppStore = Literal[
    "app_store", "mac_app_store", "play_store", "amazon", "galaxy", "stripe", "rc_billing", "paddle", "test_store"
]


class Project(Struct, frozen=True, kw_only=True):
    object: Literal["project"] = "project"
    id: str
    name: str
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"]
    # Whether test-store purchases can be made and renewed.
    test_store: Literal["open", "closed"]
    created_at: int
    # The project's first secret key, only in the response that creates the project.
    api_key: ApiKey | UnsetType = UNSET


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


class PackageProduct(Struct, frozen=True, kw_only=True):
    product: Product
    eligibility_criteria: Literal["all", "google_sdk_lt_6", "google_sdk_ge_6"]


class Package(Struct, frozen=True, kw_only=True):
    object: Literal["package"] = "package"
    id: str
    lookup_key: str
    display_name: str
    # From 1.
    position: int
    created_at: int
    # Only if `expand` asks for it.
    products: Page[PackageProduct] | UnsetType = UNSET


class Offering(Struct, frozen=True, kw_only=True):
    object: Literal["offering"] = "offering"
    id: str
    project_id: str
    lookup_key: str
    display_name: str
    is_current: bool
    created_at: int
    metadata: dict[str, Any] | None
    # Only if `expand` asks for it.
    packages: Page[Package] | UnsetType = UNSET


class Placement(Struct, frozen=True, kw_only=True):
    object: Literal["placement"] = "placement"
    id: str
    project_id: str
    display_name: str
    # Null: nothing is offered there.
    offering_id: str | None
    # Its offering is also shown at places without a placement; without any fallback it is the current offering.
    is_fallback: bool
    created_at: int


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


class VirtualCurrency(Struct, frozen=True, kw_only=True):
    object: Literal["virtual_currency"] = "virtual_currency"
    code: str
    project_id: str
    name: str
    description: str | None
    product_grants: list[ProductGrant]
    created_at: int


class Variant(Struct, frozen=True, kw_only=True):
    id: str
    weight: int
    # The offering that its customers see; null is the current one.
    offering_id: str | None


class Experiment(Struct, frozen=True, kw_only=True):
    object: Literal["experiment"] = "experiment"
    id: str
    project_id: str
    name: str
    variants: list[Variant]
    created_at: int


class ApiKey(Struct, frozen=True, kw_only=True):
    object: Literal["api_key"] = "api_key"
    id: str
    project_id: str
    name: str
    scopes: list[Literal["read", "write", "charts"]]
    rate_limit: int
    masked_key: str
    # The key itself, only in the response that creates it.
    key: str | UnsetType = UNSET
    created_at: int
    # To the minute; null if it never was.
    last_used_at: int | None
    revoked_at: int | None
    # From this instant on the key is refused. Null: it does not expire.
    expires_at: int | None
    # Empty: it works from everywhere.
    allowed_networks: list[str]
    # Of V2 replies to this key.
    shape: Literal["latchkey", "vendor"]


class PublicApiKey(Struct, frozen=True, kw_only=True):
    object: Literal["public_api_key"] = "public_api_key"
    id: str
    project_id: str
    app_id: str
    name: str
    rate_limit: int
    masked_key: str
    # Null for keys that were made when only their hash was stored.
    key: str | None
    environment: Literal["production", "sandbox"]
    created_at: int
    last_used_at: int | None
    revoked_at: int | None


class BundleDetails(Struct, frozen=True, kw_only=True):
    bundle_id: str


class PackageDetails(Struct, frozen=True, kw_only=True):
    package_name: str


class StripeDetails(Struct, frozen=True, kw_only=True):
    stripe_account_id: str | None


class WebBillingDetails(Struct, frozen=True, kw_only=True):
    stripe_account_id: str | None
    app_name: str
    # The same as `app_name`: the vendor deprecates it and still requires it.
    seller_company_name: str
    support_email: str | None
    default_currency: str


class PaddleDetails(Struct, frozen=True, kw_only=True):
    paddle_is_sandbox: bool
    # Never shown.
    paddle_api_key: None = None


class App(Struct, frozen=True, kw_only=True):
    object: Literal["app"] = "app"
    id: str
    project_id: str
    name: str
    store: AppStore
    # The same as `store`.
    type: AppStore
    created_at: int
    # The one of the app's type, if it is known.
    amazon: PackageDetails | UnsetType = UNSET
    app_store: BundleDetails | UnsetType = UNSET
    mac_app_store: BundleDetails | UnsetType = UNSET
    play_store: PackageDetails | UnsetType = UNSET
    stripe: StripeDetails | UnsetType = UNSET
    rc_billing: WebBillingDetails | UnsetType = UNSET
    paddle: PaddleDetails | UnsetType = UNSET
    # Where the store sends its notifications. Null for stores that are not connected.
    notification_url: str | None
    # The app's first key, only in the response that creates the app.
    public_api_key: PublicApiKey | UnsetType = UNSET


class ListedCustomer(Struct, frozen=True, kw_only=True):
    """A customer's own fields, without its lists."""

    object: Literal["customer"] = "customer"
    id: str
    project_id: str
    first_seen_at: int
    last_seen_at: int
    last_seen_app_version: str | None
    last_seen_country: str | None
    last_seen_platform: str | None
    last_seen_platform_version: str | None


class AuditLog(Struct, frozen=True, kw_only=True):
    """One change, or one attempt at a change."""

    object: Literal["audit_log"] = "audit_log"
    id: str
    project_id: str
    # Such as `product.created`; the part before the point is the target's type.
    action_type: str
    target_type: str
    # Empty if the change has no target of its own.
    target_identifier: str
    actor_type: Literal["user", "system", "api_key"]
    # The id of the collaborator or of the key; for the system, its name.
    actor_identifier: str
    occurred_at: int
    # The actor's name, the outcome, the address it came from, and what was sent.
    additional_data: dict[str, Any]


class Collaborator(Struct, frozen=True, kw_only=True):
    object: Literal["collaborator"] = "collaborator"
    id: str
    name: str | None
    email: str
    role: Literal["owner", "developer", "support", "viewer"]
    # Null until they can sign in: they have no password yet, and no single sign-on.
    accepted_at: int | None
    # Whether their account asks for a code of an app. A second factor of the single sign-on provider is not known here.
    has_mfa: bool
