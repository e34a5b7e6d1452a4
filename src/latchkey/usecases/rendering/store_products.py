"""A product of the catalog as `/rcbilling/v1` shows it to an app."""

from __future__ import annotations

from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.instants import Duration, format_duration
from latchkey.domain.money import Price
from latchkey.wire import store_products as wire

# The SDKs know this id: a purchase of this option is a purchase of the product without an offer.
BASE_OPTION = "base_option"


def product_details(catalog: Catalog, product: Product, identifier: str) -> wire.ProductDetails:
    """`identifier` is the id that the app asked for; it may have a base plan which the catalog does not list."""
    title, price_id = product.display_name or product.id, f"price_{product.id}"
    if product.kind is ProductKind.SUBSCRIPTION and product.duration is not None:
        subscription = wire.SubscriptionOption(
            id=BASE_OPTION,
            price_id=price_id,
            base=_phase(product.duration, product.price),
            trial=_phase(product.trial, None) if product.trial is not None else None,
        )
        return wire.SubscriptionDetails(
            identifier=identifier,
            title=title,
            default_purchase_option_id=BASE_OPTION,
            purchase_options={BASE_OPTION: subscription},
        )
    one_time = wire.OneTimeOption(id=BASE_OPTION, price_id=price_id, base_price=_price(product.price))
    details = wire.ConsumableDetails if catalog.consumable(product.id) else wire.NonConsumableDetails
    return details(
        identifier=identifier,
        title=title,
        default_purchase_option_id=BASE_OPTION,
        purchase_options={BASE_OPTION: one_time},
    )


def _phase(duration: Duration, price: Price | None) -> wire.Phase:
    return wire.Phase(
        period_duration=format_duration(duration),
        price=_price(price) if price is not None else None,
        cycle_count=1,
    )


def _price(price: Price) -> wire.PriceDetails:
    return wire.PriceDetails(amount_micros=price.micros, currency=price.currency)
