"""Projects, apps and members as V2 shows them."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from latchkey.domain.stores.store import store_of
from latchkey.engine.storage.catalog.app_rows import App, Project
from latchkey.subjects.accounts.rules import Member
from latchkey.subjects.api_keys import wire as api_keys_wire
from latchkey.subjects.projects import wire
from latchkey.wire.attributes import from_attributes


def app_details(store: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """The object of this store, if enough is known."""
    match store_of(store).app_details:
        case "bundle" if "bundle_id" in details:
            return {store: wire.BundleDetails(bundle_id=details["bundle_id"])}
        case "package" if "package_name" in details:
            return {store: wire.PackageDetails(package_name=details["package_name"])}
        case "stripe_account":
            return {store: wire.StripeDetails(stripe_account_id=details.get("stripe_account_id"))}
        case "web_billing" if "app_name" in details:
            return {
                store: wire.WebBillingDetails(
                    stripe_account_id=details.get("stripe_account_id"),
                    app_name=details["app_name"],
                    seller_company_name=details["app_name"],
                    support_email=details.get("support_email"),
                    default_currency=details.get("default_currency", "USD"),
                )
            }
        case "paddle_account":
            return {store: wire.PaddleDetails(paddle_is_sandbox=bool(details.get("paddle_is_sandbox")))}
        case _:
            return {}


def project(one: Project, first_key: api_keys_wire.ApiKey | UnsetType = UNSET) -> wire.Project:
    return from_attributes(wire.Project, one, api_key=first_key)


def app(
    project_id: str,
    one: App,
    notification_url: str | None,
    first_key: api_keys_wire.PublicApiKey | UnsetType = UNSET,
    connected: Mapping[str, Any] | None = None,
) -> wire.App:
    """`connected` is what may be shown of its credentials: they too say what the store calls the app."""
    return from_attributes(
        wire.App,
        one,
        **app_details(one.store, {**one.details, **(connected or {})}),
        project_id=project_id,
        type=one.store,
        notification_url=notification_url,
        public_api_key=first_key,
    )


def collaborator(one: Member) -> wire.Collaborator:
    account = one.account
    return wire.Collaborator(
        id=account.id,
        name=account.name or None,
        email=account.email,
        role=one.role.value,
        accepted_at=one.since if account.has_password or account.openid is not None else None,
        has_mfa=account.has_second_factor,
    )
