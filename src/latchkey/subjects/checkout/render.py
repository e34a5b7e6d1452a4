"""A checkout and the products as `/rcbilling/v1` shows them to the web SDK."""

from typing import Any, Literal

from msgspec import UNSET

from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.instants import Duration, format_duration, to_iso
from latchkey.domain.money.amounts import Price
from latchkey.stores.selling import CheckoutState, HostedPage, PaymentForm, SalePage
from latchkey.subjects.checkout import wire
from latchkey.subjects.checkout.usecases.steps import CheckoutProgress

_STATUS: dict[CheckoutState, Literal["started", "in_progress", "succeeded", "failed"]] = {
    CheckoutState.OPEN: "started",
    CheckoutState.PENDING: "in_progress",
    CheckoutState.PAID: "succeeded",
    CheckoutState.FAILED: "failed",
    CheckoutState.EXPIRED: "failed",
}
_FAILED = wire.CheckoutError(code=3, message="The payment failed.")
_EXPIRED = wire.CheckoutError(code=4, message="The checkout is over, and nothing was paid.")


def started(id: str, page: SalePage) -> wire.StartedCheckout:
    return wire.StartedCheckout(
        operation_session_id=id,
        gateway_params=gateway_params(page) if isinstance(page, PaymentForm) else wire.GatewayParams(),
        stripe_billing_params=_embedded(page) if isinstance(page, HostedPage) else None,
    )


def gateway_params(form: PaymentForm) -> wire.GatewayParams:
    return wire.GatewayParams(
        stripe_account_id=form.account.account_id,
        publishable_api_key=form.account.publishable_key,
        elements_configuration=_elements(form),
    )


def pricing(id: str, form: PaymentForm) -> wire.CheckoutPricing:
    return wire.CheckoutPricing(
        operation_session_id=id,
        currency=form.total.currency,
        total_amount_in_micros=form.total.micros,
        total_excluding_tax_in_micros=form.total.micros,
        gateway_params=wire.GatewayParams(elements_configuration=_elements(form)),
    )


def status(progress: CheckoutProgress) -> wire.CheckoutStatus:
    state, checkout = progress.state, progress.checkout
    if state is CheckoutState.PAID:
        assert checkout.purchased_at is not None
        operation = wire.CheckoutOperation(
            status="succeeded",
            is_expired=False,
            store_transaction_identifier=checkout.transaction_id or UNSET,
            product_identifier=checkout.product_id,
            purchase_date=to_iso(checkout.purchased_at),
        )
        return wire.CheckoutStatus(operation=operation)
    error = _EXPIRED if progress.expired else _FAILED if state is CheckoutState.FAILED else None
    operation = wire.CheckoutOperation(status=_STATUS[state], is_expired=progress.expired, error=error)
    return wire.CheckoutStatus(operation=operation)


def _elements(form: PaymentForm) -> wire.ElementsConfiguration:
    return wire.ElementsConfiguration(
        mode=form.mode,
        payment_method_types=list(form.methods),
        amount=form.amount if form.mode == "payment" else UNSET,
        currency=form.currency,
    )


def _embedded(page: HostedPage) -> wire.StripeBillingParams:
    return wire.StripeBillingParams(
        client_secret=page.client_secret,
        environment="sandbox" if page.account.sandbox else "production",
        publishable_api_key=page.account.publishable_key,
        stripe_account_id=page.account.account_id,
    )


# The SDKs know this id: a purchase of this option is a purchase of the product without an offer.
BASE_OPTION = "base_option"


def product_details(catalog: Catalog, product: Product, identifier: str) -> wire.ProductDetails:
    """`identifier` is the id that the app asked for; it may have a base plan which the catalog does not list."""
    named: dict[str, Any] = {"identifier": identifier, "title": product.display_name or product.id}
    named["default_purchase_option_id"] = BASE_OPTION
    price_id = f"price_{product.id}"
    if product.kind is ProductKind.SUBSCRIPTION and product.duration is not None:
        subscription = wire.SubscriptionOption(
            id=BASE_OPTION,
            price_id=price_id,
            base=_phase(product.duration, product.price),
            trial=_phase(product.trial, None) if product.trial is not None else None,
        )
        return wire.SubscriptionDetails(**named, purchase_options={BASE_OPTION: subscription})
    one_time = wire.OneTimeOption(id=BASE_OPTION, price_id=price_id, base_price=_price(product.price))
    details = wire.ConsumableDetails if catalog.consumable(product.id) else wire.NonConsumableDetails
    return details(**named, purchase_options={BASE_OPTION: one_time})


def _phase(duration: Duration, price: Price | None) -> wire.Phase:
    charged = _price(price) if price is not None else None
    return wire.Phase(period_duration=format_duration(duration), price=charged, cycle_count=1)


def _price(price: Price) -> wire.PriceDetails:
    return wire.PriceDetails(amount_micros=price.micros, currency=price.currency)
