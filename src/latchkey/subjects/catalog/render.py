"""Products and entitlements as V2 shows them."""

from msgspec import UNSET, UnsetType

from latchkey.domain.catalog import ListedPrice, Product, ProductKind
from latchkey.engine.storage.catalog.product_rows import Entitlement
from latchkey.subjects.catalog import wire
from latchkey.subjects.projects import wire as projects_wire
from latchkey.wire.attributes import from_attributes
from latchkey.wire.v2 import Page


def product(
    project_id: str, one: Product, app_id: str | None = None, app: projects_wire.App | UnsetType = UNSET
) -> wire.Product:
    """`app_id` is the app that the request named."""
    lasts, trial = (str(length) if length is not None else None for length in (one.duration, one.trial))
    terms = wire.SubscriptionTerms(duration=lasts, trial_duration=trial)
    subscribes = one.kind is ProductKind.SUBSCRIPTION
    return from_attributes(
        wire.Product,
        one,
        project_id=project_id,
        store_identifier=one.id,
        app_id=app_id or one.app_id,
        app_ids=one.apps,
        subscription=terms if subscribes else None,
        one_time=None if subscribes else wire.OneTimeTerms(is_consumable=one.consumable),
        duration=lasts,
        trial_duration=trial,
        price=one.price.amount,
        currency=one.price.currency,
        entitlement_ids=one.grants,
        deleted_at=UNSET if one.deleted_at is None else one.deleted_at,
        app=app,
    )


def entitlement(
    project_id: str, one: Entitlement, products: Page[wire.Product] | UnsetType = UNSET
) -> wire.Entitlement:
    return from_attributes(wire.Entitlement, one, project_id=project_id, lookup_key=one.id, products=products)


def listed_price(product_id: str, one: ListedPrice) -> wire.ListedPrice:
    return from_attributes(
        wire.ListedPrice, one, product_id=product_id, currency=one.price.currency, price=one.price.amount
    )
