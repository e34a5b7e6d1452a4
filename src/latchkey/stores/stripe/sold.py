"""What Stripe is told of a sale on a web page, and what may be sold at all. Pure."""

from typing import Any

import msgspec

from latchkey.domain.money.amounts import Price
from latchkey.stores.errors import ActionRefused
from latchkey.stores.selling import CheckoutOrder, CheckoutState
from latchkey.stores.stripe.amounts import price_of

# In the metadata of a payment without a checkout session: what was bought, as `product:price`.
PRODUCT_KEY = "latchkey_product"
# In the metadata of whatever was sold on a web page: the id of the app that sold it. One account may be connected to
# several apps, and Stripe tells all of them of every purchase.
SELLER_KEY = "latchkey_app"
# In the same metadata: the offering that the page showed, and the product that was sold from it. A subscription keeps
# its metadata when its product changes.
OFFERING_KEY = "latchkey_offering"
OFFERED_KEY = "latchkey_offered_product"
METHODS = ("card",)

_LANGUAGES = "bg cs da de el en es et fi fil fr hr hu id it ja ko lt lv ms mt nb nl pl pt ro ru sk sl sv th tr vi zh"
_LOCALES = frozenset([*_LANGUAGES.split(), "en-GB", "es-419", "fr-CA", "pt-BR", "zh-HK", "zh-TW"])
_STANDING = {
    # A checkout session.
    "open": CheckoutState.OPEN,
    "expired": CheckoutState.EXPIRED,
    # A subscription. Whatever else it is called was paid once.
    "incomplete": CheckoutState.OPEN,
    "incomplete_expired": CheckoutState.FAILED,
    "canceled": CheckoutState.FAILED,
    # A payment intent or a setup intent.
    "requires_payment_method": CheckoutState.OPEN,
    "requires_confirmation": CheckoutState.OPEN,
    "requires_action": CheckoutState.OPEN,
    "requires_capture": CheckoutState.PENDING,
    "processing": CheckoutState.PENDING,
}


class Recurring(msgspec.Struct):
    usage_type: str = "licensed"


class SoldProduct(msgspec.Struct):
    id: str
    active: bool = True
    default_price: str | None = None


class SoldPrice(msgspec.Struct):
    id: str
    active: bool
    currency: str
    type: str
    product: SoldProduct
    unit_amount: int | None = None
    billing_scheme: str = "per_unit"
    custom_unit_amount: Any = None
    recurring: Recurring | None = None

    @property
    def price(self) -> Price:
        return price_of(self.unit_amount or 0, self.currency)

    @property
    def sold_as(self) -> str:
        return f"{self.product.id}:{self.id}"


class OpenSession(msgspec.Struct):
    """A checkout session before and after it is paid."""

    id: str
    livemode: bool
    status: str | None = None
    payment_status: str = ""
    client_secret: str | None = None
    expires_at: int | None = None

    @property
    def standing(self) -> CheckoutState:
        if self.status == "complete":
            return (
                CheckoutState.PAID if self.payment_status in ("paid", "no_payment_required") else CheckoutState.PENDING
            )
        return _STANDING.get(self.status or "", CheckoutState.OPEN)


class ConfirmationSecret(msgspec.Struct):
    client_secret: str


class FirstInvoice(msgspec.Struct):
    confirmation_secret: ConfirmationSecret | None = None


class OpenSubscription(msgspec.Struct):
    id: str
    status: str
    # Its id, where it is not expanded.
    latest_invoice: FirstInvoice | str | None = None

    @property
    def standing(self) -> CheckoutState:
        return _STANDING.get(self.status, CheckoutState.PAID)

    @property
    def client_secret(self) -> str | None:
        first = self.latest_invoice
        secret = first.confirmation_secret if isinstance(first, FirstInvoice) else None
        return secret.client_secret if secret is not None else None


class OpenIntent(msgspec.Struct):
    """A payment intent or a setup intent."""

    id: str
    status: str
    client_secret: str | None = None
    customer: str | None = None
    payment_method: str | None = None

    @property
    def standing(self) -> CheckoutState:
        return CheckoutState.PAID if self.status == "succeeded" else _STANDING.get(self.status, CheckoutState.OPEN)


def parts_of(product_id: str) -> tuple[str, str | None]:
    """Stripe's product, and its price if the catalog names one."""
    product, _, price = product_id.partition(":")
    return product, price or None


def check(order: CheckoutOrder, price: SoldPrice, *, shown: bool) -> None:
    """Refuses what would be sold differently from what the catalog says. `shown`: the page shows the catalog's price.

    A price that the buyer chooses, or that depends on the use, is refused: access would cost what the buyer likes."""
    product, _ = parts_of(order.product_id)
    if price.product.id != product:
        raise ActionRefused(f"The price {price.id} does not belong to the product {product}.")
    if not price.active or not price.product.active:
        raise ActionRefused(f"{price.sold_as} is archived at Stripe.")
    fixed = price.billing_scheme == "per_unit" and price.unit_amount is not None and price.custom_unit_amount is None
    metered = price.recurring is not None and price.recurring.usage_type != "licensed"
    if not fixed or metered:
        raise ActionRefused(f"The price {price.id} is not one fixed amount.")
    if (price.type == "recurring") != order.subscription:
        kinds = {True: "a subscription", False: "a one-time purchase"}
        raise ActionRefused(f"{price.sold_as} is {kinds[price.type == 'recurring']} at Stripe and not in the catalog.")
    if shown and price.price != order.price:
        raise ActionRefused(
            f"The catalog's price of {order.product_id} is not Stripe's: the page would show another one than is paid."
        )
    if shown and not price.unit_amount:
        raise ActionRefused(f"{price.sold_as} costs nothing, so there is nothing to pay in a form.")


def locale_of(locale: str | None) -> str:
    name = (locale or "").replace("_", "-")
    language = name.partition("-")[0]
    return name if name in _LOCALES else language if language in _LOCALES else "auto"


def session_of(order: CheckoutOrder, price: SoldPrice, metadata: dict[str, str]) -> dict[str, Any]:
    """A checkout session for Stripe's embedded page."""
    asked: dict[str, Any] = {
        "mode": "subscription" if order.subscription else "payment",
        "ui_mode": "embedded_page",
        # There is no page to go to: the SDK goes on when the embedded page is done.
        "redirect_on_completion": "never",
        "line_items": [{"price": price.id, "quantity": 1}],
        "metadata": metadata,
        "locale": locale_of(order.locale),
    }
    if order.email is not None:
        asked["customer_email"] = order.email
    if order.subscription:
        asked["subscription_data"] = {"metadata": metadata, **trial_of(order)}
    else:
        asked["payment_intent_data"] = {"metadata": metadata}
        asked["customer_creation"] = "always"
    return asked


def trial_of(order: CheckoutOrder) -> dict[str, Any]:
    """A trial whose way to pay is lost ends with it, so that nobody has access without a payment."""
    if order.trial_days is None:
        return {}
    return {
        "trial_period_days": order.trial_days,
        "trial_settings": {"end_behavior": {"missing_payment_method": "cancel"}},
    }
