"""One change of the books: it starts from the books as they are, and ends with the new ones and the events told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from latchkey.domain.refusal import NotFound
from latchkey.emulators.stripe import stripe_catalog_objects, stripe_objects
from latchkey.emulators.stripe.stripe_books import (
    MOST_EVENTS,
    CheckoutSession,
    PaymentIntent,
    Seconds,
    SetupIntent,
    StripeBooks,
    StripeCharge,
    StripeCustomer,
    StripeDispute,
    StripeEvent,
    StripeInvoice,
    StripePrice,
    StripeProduct,
    StripeRefund,
    StripeStep,
    StripeSubscription,
    drawn,
)

Kept = (
    StripeProduct
    | StripePrice
    | StripeCustomer
    | StripeSubscription
    | StripeInvoice
    | PaymentIntent
    | SetupIntent
    | StripeCharge
    | StripeRefund
    | StripeDispute
    | CheckoutSession
)
K = TypeVar("K", bound=Kept)

_SHELVES: dict[type, str] = {
    StripeProduct: "products",
    StripePrice: "prices",
    StripeCustomer: "customers",
    StripeSubscription: "subscriptions",
    StripeInvoice: "invoices",
    PaymentIntent: "intents",
    SetupIntent: "setups",
    StripeCharge: "charges",
    StripeRefund: "refunds",
    StripeDispute: "disputes",
    CheckoutSession: "sessions",
}
# Ids begin so, as Stripe's do.
_PREFIXES = {
    "sub": "sub_1",
    "si": "si_",
    "in": "in_1",
    "il": "il_1",
    "pi": "pi_3",
    "seti": "seti_1",
    "ch": "ch_3",
    "re": "re_3",
    "du": "du_1",
    "evt": "evt_1",
    "cus": "cus_",
    "sub_sched": "sub_sched_1",
    "li": "li_1",
    "price": "price_1",
    "prod": "prod_",
}


class StripeChangeset:
    def __init__(self, life: StripeBooks, at: Seconds) -> None:
        self.life = life
        self.at = at
        self.told: list[StripeEvent] = []

    def done(self) -> StripeStep:
        return self.life, tuple(self.told)

    def put(self, one: K, **changed: Any) -> K:
        """Keeps an object, with the named fields changed."""
        one = replace(one, **changed) if changed else one
        shelf = _SHELVES[type(one)]
        changes: dict[str, Any] = {shelf: {**getattr(self.life, shelf), one.id: one}}
        self.life = replace(self.life, **changes)
        return one

    def id(self, kind: str) -> str:
        if kind == "cs":
            return f"cs_{'live' if self.life.live else 'test'}_a1{self._draw('cs', 56)}"
        prefix = _PREFIXES[kind]
        return prefix + self._draw(kind, 14 if prefix.endswith("_") else 23)

    def secret(self, id: str) -> str:
        return f"{id}_secret_{drawn(self.life.series, f'secret of {id}', 25)}"

    def tell(self, type: str, one: Kept, *, subject: str | None = None, **previous: Any) -> None:
        """`previous` are the values before, of fields that have changed."""
        self._tell(type, stripe_objects.rendered(self.life, one), subject, previous)

    def tell_schedule(self, type: str, of: StripeSubscription) -> None:
        self._tell(type, stripe_catalog_objects.schedule(self.life, of), of.id, {})

    def _tell(self, type: str, shown: dict[str, Any], subject: str | None, previous: dict[str, Any]) -> None:
        event = StripeEvent(
            id=self.id("evt"),
            type=type,
            created=self.at,
            object=shown,
            previous=previous or None,
            subject=subject,
        )
        self.told.append(event)
        self.life = replace(self.life, events=(*self.life.events[-MOST_EVENTS + 1 :], event))

    # What has to be there.

    def subscription(self, id: str) -> StripeSubscription:
        return _there(self.life.subscriptions.get(id), "subscription", id)

    def invoice(self, id: str) -> StripeInvoice:
        return _there(self.life.invoices.get(id), "invoice", id)

    def intent(self, id: str) -> PaymentIntent:
        return _there(self.life.intents.get(id), "payment_intent", id)

    def charge(self, id: str) -> StripeCharge:
        return _there(self.life.charges.get(id), "charge", id)

    def customer(self, id: str) -> StripeCustomer:
        return _there(self.life.customers.get(id), "customer", id)

    def session(self, id: str) -> CheckoutSession:
        return _there(self.life.sessions.get(id), "checkout.session", id)

    def price(self, id: str) -> StripePrice:
        return _there(self.life.prices.get(id), "price", id)

    def _draw(self, what: str, length: int) -> str:
        number = self.life.next_number
        self.life = replace(self.life, next_number=number + 1)
        return drawn(self.life.series, f"{what} {number}", length)


def _there(found: K | None, what: str, id: str) -> K:
    if found is None:
        raise NotFound(f"No such {what}: '{id}'", param="id")
    return found
