"""Subscriptions, products, prices, customers and checkout sessions in Stripe's own fields."""

from pathlib import Path
from typing import Any

import msgspec

from latchkey.emulators.stripe import stripe_books


class _Kind(msgspec.Struct, frozen=True):
    # The names of fields that have the same name in the books.
    same: str
    # What is the same for every object here.
    fixed: dict[str, Any]


_KINDS = msgspec.json.decode(Path(__file__).with_name("object_fields.json").read_bytes(), type=dict[str, _Kind])


def stripe_object(kind: str, record: Any, **fields: Any) -> dict[str, Any]:
    """An object of the API, its fields in alphabetical order as Stripe writes them."""
    same = {name: getattr(record, name) for name in ("id", *_KINDS[kind].same.split())}
    shown = same | _KINDS[kind].fixed | fields
    return {"id": shown.pop("id"), "object": kind, **dict(sorted(shown.items()))}


def subscription(books: stripe_books.StripeBooks, subscription: stripe_books.StripeSubscription) -> dict[str, Any]:
    cancel_at = subscription.ends if subscription.cancel_at_period_end else subscription.cancel_at
    setup = books.setups.get(subscription.setup or "")
    return stripe_object(
        "subscription",
        subscription,
        billing_cycle_anchor=subscription.anchor,
        cancel_at=cancel_at,
        cancellation_details={"comment": None, "feedback": None, "reason": subscription.cancel_reason},
        collection_method="send_invoice" if subscription.sends_invoices else "charge_automatically",
        items=listed(
            f"/v1/subscription_items?subscription={subscription.id}",
            [item(books, subscription, i) for i in subscription.items],
        ),
        livemode=books.live,
        pause_collection=pause_collection(subscription),
        pending_setup_intent=setup.id if setup is not None and setup.status != "succeeded" else None,
        start_date=subscription.created,
        trial_settings={
            "end_behavior": {
                "billing_cycle_anchor": None,
                "missing_payment_method": subscription.no_card or "create_invoice",
            }
        },
    )


def item(
    books: stripe_books.StripeBooks, subscription: stripe_books.StripeSubscription, item: stripe_books.StripeItem
) -> dict[str, Any]:
    sold = books.prices[item.price]
    return stripe_object(
        "subscription_item",
        item,
        current_period_end=item.ends,
        current_period_start=item.starts,
        plan=stripe_object(
            "plan", sold, amount_decimal=str(sold.amount), interval_count=sold.count, livemode=books.live
        ),
        price=price(books, sold),
        subscription=subscription.id,
    )


def schedule(books: stripe_books.StripeBooks, subscription: stripe_books.StripeSubscription) -> dict[str, Any]:
    """The subscription schedule of a change that waits for the end of the period."""
    following = subscription.next_price or subscription.items[0].price
    ends = stripe_books.next_period(books.prices[following], subscription.ends, subscription.anchor)
    return stripe_object(
        "subscription_schedule",
        subscription,
        id=subscription.schedule,
        created=subscription.starts,
        current_phase={"start_date": subscription.starts, "end_date": subscription.ends},
        livemode=books.live,
        phases=[
            _phase(subscription.items[0].price, subscription.starts, subscription.ends, subscription.items[0].quantity),
            _phase(following, subscription.ends, ends, subscription.items[0].quantity),
        ],
        subscription=subscription.id,
    )


def listed(url: str, data: list[dict[str, Any]], *, has_more: bool = False) -> dict[str, Any]:
    return {"object": "list", "data": data, "has_more": has_more, "url": url}


def pause_collection(subscription: stripe_books.StripeSubscription) -> dict[str, Any] | None:
    pause = subscription.pause
    return None if pause is None else {"behavior": pause.behavior, "resumes_at": pause.resumes_at}


def _phase(price: str, starts: int, ends: int, quantity: int) -> dict[str, Any]:
    return {
        "items": [{"price": price, "plan": price, "quantity": quantity, "metadata": {}}],
        "start_date": starts,
        "end_date": ends,
        "proration_behavior": "none",
        "metadata": {},
    }


def product(books: stripe_books.StripeBooks, product: stripe_books.StripeProduct) -> dict[str, Any]:
    first = next((price.id for price in books.prices.values() if price.product == product.id), None)
    return stripe_object("product", product, default_price=first, livemode=books.live, updated=product.created)


def price(books: stripe_books.StripeBooks, price: stripe_books.StripePrice) -> dict[str, Any]:
    recurring = {"interval": price.interval, "interval_count": price.count, "meter": None, "trial_period_days": None}
    return stripe_object(
        "price",
        price,
        livemode=books.live,
        recurring={**recurring, "usage_type": "licensed"} if price.interval else None,
        type="recurring" if price.interval else "one_time",
        unit_amount=price.amount,
        unit_amount_decimal=str(price.amount),
    )


def customer(books: stripe_books.StripeBooks, customer: stripe_books.StripeCustomer) -> dict[str, Any]:
    return stripe_object(
        "customer",
        customer,
        address=address(customer.country),
        invoice_prefix=customer.id[-8:].upper(),
        livemode=books.live,
    )


def address(country: str | None) -> dict[str, Any] | None:
    return None if country is None else postal_address(country)


def postal_address(country: str | None) -> dict[str, Any]:
    return {"city": None, "country": country, "line1": None, "line2": None, "postal_code": None, "state": None}


def session(books: stripe_books.StripeBooks, session: stripe_books.CheckoutSession) -> dict[str, Any]:
    customer = books.customers.get(session.customer or "")
    total = sum(books.prices[item.price].amount * item.quantity for item in session.items)
    free = bool(session.trial_days or session.trial_end) or total == 0
    paid = "no_payment_required" if free else "paid"
    hosted = session.ui_mode == "hosted_page"
    return stripe_object(
        "checkout.session",
        session,
        amount_subtotal=0 if free else total,
        amount_total=0 if free else total,
        client_secret=session_secret(books, session) if not hosted and session.status == "open" else None,
        customer_creation="always" if session.mode == "subscription" or session.makes_customer else "if_required",
        customer_details={
            "address": address(customer.country if customer else None),
            "email": (customer.email if customer else None) or session.customer_email,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_exempt": "none",
            "tax_ids": [],
        }
        if session.status == "complete"
        else None,
        livemode=books.live,
        payment_status=paid if free or session.status == "complete" else "unpaid",
        redirect_on_completion=None if hosted else ("always" if session.return_url else "never"),
        url=f"{session.page_at}/pay/{session.id}" if hosted and session.status == "open" else None,
    )


def session_secret(books: stripe_books.StripeBooks, session: stripe_books.CheckoutSession) -> str:
    return f"{session.id}_secret_{stripe_books.drawn(books.series, f'secret of {session.id}', 25)}"


def session_item(
    books: stripe_books.StripeBooks, session: stripe_books.CheckoutSession, item: stripe_books.CheckoutItem
) -> dict[str, Any]:
    sold = books.prices[item.price]
    amount = sold.amount * item.quantity
    free = session.mode == "subscription" and bool(session.trial_days or session.trial_end)
    return stripe_object(
        "item",
        item,
        amount_subtotal=0 if free else amount,
        amount_total=0 if free else amount,
        currency=sold.currency,
        description=books.products[sold.product].name,
        price=price(books, sold),
    )
