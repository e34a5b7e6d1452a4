"""Control API requests of the Stripe emulator: products, sales and acts in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from latchkey.domain.instants import SECOND, add
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.control_requests import Acts, ControlRequest, duration_of, price_of
from latchkey.emulators.stripe import stripe_acts, stripe_billing, stripe_purchases
from latchkey.emulators.stripe.stripe_books import (
    HOUR_S,
    AfterFailure,
    Interval,
    NoCard,
    Seconds,
    StripeBooks,
    StripePause,
    StripePrice,
    StripeProduct,
    StripeStep,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

# Currencies whose smallest unit is not a hundredth. Amounts in ISK and UGX have two decimals at Stripe, always 00.
NO_DECIMALS = frozenset(
    ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf")
)
THREE_DECIMALS = frozenset(("bhd", "jod", "kwd", "omr", "tnd"))


def decimals_of(currency: str) -> int:
    return 0 if currency in NO_DECIMALS else 3 if currency in THREE_DECIMALS else 2


def smallest_units(amount: float, currency: str) -> int:
    """4.99 of a currency in Stripe's amounts: 499."""
    decimals = decimals_of(currency)
    exact = Decimal(price_of(amount, currency.upper()).micros).scaleb(decimals - 6)
    if exact != exact.to_integral_value():
        raise Invalid(f"An amount in {currency.upper()} has at most {decimals} decimals.", param="price")
    return int(exact)


class StripeProductRequest(ControlRequest, frozen=True):
    """A price of a product; recurring with `period`, else paid once."""

    id: str
    # The price's id. Without it, one that is made of the product's.
    price_id: str | None = None
    price: float = 9.99
    currency: str = "USD"
    period: str | None = None
    trial: str | None = None
    name: str | None = None

    def apply(self, life: StripeBooks, at: Seconds) -> StripeBooks:
        currency = self.currency.lower()
        interval, count = _interval(self.period) if self.period else (None, 1)
        if self.trial and interval is None:
            raise Invalid("Only a recurring price has a trial.", param="trial")
        w = StripeChangeset(life, at)
        if self.id not in life.products or self.name is not None:
            w.put(StripeProduct(id=self.id, name=self.name or self.id, created=at))
        w.put(
            StripePrice(
                id=self.price_id or f"price_{self.id}",
                product=self.id,
                amount=smallest_units(self.price, currency),
                currency=currency,
                created=at,
                interval=interval,
                count=count,
                trial=duration_of(self.trial, "trial") if self.trial else None,
            )
        )
        return w.life


class StripeSaleRequest(ControlRequest, frozen=True):
    # `product:price`, the price's id, or the product's id if it has one price.
    product_id: str
    # Further items of the same subscription or checkout.
    also: tuple[str, ...] = ()
    buyer: str = "somebody"
    # The user of your app, and where Stripe is told of it. `key` is the name of the metadata field.
    account_token: str | None = None
    said_in: Literal["metadata", "session", "reference", "customer"] = "metadata"
    key: str = "app_user_id"
    country: str | None = "US"
    quantity: int = 1
    trial: bool = False
    # Bought in a checkout session. What is paid once always is.
    checkout: bool = False
    # The first payment: has not come through yet (see pay), or was declined.
    incomplete: bool = False
    declined: bool = False
    # Invoices are sent to the customer, who pays them (see pay) within so many days.
    send_invoice: bool = False
    days_until_due: int = 30
    # Minutes for which a renewal's invoice is a draft; 60 at the real Stripe.
    draft_minutes: int = 0
    # There is no card: what follows the trial.
    no_card: NoCard | None = None

    def apply(self, life: StripeBooks, at: Seconds) -> tuple[StripeStep, str]:
        """Also what to call the purchase by."""
        if not 1 <= self.quantity <= 1000 or not 0 <= self.draft_minutes <= 24 * 60:
            raise Invalid("quantity is 1 to 1000, draft_minutes 0 to 1440.", param="quantity")
        w = StripeChangeset(life, at)
        cart = [(stripe_purchases.price_named(w, one), self.quantity) for one in (self.product_id, *self.also)]
        told = {} if self.account_token is None else {self.key: self.account_token}
        customer = stripe_purchases.customer_named(
            w, self.buyer, self.country, told if self.said_in == "customer" else {}
        )
        recurring = cart[0][0].interval is not None
        trial_end = stripe_purchases.trial_end_of(w, cart[0][0]) if self.trial else None
        if not recurring or self.checkout or self.said_in in ("session", "reference"):
            session = stripe_purchases.start_session(
                w,
                cart,
                "subscription" if recurring else "payment",
                customer=customer.id,
                client_reference_id=self.account_token if self.said_in == "reference" else None,
                metadata=told if self.said_in == "session" or not recurring else {},
                made_metadata=told if self.said_in == "metadata" else {},
                trial_end=trial_end,
            )
            session = stripe_purchases.complete_session(w, session)
            return w.done(), session.subscription or session.id
        made = stripe_purchases.subscribe(
            w,
            customer,
            cart,
            metadata=told if self.said_in == "metadata" else {},
            trial_end=trial_end,
            waits=self.incomplete,
            declined=self.declined,
            sends_invoices=self.send_invoice,
            days_until_due=self.days_until_due if self.send_invoice else None,
            draft_for=self.draft_minutes * HOUR_S // 60,
            no_card=self.no_card,
        )
        return w.done(), made.id


