"""An event as it is delivered and listed."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import UNSET, UnsetType

from latchkey.domain.access.entitlements import Access, active
from latchkey.domain.catalog import Catalog, ProductKind
from latchkey.domain.customers.customer import Customer, visible
from latchkey.domain.events import customer_event
from latchkey.domain.instants import Ms, end_to_iso, to_iso
from latchkey.domain.money.amounts import MICROS, Price
from latchkey.domain.money.fees import takehome
from latchkey.domain.purchases.purchase import Terms, usd_micros
from latchkey.wire import event as wire_event

T = TypeVar("T")
_NO_TERMS = Terms()


def entitlement(access: Access, now: Ms) -> wire_event.Entitlement:
    return wire_event.Entitlement(
        expires_date=end_to_iso(access.ends_at, now) if access.ends_at is not None else None,
        grace_period_expires_date=end_to_iso(access.grace_ends_at, now) if access.grace_ends_at is not None else None,
        product_identifier=access.product_id,
        purchase_date=to_iso(access.purchased_at),
    )


def event(
    happened: customer_event.Event,
    customer: Customer,
    catalog: Catalog,
    now: Ms,
    sequence: int,
    merged: Sequence[tuple[str, int]] = (),
) -> wire_event.Event:
    """The event with the customer's current entitlements, which a receiver copies. `merged` lists the customers that it
    merged, each with the sequence of its last event."""
    if happened.type is customer_event.EventType.REFUND or customer.test_clock_id is not None:
        # A store's clock may be ahead of ours. Nothing else is sent when the moment comes, so the event must not carry
        # what is over by then: what a refund takes away, or the product before a change at the period's end.
        now = max(now, happened.at)
    held = active(customer, catalog, now)
    attributes = visible(customer)
    price, terms = _paid(happened, catalog)
    usd = usd_micros(price, terms) if price is not None else 0
    rate = terms.rate if price is not None and price.micros else None
    own = wire_event.OWN_FIELDS.get(happened.type, ())

    def field(name: str, value: T | None) -> T | UnsetType | None:
        return UNSET if value is None and name not in own else value

    return wire_event.Event(
        id=happened.id,
        type=happened.type,
        app_user_id=customer.app_user_id,
        original_app_user_id=customer.original_app_user_id,
        aliases=[alias for alias in customer.aliases if alias != customer.app_user_id],
        product_id=happened.product_id,
        period_type=happened.period_type,
        purchased_at_ms=happened.purchased_at,
        expiration_at_ms=happened.expiration_at,
        original_purchase_date_ms=happened.original_purchase_at,
        event_timestamp_ms=happened.at,
        environment=happened.environment,
        store=happened.store,
        entitlements={id: entitlement(access, now) for id, access in held.items()},
        subscriber_attributes={
            name: wire_event.Attribute(value=one.value, updated_at_ms=one.updated_at)
            for name, one in attributes.items()
        }
        if attributes
        else UNSET,
        price=usd / MICROS if usd else 0,
        price_in_purchased_currency=price.amount if price is not None else 0,
        currency=price.currency if price is not None else happened.currency,
        takehome_percentage=takehome(happened.store, terms.commission, terms.tax),
        new_product_id=field("new_product_id", happened.new_product_id),
        is_trial_conversion=field("is_trial_conversion", happened.is_trial_conversion),
        cancellation_reason=field("cancellation_reason", happened.cancellation_reason),
        expiration_reason=field("expiration_reason", happened.expiration_reason),
        grace_period_expires_at_ms=field("grace_period_expires_at_ms", happened.grace_period_expires_at),
        auto_resume_at_ms=field("auto_resume_at_ms", happened.auto_resume_at),
        transferred_from=list(happened.transferred_from) if happened.transferred_from is not None else UNSET,
        transferred_to=list(happened.transferred_to) if happened.transferred_to is not None else UNSET,
        amount=field("amount", happened.amount),
        transaction_type=field("transaction_type", happened.transaction_type),
        experiment_id=field("experiment_id", happened.experiment_id),
        variant_id=field("variant_id", happened.variant_id),
        app_id=_or_absent(happened.app_id),
        transaction_id=_or_absent(happened.transaction_id),
        original_transaction_id=_or_absent(happened.original_transaction_id),
        entitlement_ids=_granted(happened, catalog),
        renewal_number=_or_absent(happened.renewal_number),
        is_family_share=_or_absent(happened.is_family_share),
        country_code=_or_absent(happened.country),
        presented_offering_id=_or_absent(happened.offering),
        offer_code=_or_absent(happened.offer_code),
        tax_percentage=_or_absent(terms.tax),
        commission_percentage=_or_absent(terms.commission),
        exchange_rate=wire_event.ExchangeRate(usd=rate.usd, date=rate.day) if rate is not None else UNSET,
        merged_sequences=[wire_event.MergedSequence(app_user_id=id, sequence=number) for id, number in merged]
        if happened.joined is not None
        else UNSET,
        sequence=sequence,
    )


def _paid(happened: customer_event.Event, catalog: Catalog) -> tuple[Price | None, Terms]:
    """The price and its terms; no price where no money moved. The catalog's price if the store does not tell it."""
    price, terms = happened.price, happened.terms or _NO_TERMS
    if price is None or price.known:
        return price, terms
    product_id = happened.new_product_id or happened.product_id
    product = catalog.find(product_id) if product_id is not None else None
    if product is None:
        return None, terms
    at, subscription = happened.purchased_at or happened.at, product.kind is ProductKind.SUBSCRIPTION
    store, country = happened.store or "", happened.country
    return product.price, catalog.tariff.terms(product.price, store, country, at, subscription=subscription)


def _granted(happened: customer_event.Event, catalog: Catalog) -> list[str] | UnsetType:
    """What the purchase of the event grants, whatever else the customer owns."""
    if happened.entitlement_id is not None:
        return [happened.entitlement_id]
    product_id = happened.new_product_id or happened.product_id
    return list(catalog.grants(product_id)) if product_id is not None else UNSET


def _or_absent(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value
