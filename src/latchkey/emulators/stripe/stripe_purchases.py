"""What customers buy at Stripe: subscriptions, checkout sessions, single payments. Each function works on one change of
the books. Products and sales come in as the control API takes them in JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from latchkey.domain.instants import SECOND, Duration, add
from latchkey.domain.refusal import Invalid, NotFound, Refusal, found
from latchkey.emulators.control_requests import ProductRequest, SaleRequest, invalid_if, refuse_if
from latchkey.emulators.stripe import stripe_billing, stripe_books
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

SESSION_LASTS: stripe_books.Seconds = stripe_books.DAY_S
# What is sold, and how many of it.
Cart = Sequence[tuple[stripe_books.StripePrice, int]]


def price_named(changes: StripeChangeset, name: str) -> stripe_books.StripePrice:
    """By `product:price`, by the price's id, or by the product's id if it has one price."""
    found = changes.books.prices.get(name.rpartition(":")[2])
    if found is not None and name in (found.id, found.name):
        return found
    of_product = [price for price in changes.books.prices.values() if price.product == name and price.active]
    if len(of_product) == 1:
        return of_product[0]
    sold = ", ".join(price.name for price in changes.books.prices.values())
    raise NotFound(f"The store sells no product {name!r}. It sells: {sold}.", param="product_id")


def customer_named(
    changes: StripeChangeset, buyer: str, country: str | None, metadata: Mapping[str, str]
) -> stripe_books.StripeCustomer:
    """The customer of this name, made at the first purchase."""
    found = next((customer for customer in changes.books.customers.values() if customer.name == buyer), None)
    if found is not None:
        if dict(metadata).items() <= found.metadata.items():
            return found
        return changes.put(found, metadata={**found.metadata, **metadata})
    return new_customer(changes, name=buyer, country=country, metadata=dict(metadata))


def new_customer(changes: StripeChangeset, **fields: Any) -> stripe_books.StripeCustomer:
    customer = changes.new(stripe_books.StripeCustomer, "cus", **fields)
    changes.emit("customer.created", customer)
    return customer


def subscribe(
    changes: StripeChangeset,
    customer: stripe_books.StripeCustomer,
    cart: Cart,
    *,
    metadata: Mapping[str, str],
    trial_end: stripe_books.Seconds | None = None,
    waits: bool = False,
    declined: bool = False,
    **behaviour: Any,
) -> stripe_books.StripeSubscription:
    """A new subscription and its first invoice. It is incomplete if the first payment `waits` for the customer, or was
    `declined`. `behaviour` are further fields of the subscription."""
    first, _ = cart[0]
    if any(price.interval is None for price, _ in cart):
        raise Refusal("The price is paid once; a subscription needs a recurring price.", param="items")
    if any((price.currency, price.interval, price.count) != (first.currency, first.interval, first.count)
           for price, _ in cart):  # fmt: skip
        raise Refusal("All items of a subscription have the same currency and interval.", param="items")
    ends = trial_end if trial_end is not None else stripe_books.next_period(first, changes.at, changes.at)
    items = tuple(
        stripe_books.StripeItem(
            id=changes.id("si"), price=price.id, created=changes.at, starts=changes.at, ends=ends, quantity=quantity
        )
        for price, quantity in cart
    )
    subscription = changes.new(
        stripe_books.StripeSubscription,
        "sub",
        customer=customer.id,
        currency=first.currency,
        items=items,
        status=stripe_books.StripeStatus.TRIALING if trial_end is not None else stripe_books.StripeStatus.ACTIVE,
        anchor=ends if trial_end is not None else changes.at,
        trial_start=changes.at if trial_end is not None else None,
        trial_end=trial_end,
        metadata=dict(metadata),
        **behaviour,
    )
    costs = trial_end is None and any(price.amount * quantity for price, quantity in cart)
    if costs and (waits or declined) and not subscription.sends_invoices:
        subscription = changes.put(subscription, status=stripe_books.StripeStatus.INCOMPLETE)
    elif waits and trial_end is not None:
        subscription = changes.put(subscription, setup=new_setup(changes, customer.id, metadata).id)
    lines = tuple(stripe_billing.line_of(changes, item, free=trial_end is not None) for item in items)
    invoice = stripe_billing.invoiced(changes, subscription, "subscription_create", lines, events=("created",))
    invoice = stripe_billing.finalize(changes, invoice)
    if invoice.status == "open" and not subscription.sends_invoices:
        if declined:
            stripe_billing.fail(changes, invoice)
        elif not waits:
            stripe_billing.pay(changes, invoice)
    return changes.subscription(subscription.id)


def new_setup(changes: StripeChangeset, customer: str | None, metadata: Mapping[str, str]) -> stripe_books.SetupIntent:
    made = changes.new(stripe_books.SetupIntent, "seti", customer=customer, metadata=dict(metadata))
    changes.emit("setup_intent.created", made)
    return made


def confirm_intent(changes: StripeChangeset, id: str, *, declined: bool = False) -> None:
    """The customer pays: an invoice, a checkout, or a payment by itself."""
    intent = changes.intent(id)
    if intent.status == "succeeded":
        raise Refusal("You cannot confirm this PaymentIntent because it has already succeeded after being previously "
                      "confirmed.", param="intent")  # fmt: skip
    if intent.status == "canceled":
        raise Refusal("You cannot confirm this PaymentIntent because it has a status of canceled.", param="intent")
    if declined:
        if intent.invoice is not None:
            stripe_billing.fail(changes, changes.invoice(intent.invoice))
        else:
            changes.emit("payment_intent.payment_failed", changes.put(intent, failed=True))
    elif intent.invoice is not None:
        stripe_billing.pay(changes, changes.invoice(intent.invoice))
    else:
        stripe_billing.charged(changes, intent)


def confirm_setup(changes: StripeChangeset, id: str) -> None:
    setup = found(changes.books.setups.get(id), f"No such setupintent: '{id}'", "intent")
    if setup.status == "succeeded":
        raise Refusal("You cannot confirm this SetupIntent because it has already succeeded.", param="intent")
    changes.emit("setup_intent.succeeded", changes.put(setup, status="succeeded"))


def start_session(changes: StripeChangeset, cart: Cart, mode: str, **fields: Any) -> stripe_books.CheckoutSession:
    recurring = any(price.interval is not None for price, _ in cart)
    if mode == "payment" and recurring:
        raise Refusal(
            "You specified `payment` mode but passed a recurring price. Either switch to `subscription` mode or use "
            "only one-time prices.",
            param="mode",
        )
    if mode == "subscription" and not recurring:
        raise Refusal(
            "You must provide at least one recurring price in `subscription` mode when using prices.", param="mode"
        )
    items = tuple(
        stripe_books.CheckoutItem(id=changes.id("li"), price=price.id, quantity=quantity) for price, quantity in cart
    )
    ends, currency = changes.at + SESSION_LASTS, cart[0][0].currency
    return changes.new(
        stripe_books.CheckoutSession, "cs", mode=mode, expires_at=ends, currency=currency, items=items, **fields
    )


def complete_session(
    changes: StripeChangeset,
    session: stripe_books.CheckoutSession,
    *,
    buyer: str | None = None,
    country: str | None = None,
) -> stripe_books.CheckoutSession:
    """The customer has paid: the subscription or the payment exists now."""
    refuse_if(session.status != "open", f"The checkout session is {session.status}.")
    customer = changes.books.customers.get(session.customer or "")
    if customer is None and (session.mode == "subscription" or session.makes_customer or buyer is not None):
        customer = new_customer(changes, name=buyer, email=session.customer_email, country=country)
    elif customer is not None and customer.country is None and country is not None:
        customer = changes.put(customer, country=country)
    session = changes.put(session, customer=customer.id if customer else None)
    cart = [(changes.price(item.price), item.quantity) for item in session.items]
    if session.mode == "subscription":
        assert customer is not None
        trial_end = session.trial_end
        if session.trial_days is not None:
            trial_end = changes.at + session.trial_days * stripe_books.DAY_S
        made = subscribe(changes, customer, cart, metadata=session.made_metadata, trial_end=trial_end)
        session = changes.put(session, subscription=made.id, invoice=made.latest_invoice)
    else:
        amount = sum(price.amount * quantity for price, quantity in cart)
        owner = customer.id if customer else None
        intent = stripe_billing.new_intent(
            changes, amount, session.currency, owner, metadata=session.made_metadata, session=session.id
        )
        changes.emit("payment_intent.created", intent)
        session = changes.put(session, payment_intent=intent.id)
        stripe_billing.charged(changes, intent)
    session = changes.put(session, status="complete")
    changes.emit("checkout.session.completed", session)
    return session


def expire_session(changes: StripeChangeset, id: str) -> None:
    session = changes.session(id)
    if session.status != "open":
        raise Refusal(f"Only Checkout Sessions with a status of open can be expired; this is {session.status}.")
    changes.emit("checkout.session.expired", changes.put(session, status="expired", expires_at=changes.at))


def trial_end_of(changes: StripeChangeset, price: stripe_books.StripePrice) -> stripe_books.Seconds:
    if price.trial is None:
        raise Refusal(f"{price.name!r} has no trial on offer.", param="trial")
    return add(changes.at * SECOND, price.trial) // SECOND


class StripeProductRequest(ProductRequest, frozen=True, kw_only=True):
    """A price of a product; recurring with `period`, else paid once."""

    # The price's id. Without it, one that is made of the product's.
    price_id: str | None = None
    name: str | None = None

    def apply(self, changes: StripeChangeset) -> None:
        currency = self.currency.lower()
        interval, count = _interval(self.period) if self.period is not None else (None, 1)
        invalid_if(self.others, "A price of Stripe counts in every country.", "elsewhere")
        invalid_if(self.trial and interval is None, "Only a recurring price has a trial.", "trial")
        if self.id not in changes.books.products or self.name is not None:
            changes.put(stripe_books.StripeProduct(id=self.id, name=self.name or self.id, created=changes.at))
        changes.put(
            stripe_books.StripePrice(
                id=self.price_id or f"price_{self.id}",
                product=self.id,
                amount=stripe_books.smallest_units(self.amount, currency),
                currency=currency,
                created=changes.at,
                interval=interval,
                count=count,
                trial=self.trial,
                active=self.on_sale,
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
    no_card: stripe_books.NoCard | None = None

    def apply(self, changes: StripeChangeset) -> str:
        """The name by which the control API calls the purchase."""
        if not 1 <= self.quantity <= 1000 or not 0 <= self.draft_minutes <= 24 * 60:
            raise Invalid("quantity is 1 to 1000, draft_minutes 0 to 1440.", param="quantity")
        cart = [(price_named(changes, name), self.quantity) for name in (self.product_id, *self.also)]
        named = {} if self.account_token is None else {self.key: self.account_token}
        customer = customer_named(changes, self.buyer, self.country, named if self.said_in == "customer" else {})
        recurring = cart[0][0].interval is not None
        trial_end = trial_end_of(changes, cart[0][0]) if self.trial else None
        if not recurring or self.checkout or self.said_in in ("session", "reference"):
            session = start_session(
                changes,
                cart,
                "subscription" if recurring else "payment",
                customer=customer.id,
                client_reference_id=self.account_token if self.said_in == "reference" else None,
                metadata=named if self.said_in == "session" or not recurring else {},
                made_metadata=named if self.said_in == "metadata" else {},
                trial_end=trial_end,
            )
            session = complete_session(changes, session)
            return session.subscription or session.id
        made = subscribe(
            changes,
            customer,
            cart,
            metadata=named if self.said_in == "metadata" else {},
            trial_end=trial_end,
            waits=self.incomplete,
            declined=self.declined,
            sends_invoices=self.send_invoice,
            days_until_due=self.days_until_due if self.send_invoice else None,
            draft_for=self.draft_minutes * stripe_books.HOUR_S // 60,
            no_card=self.no_card,
        )
        return made.id


def _interval(length: Duration) -> tuple[stripe_books.Interval, int]:
    invalid_if(length.ms or (length.months and length.days), "A period is in days, weeks, months or years.", "period")
    if length.months:
        return ("year", length.months // 12) if length.months % 12 == 0 else ("month", length.months)
    return ("week", length.days // 7) if length.days % 7 == 0 else ("day", length.days)
