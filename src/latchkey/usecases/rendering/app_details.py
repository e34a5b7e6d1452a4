"""What a store calls an app, as V2 shows it: one object, named like the app's type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latchkey.stores.registry import store_of
from latchkey.wire import management as wire


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
