"""Projects, apps and members of V2."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from latchkey.domain.stores.store import AppStore
from latchkey.subjects.api_keys.wire import ApiKey, PublicApiKey


class Project(Struct, frozen=True, kw_only=True):
    object: Literal["project"] = "project"
    id: str
    name: str
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"]
    # Whether test-store purchases can be made and renewed.
    test_store: Literal["open", "closed"]
    # An IANA name: in which the dashboard shows times. Times of the API are in UTC.
    time_zone: str
    created_at: int
    # The project's first secret key, only in the response that creates the project.
    api_key: ApiKey | UnsetType = UNSET


class BundleDetails(Struct, frozen=True, kw_only=True):
    bundle_id: str


class PackageDetails(Struct, frozen=True, kw_only=True):
    package_name: str


class StripeDetails(Struct, frozen=True, kw_only=True):
    stripe_account_id: str | None
    # What opens the app from the page of a purchase.
    deep_link: str | None


class WebBillingDetails(Struct, frozen=True, kw_only=True):
    stripe_account_id: str | None
    app_name: str
    # The same as `app_name`: the vendor deprecates it and still requires it.
    seller_company_name: str
    support_email: str | None
    default_currency: str
    deep_link: str | None


class PaddleDetails(Struct, frozen=True, kw_only=True):
    paddle_is_sandbox: bool
    # Never shown.
    paddle_api_key: None = None


# By what `app_details` of its store says.
DETAILS: dict[str | None, type[Struct]] = {
    "bundle": BundleDetails,
    "package": PackageDetails,
    "stripe_account": StripeDetails,
    "web_billing": WebBillingDetails,
    "paddle_account": PaddleDetails,
}


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
