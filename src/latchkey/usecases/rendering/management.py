"""A project's catalog and settings as V2 shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import UNSET, UnsetType, structs

from latchkey.domain.catalog import ProductKind, is_consumable
from latchkey.usecases.access.keys import ApiKey, is_sandbox
from latchkey.usecases.access.projects import App, Project
from latchkey.usecases.catalog.currencies import Currency
from latchkey.usecases.catalog.entitlements import Entitlement
from latchkey.usecases.catalog.product_grants import ProductGrant
from latchkey.usecases.catalog.products import Product
from latchkey.usecases.customers.listing import ListedCustomer
from latchkey.usecases.experiments.experiments import Experiment
from latchkey.usecases.rendering.app_details import app_details
from latchkey.usecases.rendering.v2 import page
from latchkey.usecases.sandbox.clocks import Advanced, TestClock
from latchkey.wire import actions
from latchkey.wire import management as wire
from latchkey.wire.v2 import Page

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
