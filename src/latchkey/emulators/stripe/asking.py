"""What one can ask of the pretend Stripe in JSON: products, sales, and acts on a purchase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from latchkey.domain.instants import SECOND, add
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.acts import Acts, Asked, duration_of
from latchkey.emulators.stripe import buying, money_back
from latchkey.emulators.stripe import life as lives
from latchkey.emulators.stripe.amounts import smallest_units
from latchkey.emulators.stripe.state import (
    HOUR_S,
    AfterFailure,
    Interval,
    Life,
    NoCard,
    Pause,
    Price,
    Product,
    Seconds,
    Step,
)
from latchkey.emulators.stripe.working import Work


class AskedProduct(Asked, frozen=True):
    """A price of a product; recurring with `period`, else paid once."""

    id: str
    # The price's id. Without it, one that is made of the product's.
    price_id: str | None = None
    price: float = 9.99
    currency: str = "USD"
    period: str | None = None
    trial: str | None = None
    name: str | None = None

    def apply(self, life: Life, at: Seconds) -> Life:
        currency = self.currency.lower()
        interval, count = _interval(self.period) if self.period else (None, 1)
        if self.trial and interval is None:
            raise Invalid("Only a recurring price has a trial.", param="trial")
        w = Work(life, at)
        if self.id not in life.products or self.name is not None:
            w.put(Product(id=self.id, name=self.name or self.id, created=at))
        w.put(
            Price(
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


class AskedSale(Asked, frozen=True):
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

    def apply(self, life: Life, at: Seconds) -> tuple[Step, str]:
        """Also what to call the purchase by."""
        if not 1 <= self.quantity <= 1000 or not 0 <= self.draft_minutes <= 24 * 60:
            raise Invalid("quantity is 1 to 1000, draft_minutes 0 to 1440.", param="quantity")
        w = Work(life, at)
        cart = [(buying.price_named(w, one), self.quantity) for one in (self.product_id, *self.also)]
        told = {} if self.account_token is None else {self.key: self.account_token}
        customer = buying.customer_named(w, self.buyer, self.country, told if self.said_in == "customer" else {})
        recurring = cart[0][0].interval is not None
        trial_end = buying.trial_end_of(w, cart[0][0]) if self.trial else None
        if not recurring or self.checkout or self.said_in in ("session", "reference"):
            session = buying.start_session(
                w,
                cart,
                "subscription" if recurring else "payment",
                customer=customer.id,
                client_reference_id=self.account_token if self.said_in == "reference" else None,
                metadata=told if self.said_in == "session" or not recurring else {},
                made_metadata=told if self.said_in == "metadata" else {},
                trial_end=trial_end,
            )
            session = buying.complete_session(w, session)
            return w.done(), session.subscription or session.id
        made = buying.subscribe(
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
    life: Life,
    at: Seconds,
    id: str,
    *,
    reason: Literal["cancellation_requested", "payment_failed", "payment_disputed"] = "cancellation_requested",
) -> Step:
    return lives.cancel_now(life, at, id, reason=reason)


def _fail_billing(
    life: Life, at: Seconds, id: str, *, then: AfterFailure = "cancel", retry_days: tuple[int, ...] = (3, 5, 7)
) -> Step:
    if len(retry_days) > 8 or not all(1 <= one <= 60 for one in retry_days):
        raise Invalid("retry_days are at most 8 waits of 1 to 60 days.", param="retry_days")
    return lives.fail_billing(life, at, id, then=then, retry_days=retry_days)


def _pay(life: Life, at: Seconds, id: str) -> Step:
    if id not in life.sessions:
        return lives.pay(life, at, id)
    w = Work(life, at)
    buying.complete_session(w, w.session(id))
    return w.done()


def _change(
    life: Life,
    at: Seconds,
    id: str,
    *,
    product_id: str,
    deferred: bool = False,
    proration: lives.Proration = "always_invoice",
    item: str | None = None,
) -> Step:
    """`deferred`: with the next period, by a subscription schedule."""
    if deferred:
        return lives.change_later(life, at, id, product_id)
    return lives.change(life, at, id, product_id, proration=proration, item=item)


def _remove_item(
    life: Life, at: Seconds, id: str, *, item: str | None = None, proration: lives.Proration = "always_invoice"
) -> Step:
    """The last one, if not given."""
    return lives.remove_item(life, at, id, item, proration=proration)


def _pause(
    life: Life,
    at: Seconds,
    id: str,
    *,
    duration: str | None = None,
    behavior: Literal["void", "keep_as_draft", "mark_uncollectible"] = "void",
) -> Step:
    """Until resumed, if no duration is given."""
    until = None if duration is None else add(at * SECOND, duration_of(duration, "for")) // SECOND
    return lives.pause(life, at, id, Pause(behavior=behavior, resumes_at=until))


def _extend_trial(life: Life, at: Seconds, id: str, *, days: int = 7) -> Step:
    if not 1 <= days <= 730:
        raise Invalid("days is 1 to 730.", param="days")
    return lives.extend_trial(life, at, id, days=days)


def _refund(
    life: Life,
    at: Seconds,
    id: str,
    *,
    amount: float | None = None,
    payment: str | None = None,
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] | None = "requested_by_customer",
) -> Step:
    """The amount as people write it, 4.99; without it, all that is left. The payment is a charge, payment intent or
    invoice; without it, the latest."""
    charge = life.charges[money_back.charge_named(life, id, payment)]
    units = None if amount is None else smallest_units(amount, charge.currency)
    return money_back.refund(life, at, charge.id, amount=units, reason=reason)


def _dispute(life: Life, at: Seconds, id: str, *, payment: str | None = None, reason: str = "fraudulent") -> Step:
    return money_back.dispute(life, at, money_back.charge_named(life, id, payment), reason=reason)


def _lose_dispute(life: Life, at: Seconds, id: str) -> Step:
    return money_back.close_dispute(life, at, id, won=False)


def _win_dispute(life: Life, at: Seconds, id: str) -> Step:
    return money_back.close_dispute(life, at, id, won=True)


_OF_PAYMENTS = {
    "pay": _pay,
    "refund": _refund,
    "fail_refund": money_back.fail_refund,
    "dispute": _dispute,
    "lose_dispute": _lose_dispute,
    "win_dispute": _win_dispute,
}
_ACTS = Acts(
    cancel=lives.cancel,
    uncancel=lives.uncancel,
    cancel_now=_cancel_now,
    fail_billing=_fail_billing,
    recover=lives.recover,
    finalize=lives.finalize,
    change=_change,
    remove_item=_remove_item,
    pause=_pause,
    resume=lives.resume,
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


def acted(life: Life, at: Seconds, purchase: str, act: str, options: Mapping[str, Any]) -> Step:
    """Acts on subscriptions are refused for what was paid once."""
    if purchase in life.sessions and act not in _OF_PAYMENTS:
        raise Refusal("This is a one-time purchase. The act is for subscriptions.", param="act")
    step: Step = _ACTS.apply(life, at, purchase, act, options)
    return step
