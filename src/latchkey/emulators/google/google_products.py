"""What is for sale, in Google's own fields: subscriptions with base plans, their offers, one-time products."""

from collections.abc import Mapping
from typing import Any

from latchkey.domain.instants import Duration
from latchkey.emulators.google.google_books import GoogleBooks, GoogleProduct
from latchkey.emulators.google.google_resources import REGION, money


def subscriptions(books: GoogleBooks, package_name: str, *, archived: bool) -> list[dict[str, Any]]:
    plans: dict[str, list[GoogleProduct]] = {}
    for product in books.products.values():
        if product.plan is not None:
            plans.setdefault(product.id, []).append(product)
    found = []
    for id, sold in plans.items():
        shown: dict[str, Any] = {"packageName": package_name, "productId": id, "listings": _listings(id)}
        shown["basePlans"] = [_base_plan(product) for product in sold]
        if not any(product.on_sale for product in sold):
            shown["archived"] = True
        if archived or "archived" not in shown:
            found.append(shown)
    return found


def offers(books: GoogleBooks) -> list[dict[str, Any]]:
    found = []
    for product in books.products.values():
        if product.trial is not None:
            found.append(_offer(product, "free-trial", product.trial, 1, {"free": {}}))
        if product.intro is not None:
            price = {"price": money(product.intro.price)}
            found.append(_offer(product, "intro", product.intro.duration, product.intro.periods, price))
    return found


def one_time_products(books: GoogleBooks) -> list[dict[str, Any]]:
    return [
        {
            "productId": product.id,
            "listings": _listings(product.id),
            "purchaseOptions": [
                {
                    "purchaseOptionId": "buy",
                    "state": _state(product),
                    "buyOption": {"legacyCompatible": True},
                    "regionalPricingAndAvailabilityConfigs": _regions(product, availability="AVAILABLE"),
                }
            ],
        }
        for product in books.products.values()
        if product.plan is None
    ]


def _base_plan(product: GoogleProduct) -> dict[str, Any]:
    kind = "prepaidBasePlanType" if product.prepaid else "autoRenewingBasePlanType"
    return {
        "basePlanId": product.plan,
        "state": _state(product),
        "regionalConfigs": _regions(product, newSubscriberAvailability=True),
        kind: {"billingPeriodDuration": str(product.period)},
    }


def _offer(product: GoogleProduct, id: str, length: Duration, periods: int, terms: Mapping[str, Any]) -> dict[str, Any]:
    phase = {"recurrenceCount": periods, "duration": str(length), "regionalConfigs": [{"regionCode": REGION, **terms}]}
    names = {"productId": product.id, "basePlanId": product.plan, "offerId": id}
    return {**names, "state": "ACTIVE", "phases": [phase]}


def _regions(product: GoogleProduct, **more: Any) -> list[dict[str, Any]]:
    prices = {REGION: product.price, **product.elsewhere}
    return [{"regionCode": region, "price": money(price), **more} for region, price in prices.items()]


def _state(product: GoogleProduct) -> str:
    return "ACTIVE" if product.on_sale else "INACTIVE"


def _listings(id: str) -> list[dict[str, str]]:
    return [{"languageCode": "en-US", "title": id}]
