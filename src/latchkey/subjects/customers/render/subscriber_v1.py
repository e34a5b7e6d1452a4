"""A customer as V1 shows it."""

import hashlib
from functools import lru_cache

from msgspec import UNSET, Struct, UnsetType, structs

from latchkey.domain.access.entitlements import Access, on_record
from latchkey.domain.catalog import Catalog, without_plan
from latchkey.domain.customers.customer import Customer, visible
from latchkey.domain.instants import Ms, end_to_iso, to_iso
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.reference import is_prepaid
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription
from latchkey.domain.purchases.summary import end_of
from latchkey.domain.stores.store import BASE_PLANS, PROMOTIONAL, STORES, TEST_STORE, store_of
from latchkey.engine import render as engine_render
from latchkey.engine.reads import CustomerView, lifetime_end
from latchkey.wire import event, v1

_URLS = {store.name: store.management_url for store in STORES.values() if store.management_url is not None}


class SubscriberAudience(Struct, frozen=True, gc=False):
    """Who reads a subscriber."""

    # A public key sees no attributes, and no id that is a receipt except the one it has just sent.
    public: bool = False
    token: str | None = None
    vendor_shape: bool = False

    @property
    def names_plans(self) -> bool:
        """Whether a product is named as in events, with its base plan: two plans of one product are two subscriptions.
        The SDKs, and clients of the vendor's shape, look for the product alone and read the plan beside it."""
        return not self.public and not self.vendor_shape


SERVER = SubscriberAudience()


def subscriber(view: CustomerView, reader: SubscriberAudience = SERVER) -> v1.SubscriberResponse:
    customer, now, names_plans = view.customer, view.now, reader.names_plans
    return v1.SubscriberResponse(
        request_date=to_iso(now),
        request_date_ms=now,
        subscriber=v1.Subscriber(
            original_app_user_id=customer.original_app_user_id,
            original_application_version=customer.original_application_version,
            first_seen=to_iso(customer.first_seen_at),
            last_seen=to_iso(view.last_seen.at),
            management_url=_management_url(customer, now),
            original_purchase_date=_iso(_first_purchase_at(customer)),
            non_subscriptions=_non_subscriptions(view, reader) if customer.purchases else {},
            subscriptions=_subscriptions(view, reader),
            entitlements={
                id: _entitlement(access, now, names_plans) for id, access in on_record(customer, view.catalog).items()
            },
            subscriber_attributes=UNSET if reader.public else _attributes(customer) if customer.attributes else {},
        ),
    )


def _attributes(customer: Customer) -> dict[str, event.Attribute]:
    return {
        name: event.Attribute(value=one.value, updated_at_ms=one.updated_at) for name, one in visible(customer).items()
    }


def _subscriptions(view: CustomerView, reader: SubscriberAudience) -> dict[str, v1.Subscription]:
    """The latest period of each product ever subscribed to; of several subscriptions, the one that ends last. Grants,
    prepaid plans and one-time purchases with an end are listed here too, because the vendor's web SDK looks for an end
    only here."""
    customer, names_plans = view.customer, reader.names_plans
    shown: dict[str, v1.Subscription] = {}
    ends: dict[str, Ms] = {}
    for purchase in customer.purchases:
        if purchase.kind is PurchaseKind.ONE_TIME and purchase.ends_at is None:
            continue
        end = purchase.access_ends_at or lifetime_end(purchase.purchased_at)
        product_id = _product(purchase.store, purchase.product_id, names_plans)
        if end >= ends.get(product_id, end):
            ends[product_id] = end
            shown[product_id] = _as_subscription(view, purchase, reader)
    several = bool(ends) or len(customer.subscriptions) > 1
    for subscription in customer.subscriptions:
        id = _transaction_id(customer, subscription.store, subscription.id, reader)
        # Later periods overwrite earlier ones; another subscription to the same product only if it ends later.
        latest = {period.product_id: period for period in subscription.periods}
        if subscription.store in BASE_PLANS and not names_plans:
            # Of several plans of one product, the later period counts.
            latest = {without_plan(id): period for id, period in latest.items()}
        for product_id, period in latest.items():
            if several:
                end = end_of(subscription, period)
                if end < ends.get(product_id, end):
                    continue
                ends[product_id] = end
            shown[product_id] = _subscription(view, subscription, period, id, names_plans)
    return shown


def _as_subscription(view: CustomerView, purchase: Purchase, reader: SubscriberAudience) -> v1.Subscription:
    now = view.now
    purchased = to_iso(purchase.purchased_at)
    ends_at = purchase.access_ends_at
    temporary = purchase.kind is PurchaseKind.TEMPORARY
    return v1.Subscription(
        auto_resume_date=None,
        billing_issues_detected_at=None,
        expires_date=end_to_iso(lifetime_end(purchase.purchased_at) if ends_at is None else ends_at, now),
        grace_period_expires_date=None,
        original_purchase_date=purchased,
        purchase_date=purchased,
        refunded_at=_iso(purchase.refunded_at),
        unsubscribe_detected_at=None,
        is_sandbox=purchase.environment is Environment.SANDBOX,
        ownership_type=purchase.ownership,
        # The vendor's Android SDK drops a subscription of any type it does not know.
        period_type=PeriodType.PREPAID if is_prepaid(purchase) else PeriodType.NORMAL,
        # No store has vouched for what a temporary grant is for.
        store=PROMOTIONAL if temporary else purchase.store,
        store_transaction_id=None if temporary else _transaction_id(view.customer, purchase.store, purchase.id, reader),
        display_name=_display_name(view.catalog, purchase.product_id),
        price=_money(purchase.price),
        management_url=None,
        product_plan_identifier=_plan(purchase.store, purchase.product_id, reader.names_plans),
    )


