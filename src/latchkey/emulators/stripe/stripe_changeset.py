"""One change of the books: it starts from the books as they are, and ends with the new ones and the events to send."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from latchkey.domain.refusal import found
from latchkey.emulators.stripe import stripe_books, stripe_catalog_objects, stripe_objects

R = TypeVar("R", bound=stripe_books.StripeRecord)

# What ids have after their prefix, as Stripe's do; others have a 1.
_DIGITS = {"pi": "3", "ch": "3", "re": "3", "si": "", "cus": "", "prod": ""}


def _required(kind: type[R], name: str) -> Callable[["StripeChangeset", str], R]:
    def find(changes: "StripeChangeset", id: str) -> R:
        shelf: dict[str, R] = getattr(changes.books, stripe_books.SHELVES[kind])
        return found(shelf.get(id), f"No such {name}: '{id}'", "id")

    return find


class StripeChangeset:
    def __init__(self, books: stripe_books.StripeBooks, at: stripe_books.Seconds) -> None:
        self.books = books
        self.at = at
        self.events: list[stripe_books.StripeEvent] = []

    def step(self) -> stripe_books.StripeStep:
        return self.books, tuple(self.events)

    def put(self, record: R, **changed: Any) -> R:
        """Keeps an object, with the named fields changed."""
        record = replace(record, **changed) if changed else record
        shelf = stripe_books.SHELVES[type(record)]
        self.books = replace(self.books, **{shelf: {**getattr(self.books, shelf), record.id: record}})
        return record

    def new(self, type: type[R], kind: str, **fields: Any) -> R:
        """Keeps an object that begins to exist now, with an id of this kind, and a secret if its type has one."""
        id = self.id(kind)
        if issubclass(type, stripe_books.StripeIntent):
            fields["client_secret"] = stripe_books.secret_of(self.books, id)
        return self.put(type(id=id, created=self.at, **fields))

    def id(self, kind: str) -> str:
        if kind == "cs":
            return f"cs_{'live' if self.books.live else 'test'}_a1{self._draw('cs', 56)}"
        digit = _DIGITS.get(kind, "1")
        return f"{kind}_{digit}{self._draw(kind, 23 if digit else 14)}"

    def emit(self, type: str, record: stripe_books.StripeRecord, **previous: Any) -> None:
        """`previous` are the values before, of fields that have changed."""
        self._emit(
            type, stripe_objects.rendered(self.books, record), stripe_books.subject_of(self.books, record), previous
        )

    def emit_schedule(self, type: str, of: stripe_books.StripeSubscription) -> None:
        self._emit(type, stripe_catalog_objects.schedule(self.books, of), of.id, {})

    def update(
        self, subscription: stripe_books.StripeSubscription, previous: dict[str, Any], **changed: Any
    ) -> stripe_books.StripeSubscription:
        """Changes a subscription and emits that. `previous` are the values before, in Stripe's fields."""
        subscription = self.put(subscription, **changed)
        self.emit("customer.subscription.updated", subscription, **previous)
        return subscription

    def _emit(self, type: str, shown: dict[str, Any], subject: str | None, previous: dict[str, Any]) -> None:
        event = stripe_books.StripeEvent(
            id=self.id("evt"), type=type, created=self.at, object=shown, previous=previous or None, subject=subject
        )
        self.events.append(event)
        self.books = replace(self.books, events=(*self.books.events[-stripe_books.MOST_EVENTS + 1 :], event))

    subscription = _required(stripe_books.StripeSubscription, "subscription")
    invoice = _required(stripe_books.StripeInvoice, "invoice")
    intent = _required(stripe_books.PaymentIntent, "payment_intent")
    charge = _required(stripe_books.StripeCharge, "charge")
    customer = _required(stripe_books.StripeCustomer, "customer")
    session = _required(stripe_books.CheckoutSession, "checkout.session")
    price = _required(stripe_books.StripePrice, "price")

    def _draw(self, what: str, length: int) -> str:
        number = self.books.next_number
        self.books = replace(self.books, next_number=number + 1)
        return stripe_books.drawn(self.books.series, f"{what} {number}", length)
