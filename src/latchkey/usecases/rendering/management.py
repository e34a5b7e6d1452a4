"""A project's catalog, settings, team and audit log as V2 shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from msgspec import UNSET, UnsetType, structs

from latchkey.domain.catalog import ProductKind, is_consumable
from latchkey.domain.stores.store import store_of
from latchkey.usecases.access.audit import Entry
from latchkey.usecases.access.keys import ApiKey, is_sandbox
from latchkey.usecases.access.projects import App, Project
from latchkey.usecases.access.team import Member
from latchkey.usecases.catalog.currencies import Currency, ProductGrant
from latchkey.usecases.catalog.entitlements import Entitlement
from latchkey.usecases.catalog.products import Product
from latchkey.usecases.customers.listing import ListedCustomer
from latchkey.usecases.experiments.experiments import Experiment
from latchkey.usecases.rendering.v2 import page
from latchkey.usecases.sandbox.clocks import Advanced, TestClock
from latchkey.wire import actions, management
from latchkey.wire import management as wire
from latchkey.wire.v2 import Page


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


T = TypeVar("T")
Item = TypeVar("Item")


def project_path(project_id: str, *parts: str) -> str:
    return "/".join(("/v2/projects", *(quote(part, safe="") for part in (project_id, *parts))))


def listed(
    found: Sequence[T],
    render: Callable[[str, T], Item],
    name: Callable[[Item], str],
    limit: int,
    *path: str,
    filters: Mapping[str, str] | None = None,
) -> Page[Item]:
    """A page of the found items. The query asked for one more than `limit`, which shows whether more follow."""
    return page([render(path[0], one) for one in found], name, project_path(*path), limit, None, filters)


def product(
    project_id: str, one: Product, app_id: str | None = None, app: wire.App | UnsetType = UNSET
) -> wire.Product:
    """`app_id` is the app that the request named."""
    subscribes = one.kind is ProductKind.SUBSCRIPTION
    consumable = is_consumable(one.type, one.credits, one.entitlement_ids)
    return wire.Product(
        id=one.id,
        project_id=project_id,
        store_identifier=one.id,
        app_id=app_id or one.app_id,
        app_ids=list(one.app_ids),
        display_name=one.display_name,
        type=one.type.value,
        kind=one.kind.value,
        subscription=wire.SubscriptionTerms(duration=one.duration, trial_duration=one.trial_duration)
        if subscribes
        else None,
        one_time=None if subscribes else wire.OneTimeTerms(is_consumable=consumable),
        duration=one.duration,
        trial_duration=one.trial_duration,
        price=one.price.amount,
        currency=one.price.currency,
        credits=wire.Credits(code=one.credits.code, amount=one.credits.amount) if one.credits is not None else None,
        entitlement_ids=list(one.entitlement_ids),
        created_at=one.created_at,
        deleted_at=UNSET if one.deleted_at is None else one.deleted_at,
        app=app,
    )


def entitlement(
    project_id: str, one: Entitlement, products: Page[wire.Product] | UnsetType = UNSET
) -> wire.Entitlement:
    return wire.Entitlement(
        id=one.id,
        project_id=project_id,
        lookup_key=one.id,
        display_name=one.display_name,
        created_at=one.created_at,
        products=products,
    )


def currency(project_id: str, one: Currency, grants: Sequence[ProductGrant]) -> wire.VirtualCurrency:
    return wire.VirtualCurrency(
        code=one.code,
        project_id=project_id,
        name=one.name,
        description=one.description or None,
        product_grants=[wire.ProductGrant(product_ids=list(each.product_ids), amount=each.amount) for each in grants],
        created_at=one.created_at,
    )


def experiment(project_id: str, one: Experiment) -> wire.Experiment:
    return wire.Experiment(
        id=one.id,
        project_id=project_id,
        name=one.name,
        variants=[
            wire.Variant(id=variant.id, weight=variant.weight, offering_id=variant.offering_id)
            for variant in one.variants
        ],
        created_at=one.created_at,
    )


def project(one: Project, first_key: wire.ApiKey | UnsetType = UNSET) -> wire.Project:
    return wire.Project(
        id=one.id,
        name=one.name,
        restore_behavior=one.restore_behavior,
        test_store=one.test_store,
        created_at=one.created_at,
        api_key=first_key,
    )


def app(
    project_id: str,
    one: App,
    notification_url: str | None,
    first_key: wire.PublicApiKey | UnsetType = UNSET,
    connected: Mapping[str, Any] | None = None,
) -> wire.App:
    """`connected` is what may be shown of its credentials: they too say what the store calls the app."""
    return wire.App(
        **app_details(one.store, {**one.details, **(connected or {})}),
        id=one.id,
        project_id=project_id,
        name=one.name,
        store=one.store,
        type=one.store,
        created_at=one.created_at,
        notification_url=notification_url,
        public_api_key=first_key,
    )


def api_key(project_id: str, one: ApiKey, plaintext: str | UnsetType = UNSET) -> wire.ApiKey:
    return wire.ApiKey(
        id=one.id,
        project_id=project_id,
        name=one.name,
        scopes=list(one.scopes),
        rate_limit=one.rate_limit,
        masked_key=one.hint,
        key=plaintext,
        created_at=one.created_at,
        last_used_at=one.last_used_at,
        revoked_at=one.revoked_at,
        expires_at=one.expires_at,
        allowed_networks=list(one.allowed_networks),
        shape=one.shape,
    )


def public_api_key(project_id: str, one: ApiKey) -> wire.PublicApiKey:
    assert one.app_id is not None
    return wire.PublicApiKey(
        id=one.id,
        project_id=project_id,
        app_id=one.app_id,
        name=one.name,
        rate_limit=one.rate_limit,
        masked_key=one.hint,
        key=one.plaintext,
        environment="sandbox" if is_sandbox(one.hint) else "production",
        created_at=one.created_at,
        last_used_at=one.last_used_at,
        revoked_at=one.revoked_at,
    )


def listed_customer(project_id: str, one: ListedCustomer) -> wire.ListedCustomer:
    seen = one.last_seen
    return wire.ListedCustomer(
        id=one.app_user_id,
        project_id=project_id,
        first_seen_at=one.first_seen_at,
        last_seen_at=seen.at,
        last_seen_app_version=seen.app_version,
        last_seen_country=seen.country,
        last_seen_platform=seen.platform,
        last_seen_platform_version=seen.platform_version,
    )


def test_clock(project_id: str, one: TestClock) -> actions.TestClock:
    return actions.TestClock(id=one.id, project_id=project_id, name=one.name, now_ms=one.now, created_at=one.created_at)


def test_clock_advanced(project_id: str, moved: Advanced) -> actions.TestClockAdvanced:
    return actions.TestClockAdvanced(**structs.asdict(test_clock(project_id, moved.clock)), events_count=moved.events)


PREFIX = "audit_"
# As `usecases.access.keys.actor_of` writes it.
_KEY = re.compile(r"API key .* \((key_[0-9a-f]+)\)", re.DOTALL)


def audit_log(project_id: str, one: Entry) -> management.AuditLog:
    kind, identifier = _actor(one)
    return management.AuditLog(
        id=f"{PREFIX}{one.position}",
        project_id=project_id,
        action_type=one.action,
        target_type=one.action.partition(".")[0],
        target_identifier=one.subject,
        actor_type=kind,
        actor_identifier=identifier,
        occurred_at=one.at,
        additional_data={"actor": one.actor, "outcome": one.outcome, "address": one.address, **one.detail},
    )


def position_of(id: str) -> int | None:
    """The position in the log of the entry with this id; None if it is not such an id."""
    number = id.removeprefix(PREFIX)
    return int(number) if id.startswith(PREFIX) and number.isascii() and number.isdigit() and len(number) < 19 else None


def collaborator(_: str, one: Member) -> management.Collaborator:
    account = one.account
    return management.Collaborator(
        id=account.id,
        name=account.name or None,
        email=account.email,
        role=one.role.value,
        accepted_at=one.since if account.has_password or account.openid is not None else None,
        has_mfa=account.has_second_factor,
    )


def _actor(one: Entry) -> tuple[Literal["user", "system", "api_key"], str]:
    if (key := _KEY.fullmatch(one.actor)) is not None and one.account_id is None:
        return "api_key", key[1]
    return ("user", one.account_id) if one.account_id is not None else ("system", one.actor)
