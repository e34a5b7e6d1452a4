"""Sells on web pages: Stripe's embedded page for apps in Stripe, a form of the SDK for web billing.

The amount is always that of Stripe's price. The user's id is written to everything that is created, so that Stripe's
events lead to the customer. No existing customer of Stripe is ever used: the page only claims who its buyer is.
"""

from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from latchkey.domain.money.amounts import Price
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from latchkey.stores.http import in_path
from latchkey.stores.selling import (
    BegunCheckout,
    CheckoutOrder,
    CheckoutState,
    Confirmation,
    HostedPage,
    LinkedPage,
    NotPayable,
    PaymentForm,
    ProviderAccount,
    ReturnAddresses,
    Sale,
)
from latchkey.stores.stripe.amounts import price_of
from latchkey.stores.stripe.api import StripeApi, UnknownObject, decoded
from latchkey.stores.stripe.resources import STATES, CheckoutSession, Intent, NamedObject

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


class Recurring(msgspec.Struct):
    interval: str = ""
    interval_count: int = 1
    usage_type: str = "licensed"


class SoldProduct(msgspec.Struct):
    id: str
    name: str = ""
    active: bool = True
    default_price: str | None = None


class SoldPrice(msgspec.Struct):
    id: str
    active: bool
    currency: str
    type: str
    product: SoldProduct
    nickname: str | None = None
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
    def state(self) -> CheckoutState:
        return STATES.get(self.status, CheckoutState.PAID)

    @property
    def client_secret(self) -> str | None:
        first = self.latest_invoice
        secret = first.confirmation_secret if isinstance(first, FirstInvoice) else None
        return secret.client_secret if secret is not None else None


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


def session_of(
    order: CheckoutOrder, price: SoldPrice, metadata: dict[str, str], back: ReturnAddresses | None = None
) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "mode": "subscription" if order.subscription else "payment",
        "line_items": [{"price": price.id, "quantity": 1}],
        "metadata": metadata,
        "locale": locale_of(order.locale),
    }
    if back is not None:
        asked |= {"ui_mode": "hosted_page", "success_url": back.paid, "cancel_url": back.given_up}
    else:
        # There is no page to go to: the SDK goes on when the embedded page is done.
        asked |= {"ui_mode": "embedded_page", "redirect_on_completion": "never"}
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
    ends = {"end_behavior": {"missing_payment_method": "cancel"}}
    return {"trial_period_days": order.trial_days, "trial_settings": ends}


T = TypeVar("T")

_FIRST_PAYMENT = ["latest_invoice.confirmation_secret"]


