"""Sells on web pages: Stripe's embedded page for apps in Stripe, a form of the SDK for web billing.

The amount is always that of Stripe's price. The user's id is written to everything that is created, so that Stripe's
events lead to the customer. No existing customer of Stripe is ever used: the page only claims who its buyer is.
"""

from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from latchkey.domain.money.amounts import Price
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from latchkey.stores.selling import (
    BegunCheckout,
    CheckoutOrder,
    CheckoutState,
    Confirmation,
    HostedPage,
    NotPayable,
    PaymentForm,
    ProviderAccount,
    Sale,
)
from latchkey.stores.stripe.api import StripeApi, UnknownObject, decoded
from latchkey.stores.stripe.sold import (
    METHODS,
    OFFERED_KEY,
    OFFERING_KEY,
    PRODUCT_KEY,
    SELLER_KEY,
    OpenIntent,
    OpenSession,
    OpenSubscription,
    SoldPrice,
    SoldProduct,
    check,
    parts_of,
    session_of,
    trial_of,
)

T = TypeVar("T")

_FIRST_PAYMENT = ["latest_invoice.confirmation_secret"]


class _Account(msgspec.Struct):
    id: str


class _Customer(msgspec.Struct):
    id: str


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

    async def begin_sale(self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None) -> BegunCheckout:
        if not self._hosted:
            return BegunCheckout(page=await self.payment_form(app, order, account_id), handle=None, expires_at=None)
        account = await self._account(app, account_id)
        price = await self._price(app, order, shown=False)
        made = await self._post(
            app, "checkout/sessions", OpenSession, f"{order.key}-session", session_of(order, price, _whose(app, order))
        )
        if made.client_secret is None:
            raise StoreDown("Stripe answered with a checkout session without a client secret.")
        return BegunCheckout(
            page=HostedPage(account=account, client_secret=made.client_secret),
            handle=made.id,
            expires_at=made.expires_at * 1000 if made.expires_at is not None else None,
        )

    async def confirm_sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str | None) -> Confirmation:
        if self._hosted:
            raise NotPayable("Stripe's embedded page completes the payment itself.")
        payment = await (self._payment(app, handle) if handle is not None else self._new_payment(app, order))
        if payment.standing is not CheckoutState.OPEN or payment.client_secret is None:
            raise NotPayable("The payment is over.")
        # Stripe's events that we listen to name no such payment, and nobody but us creates the subscription of a trial.
        told = payment.id.startswith("sub_")
        return Confirmation(handle=payment.id, client_secret=payment.client_secret, told=told)

    async def sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str) -> Sale:
        if handle.startswith("cs_"):
            session = await self.api.get(app, f"checkout/sessions/{handle}", OpenSession)
            return Sale(standing=session.standing, receipt=handle)
        payment = await self._payment(app, handle)
        if handle.startswith("seti_") and payment.standing is CheckoutState.PAID:
            assert isinstance(payment, OpenIntent)
            return Sale(standing=CheckoutState.PAID, receipt=await self._trial(app, order, payment))
        # The id of a payment is no receipt: V1 shows it.
        secret = payment.client_secret if handle.startswith("pi_") else None
        return Sale(standing=payment.standing, receipt=secret or handle)

    async def _new_payment(self, app: ConnectedApp, order: CheckoutOrder) -> OpenSubscription | OpenIntent:
        price = await self._price(app, order, shown=True)
        whose = _whose(app, order)
        buyer: dict[str, Any] = {"metadata": whose} | ({"email": order.email} if order.email is not None else {})
        # The same key with another email is an error at Stripe.
        named = sha256((order.email or "").encode()).hexdigest()[:16]
        customer = (await self._post(app, "customers", _Customer, f"{order.key}-customer-{named}", buyer)).id
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
            return await self._post(app, "payment_intents", OpenIntent, key, asked)
        if order.trial_days is not None:
            # The trial begins when there is a way to pay: a subscription that is created first would be on trial
            # without one.
            asked = {**of_customer, "payment_method_types": [*METHODS], "usage": "off_session"}
            return await self._post(app, "setup_intents", OpenIntent, key, asked)
        asked = {
            **of_customer,
            "items": [{"price": price.id}],
            "payment_behavior": "default_incomplete",
            "payment_settings": {
                "payment_method_types": [*METHODS],
                "save_default_payment_method": "on_subscription",
            },
            "expand": _FIRST_PAYMENT,
        }
        return await self._post(app, "subscriptions", OpenSubscription, key, asked)

    async def _trial(self, app: ConnectedApp, order: CheckoutOrder, saved: OpenIntent) -> str:
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

    async def _payment(self, app: ConnectedApp, handle: str) -> OpenSubscription | OpenIntent:
        if handle.startswith("sub_"):
            return await self.api.get(app, f"subscriptions/{handle}", OpenSubscription, expand=_FIRST_PAYMENT)
        kind = "setup_intents" if handle.startswith("seti_") else "payment_intents"
        return await self.api.get(app, f"{kind}/{handle}", OpenIntent)

    async def _price(self, app: ConnectedApp, order: CheckoutOrder, *, shown: bool) -> SoldPrice:
        product, price = parts_of(order.product_id)
        try:
            if price is None:
                price = (await self.api.get(app, f"products/{_safe(product)}", SoldProduct)).default_price
                if price is None:
                    raise ActionRefused(f"The product {product} has no default price at Stripe.")
            found = await self.api.get(app, f"prices/{_safe(price)}", SoldPrice, expand=["product"])
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
                known = (await self.api.get(app, "account", _Account)).id
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


def _safe(id: str) -> str:
    """The id of a product in the catalog, as part of an address."""
    return quote(id, safe="")
