"""One change of the books: it starts from the books as they are, and ends with the new ones and the events to send."""

from dataclasses import replace
from typing import Any, TypeVar

from latchkey.domain.refusal import NotFound
from latchkey.emulators.stripe import stripe_catalog_objects, stripe_objects
from latchkey.emulators.stripe.stripe_books import (
    MOST_EVENTS,
    CheckoutSession,
    PaymentIntent,
    Seconds,
    StripeBooks,
    StripeCharge,
    StripeCustomer,
    StripeEvent,
    StripeInvoice,
    StripePrice,
    StripeRecord,
    StripeStep,
    StripeSubscription,
    drawn,
    subject_of,
)

R = TypeVar("R", bound=StripeRecord)

# What ids have after their prefix, as Stripe's do; others have a 1.
_DIGITS = {"pi": "3", "ch": "3", "re": "3", "si": "", "cus": "", "prod": ""}


class StripeChangeset:
    def __init__(self, books: StripeBooks, at: Seconds) -> None:
        self.books = books
        self.at = at
        self.events: list[StripeEvent] = []

    def step(self) -> StripeStep:
        return self.books, tuple(self.events)

    def put(self, record: R, **changed: Any) -> R:
        """Keeps an object, with the named fields changed."""
        record = replace(record, **changed) if changed else record
        changes: dict[str, Any] = {record.shelf: {**getattr(self.books, record.shelf), record.id: record}}
        self.books = replace(self.books, **changes)
        return record

    def id(self, kind: str) -> str:
        if kind == "cs":
            return f"cs_{'live' if self.books.live else 'test'}_a1{self._draw('cs', 56)}"
        digit = _DIGITS.get(kind, "1")
        return f"{kind}_{digit}{self._draw(kind, 23 if digit else 14)}"

    def secret(self, id: str) -> str:
        return f"{id}_secret_{drawn(self.books.series, f'secret of {id}', 25)}"

    def emit(self, type: str, record: StripeRecord, **previous: Any) -> None:
        """`previous` are the values before, of fields that have changed."""
        self._emit(type, stripe_objects.rendered(self.books, record), subject_of(self.books, record), previous)

    def emit_schedule(self, type: str, of: StripeSubscription) -> None:
        self._emit(type, stripe_catalog_objects.schedule(self.books, of), of.id, {})

    def update(self, subscription: StripeSubscription, previous: dict[str, Any], **changed: Any) -> StripeSubscription:
        """Changes a subscription and emits that. `previous` are the values before, in Stripe's fields."""
        subscription = self.put(subscription, **changed)
        self.emit("customer.subscription.updated", subscription, **previous)
        return subscription

    def _emit(self, type: str, shown: dict[str, Any], subject: str | None, previous: dict[str, Any]) -> None:
        event = StripeEvent(
            id=self.id("evt"), type=type, created=self.at, object=shown, previous=previous or None, subject=subject
        )
        self.events.append(event)
        self.books = replace(self.books, events=(*self.books.events[-MOST_EVENTS + 1 :], event))

    # What has to be there.

    def subscription(self, id: str) -> StripeSubscription:
        return _there(self.books.subscriptions.get(id), "subscription", id)

    def invoice(self, id: str) -> StripeInvoice:
        return _there(self.books.invoices.get(id), "invoice", id)

    def intent(self, id: str) -> PaymentIntent:
        return _there(self.books.intents.get(id), "payment_intent", id)

    def charge(self, id: str) -> StripeCharge:
        return _there(self.books.charges.get(id), "charge", id)

    def customer(self, id: str) -> StripeCustomer:
        return _there(self.books.customers.get(id), "customer", id)

    def session(self, id: str) -> CheckoutSession:
        return _there(self.books.sessions.get(id), "checkout.session", id)

    def price(self, id: str) -> StripePrice:
        return _there(self.books.prices.get(id), "price", id)

    def _draw(self, what: str, length: int) -> str:
        number = self.books.next_number
        self.books = replace(self.books, next_number=number + 1)
        return drawn(self.books.series, f"{what} {number}", length)


def _there(found: R | None, what: str, id: str) -> R:
    if found is None:
        raise NotFound(f"No such {what}: '{id}'", param="id")
    return found
