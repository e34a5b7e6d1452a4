"""Subscriptions, products, prices, customers and checkout sessions in Stripe's own fields."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias

import msgspec

from latchkey.emulators.stripe import stripe_books
from latchkey.emulators.stripe.stripe_books import StripeBooks

P = ParamSpec("P")
Json: TypeAlias = dict[str, Any]
Fields: TypeAlias = Callable[Concatenate[StripeBooks, P], Json]


class _Kind(msgspec.Struct, frozen=True):
    # The names of fields that have the same name in the books.
    same: str
    # What is the same for every object here; `livemode` is that of the books.
    fixed: Json


_KINDS = msgspec.json.decode(Path(__file__).with_name("object_fields.json").read_bytes(), type=dict[str, _Kind])


def stripe_object(books: StripeBooks, kind: str, record: Any, fields: Json) -> Json:
    """An object of the API, its fields in alphabetical order as Stripe writes them."""
    shown = {name: getattr(record, name) for name in ("id", *_KINDS[kind].same.split())} | _KINDS[kind].fixed | fields
    if "livemode" in shown:
        shown["livemode"] = books.live
    return {"id": shown.pop("id"), "object": kind, **dict(sorted(shown.items()))}


def renders(kind: str) -> Callable[[Fields[P]], Fields[P]]:
    """The whole object, by a function that gives the fields that are neither fixed nor in the books as they are. Its
    last argument is what is shown."""

    def whole(fields_of: Fields[P]) -> Fields[P]:
        def render(books: StripeBooks, /, *about: P.args, **named: P.kwargs) -> Json:
            return stripe_object(books, kind, about[-1], fields_of(books, *about, **named))

        return render

    return whole


@renders("subscription")
def subscription(books: StripeBooks, subscription: stripe_books.StripeSubscription) -> Json:
    cancel_at = subscription.ends if subscription.cancel_at_period_end else subscription.cancel_at
    setup = books.setups.get(subscription.setup or "")
    return {
        "billing_cycle_anchor": subscription.anchor,
        "cancel_at": cancel_at,
        "cancellation_details": {"comment": None, "feedback": None, "reason": subscription.cancel_reason},
        "collection_method": "send_invoice" if subscription.sends_invoices else "charge_automatically",
        "items": listed(
            f"/v1/subscription_items?subscription={subscription.id}",
            [item(books, subscription, i) for i in subscription.items],
        ),
        "pause_collection": msgspec.to_builtins(subscription.pause),
        "pending_setup_intent": setup.id if setup is not None and setup.status != "succeeded" else None,
        "start_date": subscription.created,
        "trial_settings": {
            "end_behavior": {
                "billing_cycle_anchor": None,
                "missing_payment_method": subscription.no_card or "create_invoice",
            }
        },
    }


@renders("subscription_item")
def item(books: StripeBooks, subscription: stripe_books.StripeSubscription, item: stripe_books.StripeItem) -> Json:
    sold = books.prices[item.price]
    return {
        "current_period_end": item.ends,
        "current_period_start": item.starts,
        "plan": stripe_object(books, "plan", sold, {"amount_decimal": str(sold.amount), "interval_count": sold.count}),
        "price": price(books, sold),
        "subscription": subscription.id,
    }


@renders("subscription_schedule")
def schedule(books: StripeBooks, subscription: stripe_books.StripeSubscription) -> Json:
    """The subscription schedule of a change that waits for the end of the period."""
    following = subscription.next_price or subscription.items[0].price
    ends = stripe_books.next_period(books.prices[following], subscription.ends, subscription.anchor)
    return {
        "id": subscription.schedule,
        "created": subscription.starts,
        "current_phase": {"start_date": subscription.starts, "end_date": subscription.ends},
        "phases": [
            _phase(subscription.items[0].price, subscription.starts, subscription.ends, subscription.items[0].quantity),
            _phase(following, subscription.ends, ends, subscription.items[0].quantity),
        ],
        "subscription": subscription.id,
    }


def listed(url: str, data: list[Json], *, has_more: bool = False) -> Json:
    return {"object": "list", "data": data, "has_more": has_more, "url": url}


def _phase(price: str, starts: int, ends: int, quantity: int) -> Json:
    return {
        "items": [{"price": price, "plan": price, "quantity": quantity, "metadata": {}}],
        "start_date": starts,
        "end_date": ends,
        "proration_behavior": "none",
        "metadata": {},
    }


@renders("product")
def product(books: StripeBooks, product: stripe_books.StripeProduct) -> Json:
    first = next((price.id for price in books.prices.values() if price.product == product.id), None)
    return {"default_price": first, "updated": product.created}


@renders("price")
def price(_: StripeBooks, price: stripe_books.StripePrice) -> Json:
    recurring = {"interval": price.interval, "interval_count": price.count, "meter": None, "trial_period_days": None}
    return {
        "recurring": {**recurring, "usage_type": "licensed"} if price.interval else None,
        "type": "recurring" if price.interval else "one_time",
        "unit_amount": price.amount,
        "unit_amount_decimal": str(price.amount),
    }


@renders("customer")
def customer(_: StripeBooks, customer: stripe_books.StripeCustomer) -> Json:
    return {"address": address(customer.country), "invoice_prefix": customer.id[-8:].upper()}


def address(country: str | None) -> Json | None:
    return None if country is None else postal_address(country)


def postal_address(country: str | None) -> Json:
    return {"city": None, "country": country, "line1": None, "line2": None, "postal_code": None, "state": None}


@renders("checkout.session")
def session(books: StripeBooks, session: stripe_books.CheckoutSession) -> Json:
    customer = books.customers.get(session.customer or "")
    total = sum(books.prices[item.price].amount * item.quantity for item in session.items)
    free = bool(session.trial_days or session.trial_end) or total == 0
    paid = "no_payment_required" if free else "paid"
    hosted = session.ui_mode == "hosted_page"
    return {
        "amount_subtotal": 0 if free else total,
        "amount_total": 0 if free else total,
        "client_secret": stripe_books.secret_of(books, session.id) if not hosted and session.status == "open" else None,
        "customer_creation": "always" if session.mode == "subscription" or session.makes_customer else "if_required",
        "customer_details": {
            "address": address(customer.country if customer else None),
            "email": (customer.email if customer else None) or session.customer_email,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_exempt": "none",
            "tax_ids": [],
        }
        if session.status == "complete"
        else None,
        "payment_status": paid if free or session.status == "complete" else "unpaid",
        "redirect_on_completion": None if hosted else ("always" if session.return_url else "never"),
        "url": f"{session.page_at}/pay/{session.id}" if hosted and session.status == "open" else None,
    }


@renders("item")
def session_item(books: StripeBooks, session: stripe_books.CheckoutSession, item: stripe_books.CheckoutItem) -> Json:
    sold = books.prices[item.price]
    amount = sold.amount * item.quantity
    free = session.mode == "subscription" and bool(session.trial_days or session.trial_end)
    return {
        "amount_subtotal": 0 if free else amount,
        "amount_total": 0 if free else amount,
        "currency": sold.currency,
        "description": books.products[sold.product].name,
        "price": price(books, sold),
    }