class Selling:
    def __init__(self, api: StripeApi, *, hosted: bool) -> None:
        self.api = api
        # Whether buyers pay on Stripe's own page.
        self._hosted = hosted
        self._accounts: dict[tuple[str, int], str] = {}

    async def payment_form(self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None) -> PaymentForm:
        if self._hosted:
            raise NotPayable("Apps in Stripe sell on Stripe's embedded page, not in a form.")
        account = await self._account(app, account_id)
        price = await self._price(app, order, shown=True)
        trial = order.trial_days is not None
        return PaymentForm(
            account=account,
            mode="setup" if trial else "payment",
            methods=METHODS,
            amount=price.unit_amount or 0,
            currency=price.currency.lower(),
            total=Price(0, price.price.currency) if trial else price.price,
        )

    async def begin_sale(
        self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None, back: ReturnAddresses | None = None
    ) -> BegunCheckout:
        if back is None and not self._hosted:
            return BegunCheckout(page=await self.payment_form(app, order, account_id), handle=None, expires_at=None)
        account = await self._account(app, account_id) if back is None else None
        price = await self._price(app, order, shown=back is not None)
        asked = session_of(order, price, _whose(app, order), back)
        made = await self._post(app, "checkout/sessions", CheckoutSession, f"{order.key}-session", asked)
        ends = made.expires_at * 1000 if made.expires_at is not None else None
        page: HostedPage | LinkedPage
        if account is not None and made.client_secret is not None:
            page = HostedPage(account=account, client_secret=made.client_secret)
        elif account is None and made.url is not None:
            page = LinkedPage(made.url)
        else:
            raise StoreDown("Stripe answered with a checkout session without a page.")
        return BegunCheckout(page=page, handle=made.id, expires_at=ends)

    async def confirm_sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str | None) -> Confirmation:
        if self._hosted:
            raise NotPayable("Stripe's embedded page completes the payment itself.")
        payment = await (self._payment(app, handle) if handle is not None else self._new_payment(app, order))
        if payment.state is not CheckoutState.OPEN or payment.client_secret is None:
            raise NotPayable("The payment is over.")
        # Stripe's events that we listen to name no such payment, and nobody but us creates the subscription of a trial.
        told = payment.id.startswith("sub_")
        return Confirmation(handle=payment.id, client_secret=payment.client_secret, told=told)

    async def sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str) -> Sale:
        if handle.startswith("cs_"):
            session = await self.api.get(app, f"checkout/sessions/{in_path(handle)}", CheckoutSession)
            email = session.customer_details.email if session.customer_details is not None else None
            return Sale(standing=session.state, receipt=handle, email=email)
        payment = await self._payment(app, handle)
        if handle.startswith("seti_") and payment.state is CheckoutState.PAID:
            assert isinstance(payment, Intent)
            return Sale(standing=CheckoutState.PAID, receipt=await self._trial(app, order, payment))
        # The id of a payment is no receipt: V1 shows it.
        secret = payment.client_secret if handle.startswith("pi_") else None
        return Sale(standing=payment.state, receipt=secret or handle)

    async def _new_payment(self, app: ConnectedApp, order: CheckoutOrder) -> OpenSubscription | Intent:
        price = await self._price(app, order, shown=True)
        whose = _whose(app, order)
        buyer: dict[str, Any] = {"metadata": whose} | ({"email": order.email} if order.email is not None else {})
        # The same key with another email is an error at Stripe.
        named = sha256((order.email or "").encode()).hexdigest()[:16]
        customer = (await self._post(app, "customers", NamedObject, f"{order.key}-customer-{named}", buyer)).id
        of_customer: dict[str, Any] = {"customer": customer, "metadata": whose}
        key = f"{order.key}-{customer}"
        if not order.subscription:
            asked = {
                **of_customer,
                "amount": price.unit_amount,
                "currency": price.currency,
                "payment_method_types": [*METHODS],
                "setup_future_usage": "off_session",
                "metadata": {**whose, PRODUCT_KEY: price.sold_as},
            }
            return await self._post(app, "payment_intents", Intent, key, asked)
        if order.trial_days is not None:
            # The trial begins when there is a way to pay: a subscription that is created first would be on trial
            # without one.
            asked = {**of_customer, "payment_method_types": [*METHODS], "usage": "off_session"}
            return await self._post(app, "setup_intents", Intent, key, asked)
        asked = {
            **of_customer,
            "items": [{"price": price.id}],
            "payment_behavior": "default_incomplete",
            "payment_settings": {"payment_method_types": [*METHODS], "save_default_payment_method": "on_subscription"},
            "expand": _FIRST_PAYMENT,
        }
        return await self._post(app, "subscriptions", OpenSubscription, key, asked)

    async def _trial(self, app: ConnectedApp, order: CheckoutOrder, saved: Intent) -> str:
        """The subscription of a saved way to pay; the same one each time."""
        price = await self._price(app, order, shown=True)
        asked = {
            "customer": saved.customer,
            "items": [{"price": price.id}],
            "default_payment_method": saved.payment_method,
            "metadata": _whose(app, order),
            **trial_of(order),
        }
        return (await self._post(app, "subscriptions", OpenSubscription, f"{order.key}-trial", asked)).id

    async def _payment(self, app: ConnectedApp, handle: str) -> OpenSubscription | Intent:
        if handle.startswith("sub_"):
            return await self.api.get(app, f"subscriptions/{in_path(handle)}", OpenSubscription, expand=_FIRST_PAYMENT)
        kind = "setup_intents" if handle.startswith("seti_") else "payment_intents"
        return await self.api.get(app, f"{kind}/{in_path(handle)}", Intent)

    async def _price(self, app: ConnectedApp, order: CheckoutOrder, *, shown: bool) -> SoldPrice:
        product, price = parts_of(order.product_id)
        try:
            if price is None:
                price = (await self.api.get(app, f"products/{in_path(product)}", SoldProduct)).default_price
                if price is None:
                    raise ActionRefused(f"The product {product} has no default price at Stripe.")
            found = await self.api.get(app, f"prices/{in_path(price)}", SoldPrice, expand=["product"])
        except UnknownObject:
            raise ActionRefused(f"Stripe has no product or price for {order.product_id}.") from None
        check(order, found, shown=shown)
        return found

    async def _account(self, app: ConnectedApp, account_id: str | None) -> ProviderAccount:
        credentials = app.credentials
        if credentials.publishable_key is None:
            raise ActionRefused("The app has no publishable_key. A page needs one to take a payment.")
        known = account_id or self._accounts.get((app.app_id, app.version))
        if known is None:
            try:
                known = (await self.api.get(app, "account", NamedObject)).id
            except CredentialsRefused:
                raise ActionRefused(
                    "The api_key may not read the account. Give the app its stripe_account_id, or the key that right."
                ) from None
            self._accounts[app.app_id, app.version] = known
        return ProviderAccount(
            account_id=known, publishable_key=credentials.publishable_key, sandbox=not credentials.livemode
        )

    async def _post(self, app: ConnectedApp, path: str, type: type[T], key: str, given: dict[str, Any]) -> T:
        return decoded(await self.api.act(app, "post", path, idempotency_key=key, **given), type)


def _whose(app: ConnectedApp, order: CheckoutOrder) -> dict[str, str]:
    whose = {app.credentials.user_id_metadata_key: order.app_user_id, SELLER_KEY: app.app_id}
    if order.offering is not None:
        whose |= {OFFERING_KEY: order.offering, OFFERED_KEY: order.product_id}
    return whose