def _cancel_now(
    life: StripeBooks,
    at: Seconds,
    id: str,
    *,
    reason: Literal["cancellation_requested", "payment_failed", "payment_disputed"] = "cancellation_requested",
) -> StripeStep:
    return stripe_acts.cancel_now(life, at, id, reason=reason)


def _fail_billing(
    life: StripeBooks, at: Seconds, id: str, *, then: AfterFailure = "cancel", retry_days: tuple[int, ...] = (3, 5, 7)
) -> StripeStep:
    if len(retry_days) > 8 or not all(1 <= one <= 60 for one in retry_days):
        raise Invalid("retry_days are at most 8 waits of 1 to 60 days.", param="retry_days")
    return stripe_acts.fail_billing(life, at, id, then=then, retry_days=retry_days)


def _pay(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    if id not in life.sessions:
        return stripe_acts.pay(life, at, id)
    w = StripeChangeset(life, at)
    stripe_purchases.complete_session(w, w.session(id))
    return w.done()


def _change(
    life: StripeBooks,
    at: Seconds,
    id: str,
    *,
    product_id: str,
    deferred: bool = False,
    proration: stripe_acts.Proration = "always_invoice",
    item: str | None = None,
) -> StripeStep:
    """`deferred`: with the next period, by a subscription schedule."""
    if deferred:
        return stripe_acts.change_later(life, at, id, product_id)
    return stripe_acts.change(life, at, id, product_id, proration=proration, item=item)


def _remove_item(
    life: StripeBooks,
    at: Seconds,
    id: str,
    *,
    item: str | None = None,
    proration: stripe_acts.Proration = "always_invoice",
) -> StripeStep:
    """The last one, if not given."""
    return stripe_acts.remove_item(life, at, id, item, proration=proration)


def _pause(
    life: StripeBooks,
    at: Seconds,
    id: str,
    *,
    duration: str | None = None,
    behavior: Literal["void", "keep_as_draft", "mark_uncollectible"] = "void",
) -> StripeStep:
    """Until resumed, if no duration is given."""
    until = None if duration is None else add(at * SECOND, duration_of(duration, "for")) // SECOND
    return stripe_acts.pause(life, at, id, StripePause(behavior=behavior, resumes_at=until))


def _extend_trial(life: StripeBooks, at: Seconds, id: str, *, days: int = 7) -> StripeStep:
    if not 1 <= days <= 730:
        raise Invalid("days is 1 to 730.", param="days")
    return stripe_acts.extend_trial(life, at, id, days=days)


def _refund(
    life: StripeBooks,
    at: Seconds,
    id: str,
    *,
    amount: float | None = None,
    payment: str | None = None,
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] | None = "requested_by_customer",
) -> StripeStep:
    """The amount as people write it, 4.99; without it, all that is left. The payment is a charge, payment intent or
    invoice; without it, the latest."""
    charge = life.charges[stripe_billing.charge_named(life, id, payment)]
    units = None if amount is None else smallest_units(amount, charge.currency)
    return stripe_billing.refund(life, at, charge.id, amount=units, reason=reason)


def _dispute(
    life: StripeBooks, at: Seconds, id: str, *, payment: str | None = None, reason: str = "fraudulent"
) -> StripeStep:
    return stripe_billing.dispute(life, at, stripe_billing.charge_named(life, id, payment), reason=reason)


def _lose_dispute(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    return stripe_billing.close_dispute(life, at, id, won=False)


def _win_dispute(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    return stripe_billing.close_dispute(life, at, id, won=True)


_OF_PAYMENTS = {
    "pay": _pay,
    "refund": _refund,
    "fail_refund": stripe_billing.fail_refund,
    "dispute": _dispute,
    "lose_dispute": _lose_dispute,
    "win_dispute": _win_dispute,
}
_ACTS = Acts(
    cancel=stripe_acts.cancel,
    uncancel=stripe_acts.uncancel,
    cancel_now=_cancel_now,
    fail_billing=_fail_billing,
    recover=stripe_acts.recover,
    finalize=stripe_acts.finalize,
    change=_change,
    remove_item=_remove_item,
    pause=_pause,
    resume=stripe_acts.resume,
    extend_trial=_extend_trial,
    **_OF_PAYMENTS,
)

# What a new store sells: the products of the demo project. Stripe's products can be given ids; prices cannot, but here
# they are easier to type so.
FIRST_PRODUCTS: tuple[dict[str, Any], ...] = (
    {"id": "team_monthly", "period": "P1M", "price": 29.99},
    {"id": "pro_monthly", "period": "P1M", "price": 9.99, "trial": "P7D"},
    {"id": "pro_yearly", "period": "P1Y", "price": 79.99},
    {"id": "basic_monthly", "period": "P1M", "price": 4.99},
    {"id": "pro_lifetime", "price": 199.99},
    {"id": "coins_100", "price": 1.99},
)


def _interval(period: str) -> tuple[Interval, int]:
    length = duration_of(period, "period")
    if length.ms or (length.months and length.days):
        raise Invalid("A period is in days, weeks, months or years.", param="period")
    if length.months:
        return ("year", length.months // 12) if length.months % 12 == 0 else ("month", length.months)
    return ("week", length.days // 7) if length.days % 7 == 0 else ("day", length.days)


def acted(life: StripeBooks, at: Seconds, purchase: str, act: str, options: Mapping[str, Any]) -> StripeStep:
    """Acts on subscriptions are refused for what was paid once."""
    if purchase in life.sessions and act not in _OF_PAYMENTS:
        raise Refusal("This is a one-time purchase. The act is for subscriptions.", param="act")
    step: StripeStep = _ACTS.apply(life, at, purchase, act, options)
    return step
