"""Products and entitlements as V2 shows them."""

from msgspec import UNSET, UnsetType

from latchkey.domain.catalog import ProductKind, is_consumable
from latchkey.engine.storage.catalog.product_rows import Entitlement, Product
from latchkey.subjects.catalog import wire
from latchkey.subjects.projects import wire as projects_wire
from latchkey.wire.v2 import Page


def product(
    project_id: str, one: Product, app_id: str | None = None, app: projects_wire.App | UnsetType = UNSET
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
