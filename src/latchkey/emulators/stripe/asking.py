"""What one can ask of the pretend Stripe in JSON: products, sales, and acts on a purchase."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from latchkey.domain.instants import SECOND, add
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.amounts import duration_of
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


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


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


class Act(Asked, frozen=True, tag_field="act"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        raise NotImplementedError


class Cancel(Act, frozen=True, tag="cancel"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.cancel(life, at, purchase)


class Uncancel(Act, frozen=True, tag="uncancel"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.uncancel(life, at, purchase)


class CancelNow(Act, frozen=True, tag="cancel_now"):
    reason: Literal["cancellation_requested", "payment_failed", "payment_disputed"] = "cancellation_requested"

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.cancel_now(life, at, purchase, reason=self.reason)


class FailBilling(Act, frozen=True, tag="fail_billing"):
    then: AfterFailure = "cancel"
    retry_days: tuple[int, ...] = (3, 5, 7)

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        if len(self.retry_days) > 8 or not all(1 <= one <= 60 for one in self.retry_days):
            raise Invalid("retry_days are at most 8 waits of 1 to 60 days.", param="retry_days")
        return lives.fail_billing(life, at, purchase, then=self.then, retry_days=self.retry_days)


class Recover(Act, frozen=True, tag="recover"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.recover(life, at, purchase)


class Pay(Act, frozen=True, tag="pay"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        if purchase in life.sessions:
            w = Work(life, at)
            buying.complete_session(w, w.session(purchase))
            return w.done()
        return lives.pay(life, at, purchase)


class Finalize(Act, frozen=True, tag="finalize"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.finalize(life, at, purchase)


class Change(Act, frozen=True, tag="change"):
    product_id: str
    # With the next period, by a subscription schedule.
    deferred: bool = False
    proration: lives.Proration = "always_invoice"
    item: str | None = None

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        if self.deferred:
            return lives.change_later(life, at, purchase, self.product_id)
        return lives.change(life, at, purchase, self.product_id, proration=self.proration, item=self.item)


class RemoveItem(Act, frozen=True, tag="remove_item"):
    # The last one, if not given.
    item: str | None = None
    proration: lives.Proration = "always_invoice"

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.remove_item(life, at, purchase, self.item, proration=self.proration)


class PauseAct(Act, frozen=True, tag="pause", rename={"duration": "for"}):
    # Until resumed, if not given.
    duration: str | None = None
    behavior: Literal["void", "keep_as_draft", "mark_uncollectible"] = "void"

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        until = None
        if self.duration is not None:
            until = add(at * SECOND, duration_of(self.duration, "for")) // SECOND
        return lives.pause(life, at, purchase, Pause(behavior=self.behavior, resumes_at=until))


class Resume(Act, frozen=True, tag="resume"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return lives.resume(life, at, purchase)


class ExtendTrial(Act, frozen=True, tag="extend_trial"):
    days: int = 7

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        if not 1 <= self.days <= 730:
            raise Invalid("days is 1 to 730.", param="days")
        return lives.extend_trial(life, at, purchase, days=self.days)


class Refund(Act, frozen=True, tag="refund"):
    # As people write it: 4.99. Without it, all that is left.
    amount: float | None = None
    # A charge, payment intent or invoice; without it, the latest payment.
    payment: str | None = None
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] | None = "requested_by_customer"

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        charge = life.charges[money_back.charge_named(life, purchase, self.payment)]
        units = None if self.amount is None else smallest_units(self.amount, charge.currency)
        return money_back.refund(life, at, charge.id, amount=units, reason=self.reason)


class FailRefund(Act, frozen=True, tag="fail_refund"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return money_back.fail_refund(life, at, purchase)


class Dispute(Act, frozen=True, tag="dispute"):
    payment: str | None = None
    reason: str = "fraudulent"

    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        charge = money_back.charge_named(life, purchase, self.payment)
        return money_back.dispute(life, at, charge, reason=self.reason)


class LoseDispute(Act, frozen=True, tag="lose_dispute"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return money_back.close_dispute(life, at, purchase, won=False)


class WinDispute(Act, frozen=True, tag="win_dispute"):
    def apply(self, life: Life, at: Seconds, purchase: str) -> Step:
        return money_back.close_dispute(life, at, purchase, won=True)


AnyAct = (
    Cancel
    | Uncancel
    | CancelNow
    | FailBilling
    | Recover
    | Pay
    | Finalize
    | Change
    | RemoveItem
    | PauseAct
    | Resume
    | ExtendTrial
    | Refund
    | FailRefund
    | Dispute
    | LoseDispute
    | WinDispute
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


def acted(life: Life, at: Seconds, purchase: str, asked: Any) -> Step:
    """Acts on subscriptions are refused for what was paid once."""
    if purchase in life.sessions and not isinstance(
        asked, Pay | Refund | FailRefund | Dispute | LoseDispute | WinDispute
    ):
        raise Refusal("This is a one-time purchase. The act is for subscriptions.", param="act")
    step: Step = asked.apply(life, at, purchase)
    return step
