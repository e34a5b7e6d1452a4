"""Subscriptions, purchases and invoices as V2 shows them."""

from collections.abc import Sequence
from typing import Any, TypeVar

from latchkey.domain.catalog import Product
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import MICROS
from latchkey.domain.purchases.presented import offering_of
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.reference import Issued, kind_of, v2_id
from latchkey.domain.purchases.revenue import Earned, Revenue, invoiced, revenue
from latchkey.domain.purchases.subscription import Period, Subscription
from latchkey.domain.purchases.summary import end_of, gives_access, purchase_status, summary_of
from latchkey.domain.stores.store import STORES
from latchkey.engine.reads import CustomerView
from latchkey.subjects.catalog import render as catalog_render
from latchkey.subjects.catalog.wire import Entitlement
from latchkey.subjects.customers.render.customer_v2 import customer_path
from latchkey.subjects.purchases import wire
from latchkey.subjects.purchases.usecases.lookup import FoundPurchase
from latchkey.wire import paging
from latchkey.wire.paging import DEFAULT_LIMIT, page
from latchkey.wire.v2 import Page

Item = TypeVar("Item")


def subscription(found: FoundPurchase) -> wire.Subscription:
    view, bought = found.view, found.bought
    said = summary_of(bought, view.catalog, view.now)
    earned = revenue(bought)
    return wire.Subscription(
        **_common(found, earned),
        product_id=said.product_id,
        starts_at=said.starts_at,
        current_period_starts_at=said.period_starts_at,
        current_period_ends_at=said.period_ends_at,
        ends_at=said.ends_at,
        gives_access=said.gives_access,
        # A purchase whose payment is pending is not taken in before it is paid.
        pending_payment=False,
        auto_renewal_status=said.auto_renewal.value,
        status=said.status.value,
        total_revenue_in_usd=amount(earned.usd),
        store_subscription_identifier=bought.id,
        pending_changes=wire.PendingChanges(product=catalog_render.product(view.customer.project_id, following))
        if (following := found.next_product) is not None
        else None,
        management_url=management_url(bought.store) if said.gives_access else None,
    )


def purchase(found: FoundPurchase) -> wire.Purchase:
    view, bought = found.view, found.bought
    assert isinstance(bought, Purchase)
    earned = revenue(bought)
    return wire.Purchase(
        **_common(found, earned),
        product_id=bought.product_id,
        purchased_at=bought.purchased_at,
        expires_at=bought.access_ends_at,
        gives_access=gives_access(bought, view.now),
        revenue_in_usd=amount(earned.usd),
        quantity=1,
        status=purchase_status(bought),
        store_purchase_identifier=bought.id,
    )


def bought(found: FoundPurchase) -> wire.Subscription | wire.Purchase:
    """As V2 names it: grants and prepaid plans are subscriptions there."""
    return purchase(found) if kind_of(found.bought) == "purchase" else subscription(found)


def _common(found: FoundPurchase, earned: Revenue) -> dict[str, Any]:
    """The fields that a subscription and a one-time purchase share."""
    view, bought = found.view, found.bought
    named, last = offering_of(bought), bought if isinstance(bought, Purchase) else bought.current
    return {
        "id": v2_id(bought),
        "customer_id": view.customer.app_user_id,
        "original_customer_id": view.customer.original_app_user_id,
        "revenue": [amount(one) for one in earned.by_currency],
        "unconverted_payments": earned.unconverted,
        # None if the app did not tell it, or the offering was deleted.
        "presented_offering_id": next(
            (offering.id for offering in view.catalog.offerings.offerings if offering.lookup_key == named), None
        ),
        "entitlements": entitlements(found, DEFAULT_LIMIT, None),
        "environment": bought.environment.lower(),
        "store": bought.store,
        "ownership": bought.ownership.lower(),
        "country": last.country,
    }


def transactions(found: FoundPurchase) -> Page[wire.SubscriptionTransaction]:
    """All periods, oldest first. A grant has one."""
    return whole(_transactions(found.bought), f"{path_of(found)}/transactions")


def transaction(found: FoundPurchase, id: str) -> wire.SubscriptionTransaction | None:
    return next((one for one in _transactions(found.bought) if one.id == id), None)


def entitlements(found: FoundPurchase, limit: int, starting_after: str | None) -> Page[Entitlement]:
    project_id = found.view.customer.project_id
    items = [catalog_render.entitlement(project_id, entitlement) for entitlement in found.entitlements]
    return page(items, lambda item: item.id, f"{path_of(found)}/entitlements", limit, starting_after)


def invoices(
    view: CustomerView, found: Sequence[tuple[Issued, Product | None]], limit: int, starting_after: str | None
) -> Page[wire.Invoice]:
    items = [_invoice(one, product) for one, product in found]
    return page(items, lambda item: item.id, f"{customer_path(view)}/invoices", limit, starting_after)


def _invoice(one: Issued, product: Product | None) -> wire.Invoice:
    total = amount(invoiced(one.invoice))
    line = wire.InvoiceLineItem(
        product_identifier=one.period.product_id,
        product_display_name=product.display_name if product is not None else None,
        product_duration=str(product.duration) if product is not None and product.duration is not None else None,
        quantity=1,
        unit_amount=total,
    )
    return wire.Invoice(
        id=one.invoice.id,
        total_amount=total,
        line_items=[line],
        issued_at=one.invoice.issued_at,
        paid_at=None,
        invoice_url=None,
    )


def whole(items: Sequence[Item], path: str) -> Page[Item]:
    """A list that is not paged."""
    return Page(items=list(items), next_page=None, url=path)


def path_of(found: FoundPurchase) -> str:
    collection = "purchases" if v2_id(found.bought).startswith("purch_") else "subscriptions"
    return paging.project_path(found.view.customer.project_id, collection, v2_id(found.bought))


def management_url(store: str) -> str | None:
    """Where the buyer manages it, if its store has such a page."""
    known = STORES.get(store)
    return known.management_url if known is not None else None


def amount(earned: Earned) -> wire.MonetaryAmount:
    return wire.MonetaryAmount(
        currency=earned.currency,
        gross=earned.gross / MICROS,
        commission=earned.commission / MICROS,
        tax=earned.tax / MICROS,
        proceeds=earned.proceeds / MICROS,
    )


def _transactions(bought: Subscription | Purchase) -> list[wire.SubscriptionTransaction]:
    if isinstance(bought, Purchase):
        return [_transaction(bought, bought.access_ends_at)]
    return [_transaction(period, end_of(bought, period)) for period in bought.periods]


def _transaction(paid: Period | Purchase, access_ends_at: Ms | None) -> wire.SubscriptionTransaction:
    return wire.SubscriptionTransaction(
        id=paid.id,
        purchased_at=paid.purchased_at,
        product_store_identifier=paid.product_id,
        expiration_date=paid.ends_at,
        effective_expiration_date=access_ends_at,
        refunded_at=paid.refunded_at,
    )
