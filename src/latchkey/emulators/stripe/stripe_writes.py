"""Writes of the API: what Stripe's forms ask to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from latchkey.domain.refusal import Refusal
from latchkey.emulators.stripe import stripe_acts, stripe_billing, stripe_purchases
from latchkey.emulators.stripe.stripe_books import (
    Seconds,
    StripeBooks,
    StripeEvent,
    StripePause,
    StripePrice,
    StripeProduct,
    StripeStep,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset
from latchkey.emulators.stripe.stripe_queries import StripeError, charge_for, items

Asked = Mapping[str, Any]
# The new books, the events, and the id of the object to answer with.
Made = tuple[StripeBooks, tuple[StripeEvent, ...], str]


def new_customer(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    address = _inside(asked, "address")
    made = stripe_purchases.new_customer(
        w,
        name=asked.get("name"),
        email=asked.get("email"),
        country=address.get("country"),
        metadata=metadata_of(asked),
    )
    return *w.done(), made.id


def change_customer(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    one = w.customer(id)
    address = _inside(asked, "address")
    w.put(
        one,
        name=asked.get("name", one.name),
        email=asked.get("email", one.email),
        country=address.get("country", one.country),
        metadata=merged(one.metadata, asked),
    )
    w.tell("customer.updated", w.customer(id))
    return *w.done(), id


def new_product(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    id = str(asked.get("id") or w.id("prod"))
    if id in life.products:
        raise StripeError(400, f"Product already exists: {id[:100]}", code="resource_already_exists", param="id")
    w.put(StripeProduct(id=id, name=_needed(asked, "name"), created=at, metadata=metadata_of(asked)))
    w.tell("product.created", w.life.products[id])
    return *w.done(), id


def new_price(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    product = _needed(asked, "product")
    if product not in life.products:
        raise StripeError(400, f"No such product: '{product[:100]}'", code="resource_missing", param="product")
    recurring = _inside(asked, "recurring")
    interval = recurring.get("interval")
    if interval not in (None, "day", "week", "month", "year"):
        raise StripeError(400, "Invalid recurring[interval]: must be one of day, month, week, or year",
                          param="recurring[interval]")  # fmt: skip
    made = StripePrice(
        id=w.id("price"),
        product=product,
        amount=number(asked, "unit_amount"),
        currency=_needed(asked, "currency").lower(),
        created=at,
        interval=interval,
        count=number(recurring, "interval_count", 1),
        lookup_key=asked.get("lookup_key"),
        metadata=metadata_of(asked),
    )
    w.put(made)
    w.tell("price.created", made)
    return *w.done(), made.id


def new_subscription(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    customer = _customer(w, asked)
    cart = _cart(w, asked.get("items"), "items")
    behavior = asked.get("payment_behavior", "allow_incomplete")
    trial_end = None
    if (days := asked.get("trial_period_days")) is not None:
        trial_end = at + number(asked, "trial_period_days") * 86_400 if days != "0" else None
    elif asked.get("trial_end") not in (None, "now"):
        trial_end = number(asked, "trial_end")
    sends = asked.get("collection_method") == "send_invoice"
    made = stripe_purchases.subscribe(
        w,
        customer,
        cart,
        metadata=metadata_of(asked),
        trial_end=trial_end,
        waits=behavior == "default_incomplete",
        sends_invoices=sends,
        days_until_due=number(asked, "days_until_due", 30) if sends else None,
    )
    return *w.done(), made.id


def change_subscription(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:
    """One or more of: metadata, cancel_at_period_end, cancel_at, items, pause_collection, trial_end."""
    events: tuple[StripeEvent, ...] = ()

    def then(step: StripeStep) -> None:
        nonlocal life, events
        life, events = step[0], (*events, *step[1])

    one = StripeChangeset(life, at).subscription(id)
    if "metadata" in asked:
        then(stripe_acts.set_metadata(life, at, id, merged(one.metadata, asked)))
    if (at_end := asked.get("cancel_at_period_end")) is not None and (at_end == "true") != one.cancel_at_period_end:
        then(stripe_acts.cancel(life, at, id) if at_end == "true" else stripe_acts.uncancel(life, at, id))
    if asked.get("cancel_at"):
        then(stripe_acts.cancel_at(life, at, id, number(asked, "cancel_at")))
    elif asked.get("cancel_at") == "" and one.cancel_at is not None:
        then(stripe_acts.uncancel(life, at, id))
    for item in items(asked.get("items")):
        price = item.get("price") or next((each.price for each in one.items if each.id == item.get("id")), "")
        quantity = number(item, "quantity") if "quantity" in item else None
        proration = asked.get("proration_behavior", "create_prorations")
        if proration not in ("create_prorations", "always_invoice", "none"):
            raise StripeError(400, "Invalid proration_behavior", param="proration_behavior")
        if item.get("deleted") == "true":
            then(stripe_acts.remove_item(life, at, id, str(item.get("id")), proration=proration))
            continue
        then(stripe_acts.change(life, at, id, price, proration=proration, item=item.get("id"), quantity=quantity))
    pause = asked.get("pause_collection")
    if isinstance(pause, dict):
        behavior = pause.get("behavior")
        if behavior not in ("void", "keep_as_draft", "mark_uncollectible"):
            raise StripeError(400, "Invalid pause_collection[behavior]", param="pause_collection[behavior]")
        until = number(pause, "resumes_at") if pause.get("resumes_at") else None
        then(stripe_acts.pause(life, at, id, StripePause(behavior=behavior, resumes_at=until)))
    elif pause == "" and one.pause is not None:
        then(stripe_acts.resume(life, at, id))
    if asked.get("trial_end") not in (None, "", "now"):
        then(stripe_acts.extend_trial(life, at, id, until=number(asked, "trial_end")))
    return life, events, id


def cancel_subscription(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:  # noqa: ARG001 - as all of them
    try:
        return *stripe_acts.cancel_now(life, at, id), id
    except Refusal as refusal:
        raise StripeError(404, f"No such subscription: {id[:100]}", code="resource_missing", param="id") from refusal


def new_refund(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    amount = number(asked, "amount") if "amount" in asked else None
    charge = charge_for(life, asked)
    before = life.refunds.keys()
    step = stripe_billing.refund(
        life, at, charge, amount=amount, reason=asked.get("reason"), metadata=metadata_of(asked)
    )
    (made,) = step[0].refunds.keys() - before
    return *step, made


def new_intent(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    amount, currency = number(asked, "amount"), _needed(asked, "currency").lower()
    if amount < 1:
        raise StripeError(400, "This value must be greater than or equal to 1.", param="amount")
    made = stripe_purchases.new_intent(
        w,
        amount,
        currency,
        customer=_customer(w, asked).id if asked.get("customer") else None,
        metadata=metadata_of(asked),
        setup_future_usage=asked.get("setup_future_usage"),
    )
    if asked.get("confirm") == "true":
        stripe_purchases.confirm_intent(w, made.id)
    return *w.done(), made.id


def change_intent(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    one = w.intent(id)
    amount = number(asked, "amount", one.amount)
    w.put(replace(one, amount=amount, metadata=merged(one.metadata, asked)))
    return *w.done(), id


def confirm_intent(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    stripe_purchases.confirm_intent(w, id, declined=_is_declined(asked))
    return *w.done(), id


def new_setup(life: StripeBooks, at: Seconds, asked: Asked) -> Made:
    w = StripeChangeset(life, at)
    made = stripe_purchases.new_setup(w, _customer(w, asked).id if asked.get("customer") else None, metadata_of(asked))
    return *w.done(), made.id


def confirm_setup(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:
    if _is_declined(asked):
        raise StripeError(402, "Your card was declined.", code="card_declined")
    w = StripeChangeset(life, at)
    stripe_purchases.confirm_setup(w, id)
    return *w.done(), id


def new_session(life: StripeBooks, at: Seconds, asked: Asked, page_at: str) -> Made:
    w = StripeChangeset(life, at)
    mode = asked.get("mode")
    if mode not in ("payment", "subscription", "setup"):
        raise StripeError(400, "Invalid mode: must be one of payment, setup, or subscription", param="mode")
    ui_mode = asked.get("ui_mode", "hosted_page")
    if ui_mode not in ("elements", "embedded_page", "form", "hosted_page"):
        raise StripeError(
            400, "Invalid ui_mode: must be one of elements, embedded_page, form, or hosted_page", param="ui_mode"
        )
    cart = _cart(w, asked.get("line_items"), "line_items") if mode != "setup" else []
    if ui_mode == "hosted_page" and not asked.get("success_url"):
        raise StripeError(400, "Missing required param: success_url.", code="parameter_missing", param="success_url")
    redirects = asked.get("redirect_on_completion", "always") != "never"
    if ui_mode == "embedded_page" and redirects and not asked.get("return_url"):
        raise StripeError(400, "Missing required param: return_url.", code="parameter_missing", param="return_url")
    inner = _inside(
        asked, {"payment": "payment_intent_data", "setup": "setup_intent_data"}.get(mode, "subscription_data")
    )
    made = stripe_purchases.start_session(
        w,
        cart,
        mode,
        ui_mode=ui_mode,
        customer=_customer(w, asked).id if asked.get("customer") else None,
        email=asked.get("customer_email"),
        makes_customer=asked.get("customer_creation") == "always",
        client_reference_id=asked.get("client_reference_id"),
        metadata=metadata_of(asked),
        made_metadata=metadata_of(inner),
        trial_days=number(inner, "trial_period_days") if "trial_period_days" in inner else None,
        trial_end=number(inner, "trial_end") if "trial_end" in inner else None,
        success_url=asked.get("success_url"),
        cancel_url=asked.get("cancel_url"),
        return_url=asked.get("return_url"),
        page_at=page_at,
    )
    return *w.done(), made.id


def expire_session(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:  # noqa: ARG001 - as all of them
    w = StripeChangeset(life, at)
    stripe_purchases.expire_session(w, w.session(id))
    return *w.done(), id


def complete_session(life: StripeBooks, at: Seconds, id: str, asked: Asked) -> Made:
    """What the checkout's page asks for."""
    if _is_declined(asked):
        raise StripeError(402, "Your card was declined.", code="card_declined")
    w = StripeChangeset(life, at)
    session = w.session(id)
    if session.email is None and asked.get("email"):
        session = w.put(session, email=str(asked["email"]))
    stripe_purchases.complete_session(w, session, buyer=asked.get("name"), country=asked.get("country"))
    return *w.done(), id


