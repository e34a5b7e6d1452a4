"""What customers buy at Stripe: subscriptions, checkout sessions, single payments. Each function works on one change of
the books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latchkey.domain.instants import SECOND, add
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.stripe import stripe_billing
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    CheckoutItem,
    CheckoutSession,
    PaymentIntent,
    Seconds,
    SetupIntent,
    StripeCustomer,
    StripeItem,
    StripePrice,
    StripeStatus,
    StripeSubscription,
    next_period,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

SESSION_LASTS: Seconds = DAY_S
# What is sold, and how many of it.
Cart = Sequence[tuple[StripePrice, int]]


def price_named(w: StripeChangeset, name: str) -> StripePrice:
    """By `product:price`, by the price's id, or by the product's id if it has one price."""
    found = w.life.prices.get(name.rpartition(":")[2])
    if found is not None and name in (found.id, found.name):
        return found
    of_product = [one for one in w.life.prices.values() if one.product == name and one.active]
    if len(of_product) == 1:
        return of_product[0]
    sold = ", ".join(one.name for one in w.life.prices.values())
    raise NotFound(f"The store sells no product {name!r}. It sells: {sold}.", param="product_id")


def customer_named(w: StripeChangeset, buyer: str, country: str | None, metadata: Mapping[str, str]) -> StripeCustomer:
    """The customer of this name, made at the first purchase."""
    found = next((one for one in w.life.customers.values() if one.name == buyer), None)
    if found is not None:
        if dict(metadata).items() <= found.metadata.items():
            return found
        return w.put(found, metadata={**found.metadata, **metadata})
    return new_customer(w, name=buyer, country=country, metadata=dict(metadata))


def new_customer(w: StripeChangeset, **fields: Any) -> StripeCustomer:
    customer = w.put(StripeCustomer(id=w.id("cus"), created=w.at, **fields))
    w.tell("customer.created", customer)
    return customer


def subscribe(
    w: StripeChangeset,
    customer: StripeCustomer,
    cart: Cart,
    *,
    metadata: Mapping[str, str],
    trial_end: Seconds | None = None,
    waits: bool = False,
    declined: bool = False,
    **behaviour: Any,
) -> StripeSubscription:
    """A new subscription and its first invoice. It is incomplete if the first payment `waits` for the customer, or was
    `declined`. `behaviour` are further fields of the subscription."""
    first, _ = cart[0]
    if any(price.interval is None for price, _ in cart):
        raise Refusal("The price is paid once; a subscription needs a recurring price.", param="items")
    if any((price.currency, price.interval, price.count) != (first.currency, first.interval, first.count)
           for price, _ in cart):  # fmt: skip
        raise Refusal("All items of a subscription have the same currency and interval.", param="items")
    ends = trial_end if trial_end is not None else next_period(first, w.at, w.at)
    items = tuple(
        StripeItem(id=w.id("si"), price=price.id, created=w.at, starts=w.at, ends=ends, quantity=quantity)
        for price, quantity in cart
    )
    subscription = StripeSubscription(
        id=w.id("sub"),
        customer=customer.id,
        currency=first.currency,
        created=w.at,
        items=items,
        status=StripeStatus.TRIALING if trial_end is not None else StripeStatus.ACTIVE,
        anchor=ends if trial_end is not None else w.at,
        trial_start=w.at if trial_end is not None else None,
        trial_end=trial_end,
        metadata=dict(metadata),
        **behaviour,
    )
    costs = trial_end is None and any(price.amount * quantity for price, quantity in cart)
    if costs and (waits or declined) and not subscription.sends_invoices:
        subscription = w.put(subscription, status=StripeStatus.INCOMPLETE)
    elif waits and trial_end is not None:
        subscription = w.put(subscription, setup=new_setup(w, customer.id, metadata).id)
    w.put(subscription)
    lines = tuple(stripe_billing.line_of(w, one, free=trial_end is not None) for one in items)
    invoice = stripe_billing.draft(w, subscription, "subscription_create", lines)
    subscription = w.subscription(subscription.id)
    w.tell("customer.subscription.created", subscription, subject=subscription.id)
    w.tell("invoice.created", invoice, subject=subscription.id)
    invoice = stripe_billing.finalize(w, invoice)
    if invoice.status == "open" and not subscription.sends_invoices:
        if declined:
            stripe_billing.fail(w, invoice, next_attempt=None)
        elif not waits:
            stripe_billing.pay(w, invoice)
    return w.subscription(subscription.id)


def new_setup(w: StripeChangeset, customer: str | None, metadata: Mapping[str, str]) -> SetupIntent:
    id = w.id("seti")
    made = w.put(SetupIntent(id=id, secret=w.secret(id), customer=customer, created=w.at, metadata=dict(metadata)))
    w.tell("setup_intent.created", made)
    return made


def new_intent(
    w: StripeChangeset, amount: int, currency: str, *, customer: str | None, metadata: Mapping[str, str], **more: Any
) -> PaymentIntent:
    id = w.id("pi")
    made = PaymentIntent(
        id=id,
        secret=w.secret(id),
        amount=amount,
        currency=currency,
        customer=customer,
        created=w.at,
        metadata=dict(metadata),
        **more,
    )
    w.put(made)
    w.tell("payment_intent.created", made, subject=made.session)
    return made


def confirm_intent(w: StripeChangeset, id: str, *, declined: bool = False) -> PaymentIntent:
    """The customer pays: an invoice, a checkout, or a payment by itself."""
    intent = w.intent(id)
    if intent.status == "succeeded":
        raise Refusal("You cannot confirm this PaymentIntent because it has already succeeded after being previously "
                      "confirmed.", param="intent")  # fmt: skip
    if intent.status == "canceled":
        raise Refusal("You cannot confirm this PaymentIntent because it has a status of canceled.", param="intent")
    if declined:
        if intent.invoice is not None:
            stripe_billing.fail(w, w.invoice(intent.invoice), next_attempt=None)
        else:
            w.tell("payment_intent.payment_failed", w.put(intent, failed=True), subject=intent.session)
        return w.intent(id)
    if intent.invoice is not None:
        stripe_billing.pay(w, w.invoice(intent.invoice))
    else:
        stripe_billing.charged(w, intent, subject=intent.session)
    return w.intent(id)


def confirm_setup(w: StripeChangeset, id: str) -> SetupIntent:
    found = w.life.setups.get(id)
    if found is None:
        raise NotFound(f"No such setupintent: '{id}'", param="intent")
    if found.status == "succeeded":
        raise Refusal("You cannot confirm this SetupIntent because it has already succeeded.", param="intent")
    found = w.put(found, status="succeeded")
    w.tell("setup_intent.succeeded", found)
    return found


def start_session(w: StripeChangeset, cart: Cart, mode: str, **fields: Any) -> CheckoutSession:
    """An open checkout session."""
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
    items = tuple(CheckoutItem(id=w.id("li"), price=price.id, quantity=quantity) for price, quantity in cart)
    made: Any = {
        "id": w.id("cs"),
        "mode": mode,
        "created": w.at,
        "expires_at": w.at + SESSION_LASTS,
        "currency": cart[0][0].currency if cart else "usd",
        "items": items,
        **fields,
    }
    return w.put(CheckoutSession(**made))


def complete_session(
    w: StripeChangeset, session: CheckoutSession, *, buyer: str | None = None, country: str | None = None
) -> CheckoutSession:
    """The customer has paid: the subscription or the payment exists now."""
    if session.status != "open":
        raise Refusal(f"The checkout session is {session.status}.", param="act")
    customer = w.life.customers.get(session.customer or "")
    if customer is None and (session.mode == "subscription" or session.makes_customer or buyer is not None):
        customer = new_customer(w, name=buyer, email=session.email, country=country)
    elif customer is not None and customer.country is None and country is not None:
        customer = w.put(customer, country=country)
    session = w.put(session, customer=customer.id if customer else None)
    cart = [(w.price(one.price), one.quantity) for one in session.items]
    if session.mode == "subscription":
        assert customer is not None
        trial_end = session.trial_end
        if session.trial_days is not None:
            trial_end = w.at + session.trial_days * DAY_S
        made = subscribe(w, customer, cart, metadata=session.made_metadata, trial_end=trial_end)
        session = w.put(session, subscription=made.id, invoice=made.latest_invoice)
        subject = made.id
    elif session.mode == "payment":
        amount = sum(price.amount * quantity for price, quantity in cart)
        owner = customer.id if customer else None
        intent = new_intent(
            w, amount, session.currency, customer=owner, metadata=session.made_metadata, session=session.id
        )
        session, subject = w.put(session, intent=intent.id), session.id
        stripe_billing.charged(w, intent, subject=session.id)
    else:
        setup = new_setup(w, session.customer, session.made_metadata)
        confirm_setup(w, setup.id)
        session, subject = w.put(session, setup=setup.id), session.id
    session = w.put(session, status="complete")
    w.tell("checkout.session.completed", session, subject=subject)
    return session


def expire_session(w: StripeChangeset, session: CheckoutSession) -> CheckoutSession:
    if session.status != "open":
        raise Refusal(f"Only Checkout Sessions with a status of open can be expired; this is {session.status}.")
    session = w.put(session, status="expired", expires_at=w.at)
    w.tell("checkout.session.expired", session, subject=session.id)
    return session


def trial_end_of(w: StripeChangeset, price: StripePrice) -> Seconds:
    if price.trial is None:
        raise Refusal(f"{price.name!r} has no trial on offer.", param="trial")
    return add(w.at * SECOND, price.trial) // SECOND