def _subscription(
    view: CustomerView, subscription: Subscription, period: Period, id: str, names_plans: bool
) -> v1.Subscription:
    """`id` is the subscription's id, or what replaces it for this reader."""
    now, store = view.now, subscription.store
    periods, status = subscription.periods, subscription.status
    # The status is about the current period. Products of earlier periods get none of it.
    running, failed_at = period is periods[-1], status.billing_issue_at
    return v1.Subscription(
        auto_resume_date=_iso(status.pause.ends_at) if running and status.pause is not None else None,
        billing_issues_detected_at=_iso(failed_at) if running else None,
        expires_date=end_to_iso(period.access_ends_at, now),
        grace_period_expires_date=end_to_iso(status.grace_ends_at, now)
        if running and subscription.in_grace and status.grace_ends_at is not None
        else None,
        original_purchase_date=to_iso(periods[0].purchased_at),
        purchase_date=to_iso(period.purchased_at),
        refunded_at=_iso(period.refunded_at) if period.money_back else None,
        unsubscribe_detected_at=_iso(status.renewal_off_at) if running and not status.auto_renew else None,
        is_sandbox=subscription.environment is Environment.SANDBOX,
        ownership_type=subscription.ownership,
        # The vendor's Android SDK knows no promotional periods.
        period_type=PeriodType.NORMAL if period.period_type is PeriodType.PROMOTIONAL else period.period_type,
        store=store,
        store_transaction_id=period.id if store != TEST_STORE else _test_period_id(subscription, period, id),
        display_name=_display_name(view.catalog, period.product_id),
        price=_money(period.price),
        management_url=_URLS.get(store) if running and subscription.access_ends_at > now else None,
        product_plan_identifier=_plan(store, period.product_id, names_plans),
    )


def _test_period_id(subscription: Subscription, period: Period, id: str) -> str:
    """The token for the first period, as the SDKs know it; the test store numbers the others."""
    return id if period is subscription.periods[0] else id + period.id.removeprefix(subscription.id)


def _transaction_id(customer: Customer, store: str, id: str, reader: SubscriberAudience) -> str:
    hidden = reader.public and id != reader.token and id.startswith(store_of(store).receipt_ids)
    return disguised(customer.project_id, id) if hidden else id


def _display_name(catalog: Catalog, product_id: str) -> str | None:
    product = catalog.products.get(product_id) or catalog.find(product_id)
    return (product.display_name or None) if product is not None else None


# A price is almost always one of a few: the catalog's.
@lru_cache(maxsize=1024)
def _money(price: Price) -> v1.Money | None:
    return v1.Money(amount=price.amount, currency=price.currency) if price.known else None


def _product(store: str, product_id: str, names_plans: bool) -> str:
    return product_id if names_plans or store not in BASE_PLANS else without_plan(product_id)


def _plan(store: str, product_id: str, names_plans: bool) -> str | UnsetType:
    return UNSET if names_plans or store not in BASE_PLANS else product_id.partition(":")[2] or UNSET


def _entitlement(access: Access, now: Ms, names_plans: bool) -> event.Entitlement:
    shown = engine_render.entitlement(access, now)
    store, product_id = access.source.store, access.product_id
    if names_plans or store not in BASE_PLANS:
        return shown
    return structs.replace(
        shown,
        product_identifier=without_plan(product_id),
        product_plan_identifier=_plan(store, product_id, names_plans),
    )


def _non_subscriptions(view: CustomerView, reader: SubscriberAudience) -> dict[str, list[v1.NonSubscription]]:
    """In the order of purchase: the SDKs use the last one of a product."""
    customer = view.customer
    found: dict[str, list[v1.NonSubscription]] = {}
    for purchase in customer.purchases:
        if purchase.kind is PurchaseKind.ONE_TIME and not is_prepaid(purchase):
            id = _transaction_id(customer, purchase.store, purchase.id, reader)
            shown = _non_subscription(view.catalog, purchase, id)
            product_id = _product(purchase.store, purchase.product_id, reader.names_plans)
            found.setdefault(product_id, []).append(shown)
    return found


def disguised(project_id: str, token: str) -> str:
    """An id that replaces a token, with the same beginning. Whoever presents a token can restore its purchase, and
    anybody with an app's public key can read every subscriber, so the token itself is not shown to them."""
    return f"{token[: token.index('_')]}_{hashlib.sha256(f'{project_id} {token}'.encode()).hexdigest()[:32]}"


def _non_subscription(catalog: Catalog, purchase: Purchase, id: str) -> v1.NonSubscription:
    purchased = to_iso(purchase.purchased_at)
    return v1.NonSubscription(
        id=id,
        is_sandbox=purchase.environment is Environment.SANDBOX,
        purchase_date=purchased,
        original_purchase_date=purchased,
        store=purchase.store,
        store_transaction_id=id,
        display_name=_display_name(catalog, purchase.product_id),
        price=_money(purchase.price),
    )


def _management_url(customer: Customer, now: Ms) -> str | None:
    for subscription in reversed(customer.subscriptions):
        url = _URLS.get(subscription.store)
        if url is not None and subscription.access_ends_at > now:
            return url
    return None


def _first_purchase_at(customer: Customer) -> Ms | None:
    """Subscriptions and purchases are each sorted by start."""
    first = customer.subscriptions[0].started_at if customer.subscriptions else None
    if customer.purchases and (first is None or customer.purchases[0].purchased_at < first):
        return customer.purchases[0].purchased_at
    return first


def _iso(at: Ms | None) -> str | None:
    return to_iso(at) if at is not None else None