def metadata_of(asked: Asked) -> dict[str, str]:
    return {name: str(value) for name, value in _inside(asked, "metadata").items() if value != ""}


def merged(before: dict[str, str], asked: Asked) -> dict[str, str]:
    """An empty value takes a key away; without keys, all of them."""
    if asked.get("metadata") == "":
        return {}
    said = _inside(asked, "metadata")
    return {name: str(value) for name, value in {**before, **said}.items() if value != ""}


def number(asked: Asked, name: str, ordinary: int | None = None) -> int:
    text = asked.get(name)
    if text is None and ordinary is not None:
        return ordinary
    if not isinstance(text, str) or not text.isdigit() or len(text) > 12:
        raise StripeError(400, f"Invalid integer: {str(text)[:100]}", code="parameter_invalid_integer", param=name)
    return int(text)


def _cart(w: StripeChangeset, given: Any, param: str) -> list[tuple[StripePrice, int]]:
    cart = []
    for place, one in enumerate(items(given)):
        id = one.get("price") if isinstance(one, dict) else None
        price = w.life.prices.get(str(id))
        if price is None:
            named = f"{param}[{place}][price]"
            raise StripeError(400, f"No such price: '{str(id)[:100]}'", code="resource_missing", param=named)
        cart.append((price, number(one, "quantity", 1)))
    if not cart:
        raise StripeError(400, f"Missing required param: {param}.", code="parameter_missing", param=param)
    return cart


def _customer(w: StripeChangeset, asked: Asked) -> Any:
    id = _needed(asked, "customer")
    if id not in w.life.customers:
        raise StripeError(400, f"No such customer: '{id[:100]}'", code="resource_missing", param="customer")
    return w.customer(id)


def _is_declined(asked: Asked) -> bool:
    """Stripe's test card that is always declined, by its payment method."""
    return "declined" in str(asked.get("payment_method", "")).lower()


def _needed(asked: Asked, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        raise StripeError(400, f"Missing required param: {name}.", code="parameter_missing", param=name)
    return value


def _inside(asked: Asked, name: str) -> dict[str, Any]:
    value = asked.get(name)
    return value if isinstance(value, dict) else {}
