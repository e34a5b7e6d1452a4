"""Control API requests of the Stripe emulator: products, sales and acts in JSON."""

from collections.abc import Mapping
from typing import Any, Literal

from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.control_requests import Acts, ProductRequest, SaleRequest, duration_of
from latchkey.emulators.stripe import stripe_acts, stripe_purchases
from latchkey.emulators.stripe.stripe_books import HOUR_S, Interval, NoCard, StripePrice, StripeProduct, smallest_units
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset


class StripeProductRequest(ProductRequest, frozen=True, kw_only=True):
    """A price of a product; recurring with `period`, else paid once."""

    # The price's id. Without it, one that is made of the product's.
    price_id: str | None = None
    name: str | None = None

    def apply(self, changes: StripeChangeset) -> None:
        currency = self.currency.lower()
        interval, count = _interval(self.period) if self.period else (None, 1)
        if self.trial and interval is None:
            raise Invalid("Only a recurring price has a trial.", param="trial")
        if self.id not in changes.books.products or self.name is not None:
            changes.put(StripeProduct(id=self.id, name=self.name or self.id, created=changes.at))
        changes.put(
            StripePrice(
                id=self.price_id or f"price_{self.id}",
                product=self.id,
                amount=smallest_units(self.price, currency),
                currency=currency,
                created=changes.at,
                interval=interval,
                count=count,
                trial=self.trial_length(),
            )
        )


class StripeSaleRequest(SaleRequest, frozen=True, kw_only=True):
    # Further items of the same subscription or checkout.
    also: tuple[str, ...] = ()
    # Where Stripe gets the user of your app, `account_token`. `key` is the name of the metadata field.
    said_in: Literal["metadata", "session", "reference", "customer"] = "metadata"
    key: str = "app_user_id"
    country: str | None = "US"
    quantity: int = 1
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

    def apply(self, changes: StripeChangeset) -> str:
        """The name by which the control API calls the purchase."""
        if not 1 <= self.quantity <= 1000 or not 0 <= self.draft_minutes <= 24 * 60:
            raise Invalid("quantity is 1 to 1000, draft_minutes 0 to 1440.", param="quantity")
        cart = [(stripe_purchases.price_named(changes, name), self.quantity) for name in (self.product_id, *self.also)]
        named = {} if self.account_token is None else {self.key: self.account_token}
        customer = stripe_purchases.customer_named(
            changes, self.buyer, self.country, named if self.said_in == "customer" else {}
        )
        recurring = cart[0][0].interval is not None
        trial_end = stripe_purchases.trial_end_of(changes, cart[0][0]) if self.trial else None
        if not recurring or self.checkout or self.said_in in ("session", "reference"):
            session = stripe_purchases.start_session(
                changes,
                cart,
                "subscription" if recurring else "payment",
                customer=customer.id,
                client_reference_id=self.account_token if self.said_in == "reference" else None,
                metadata=named if self.said_in == "session" or not recurring else {},
                made_metadata=named if self.said_in == "metadata" else {},
                trial_end=trial_end,
            )
            session = stripe_purchases.complete_session(changes, session)
            return session.subscription or session.id
        made = stripe_purchases.subscribe(
            changes,
            customer,
            cart,
            metadata=named if self.said_in == "metadata" else {},
            trial_end=trial_end,
            waits=self.incomplete,
            declined=self.declined,
            sends_invoices=self.send_invoice,
            days_until_due=self.days_until_due if self.send_invoice else None,
            draft_for=self.draft_minutes * HOUR_S // 60,
            no_card=self.no_card,
        )
        return made.id


_OF_PAYMENTS = "pay refund fail_refund dispute lose_dispute win_dispute"
_ACTS = Acts(
    stripe_acts,
    "cancel uncancel cancel_now fail_billing recover finalize change remove_item pause resume extend_trial "
    + _OF_PAYMENTS,
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


def act_on(changes: StripeChangeset, purchase: str, name: str, options: Mapping[str, Any]) -> None:
    """Acts on subscriptions are refused for what was paid once."""
    if purchase in changes.books.sessions and name not in _OF_PAYMENTS.split():
        raise Refusal("This is a one-time purchase. The act is for subscriptions.", param="act")
    _ACTS.apply(name, options, changes, purchase)
