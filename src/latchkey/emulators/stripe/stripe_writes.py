"""Writes of the API: what Stripe's forms ask to change."""

from collections.abc import Mapping
from typing import Any

from latchkey.domain.refusal import Refusal
from latchkey.emulators.stripe import stripe_acts as acts
from latchkey.emulators.stripe import stripe_billing, stripe_purchases
from latchkey.emulators.stripe.stripe_books import StripePrice
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset
from latchkey.emulators.stripe.stripe_queries import StripeError, charge_for, items, number

Asked = Mapping[str, Any]


def new_customer(changes: StripeChangeset, asked: Asked) -> str:
    address = _inside(asked, "address")
    made = stripe_purchases.new_customer(
        changes,
        name=asked.get("name"),
        email=asked.get("email"),
        country=address.get("country"),
        metadata=metadata_of(asked),
    )
    return made.id


def new_subscription(changes: StripeChangeset, asked: Asked) -> str:
    customer = _customer(changes, asked)
    cart = _cart(changes, asked.get("items"), "items")
    behavior = asked.get("payment_behavior", "allow_incomplete")
    trial_end = None
    if (days := asked.get("trial_period_days")) is not None:
        trial_end = changes.at + number(asked, "trial_period_days") * 86_400 if days != "0" else None
    elif asked.get("trial_end") not in (None, "now"):
        trial_end = number(asked, "trial_end")
    sends = asked.get("collection_method") == "send_invoice"
    made = stripe_purchases.subscribe(
        changes,
        customer,
        cart,
        metadata=metadata_of(asked),
        trial_end=trial_end,
        waits=behavior == "default_incomplete",
        sends_invoices=sends,
        days_until_due=number(asked, "days_until_due", 30) if sends else None,
    )
    return made.id


def change_subscription(changes: StripeChangeset, id: str, asked: Asked) -> None:
    """One or more of: cancel_at_period_end, cancel_at, items, trial_end."""
    before = changes.subscription(id)
    if (at_end := asked.get("cancel_at_period_end")) is not None and (at_end == "true") != before.cancel_at_period_end:
        (acts.cancel if at_end == "true" else acts.uncancel)(changes, id)
    if asked.get("cancel_at"):
        acts.cancel_at(changes, id, number(asked, "cancel_at"))
    elif asked.get("cancel_at") == "" and before.cancel_at is not None:
        acts.uncancel(changes, id)
    for item in items(asked.get("items")):
        price = item.get("price") or next((known.price for known in before.items if known.id == item.get("id")), "")
        quantity = number(item, "quantity") if "quantity" in item else None
        proration = asked.get("proration_behavior", "create_prorations")
        if proration not in ("create_prorations", "always_invoice", "none"):
            raise StripeError(400, "Invalid proration_behavior", param="proration_behavior")
        if item.get("deleted") == "true":
            acts.remove_item(changes, id, item=str(item.get("id")), proration=proration)
        elif "id" not in item:
            acts.add_item(changes, id, price, proration=proration, quantity=quantity or 1)
        else:
            acts.change_now(changes, id, price, proration=proration, item=item.get("id"), quantity=quantity)
    if asked.get("trial_end") not in (None, "", "now"):
        acts.extend_trial_to(changes, id, number(asked, "trial_end"))


def cancel_subscription(changes: StripeChangeset, id: str, asked: Asked) -> None:  # noqa: ARG001 - as all of them
    try:
        acts.cancel_now(changes, id)
    except Refusal as refusal:
        raise StripeError(404, f"No such subscription: {id[:100]}", code="resource_missing", param="id") from refusal


def new_refund(changes: StripeChangeset, asked: Asked) -> str:
    amount = number(asked, "amount") if "amount" in asked else None
    charge = charge_for(changes.books, asked)
    reason = asked.get("reason")
    return stripe_billing.give_back(changes, charge, amount=amount, reason=reason, metadata=metadata_of(asked)).id


def new_intent(changes: StripeChangeset, asked: Asked) -> str:
    amount, currency = number(asked, "amount"), _needed(asked, "currency").lower()
    if amount < 1:
        raise StripeError(400, "This value must be greater than or equal to 1.", param="amount")
    customer = _customer(changes, asked).id if asked.get("customer") else None
    fields = {"metadata": metadata_of(asked), "setup_future_usage": asked.get("setup_future_usage")}
    made = stripe_billing.new_intent(changes, amount, currency, customer, **fields)
    changes.emit("payment_intent.created", made)
    return made.id


def confirm_intent(changes: StripeChangeset, id: str, asked: Asked) -> None:
    stripe_purchases.confirm_intent(changes, id, declined=_is_declined(asked))


def new_setup(changes: StripeChangeset, asked: Asked) -> str:
    made = stripe_purchases.new_setup(
        changes, _customer(changes, asked).id if asked.get("customer") else None, metadata_of(asked)
    )
    return made.id


def confirm_setup(changes: StripeChangeset, id: str, asked: Asked) -> None:
    if _is_declined(asked):
        raise StripeError(402, "Your card was declined.", code="card_declined")
    stripe_purchases.confirm_setup(changes, id)


def new_session(changes: StripeChangeset, asked: Asked, page_at: str) -> str:
    mode = asked.get("mode")
    if mode not in ("payment", "subscription"):
        raise StripeError(400, "Invalid mode: must be one of payment or subscription", param="mode")
    ui_mode = asked.get("ui_mode", "hosted_page")
    if ui_mode not in ("elements", "embedded_page", "form", "hosted_page"):
        raise StripeError(
            400, "Invalid ui_mode: must be one of elements, embedded_page, form, or hosted_page", param="ui_mode"
        )
    cart = _cart(changes, asked.get("line_items"), "line_items")
    if ui_mode == "hosted_page" and not asked.get("success_url"):
        raise StripeError(400, "Missing required param: success_url.", code="parameter_missing", param="success_url")
    redirects = asked.get("redirect_on_completion", "always") != "never"
    if ui_mode == "embedded_page" and redirects and not asked.get("return_url"):
        raise StripeError(400, "Missing required param: return_url.", code="parameter_missing", param="return_url")
    inner = _inside(asked, "payment_intent_data" if mode == "payment" else "subscription_data")
    made = stripe_purchases.start_session(
        changes,
        cart,
        mode,
        ui_mode=ui_mode,
        customer=_customer(changes, asked).id if asked.get("customer") else None,
        customer_email=asked.get("customer_email"),
        makes_customer=asked.get("customer_creation") == "always",
        client_reference_id=asked.get("client_reference_id"),
        metadata=metadata_of(asked),
        made_metadata=metadata_of(inner),
        trial_days=number(inner, "trial_period_days") if "trial_period_days" in inner else None,
        success_url=asked.get("success_url"),
        cancel_url=asked.get("cancel_url"),
        return_url=asked.get("return_url"),
        page_at=page_at,
    )
    return made.id


def expire_session(changes: StripeChangeset, id: str, asked: Asked) -> None:  # noqa: ARG001 - as all of them
    stripe_purchases.expire_session(changes, id)


def complete_session(changes: StripeChangeset, id: str, asked: Asked) -> None:
    if _is_declined(asked):
        raise StripeError(402, "Your card was declined.", code="card_declined")
    session = changes.session(id)
    if session.customer_email is None and asked.get("email"):
        session = changes.put(session, customer_email=str(asked["email"]))
    stripe_purchases.complete_session(changes, session, buyer=asked.get("name"), country=asked.get("country"))


def metadata_of(asked: Asked) -> dict[str, str]:
    return {name: str(value) for name, value in _inside(asked, "metadata").items() if value != ""}


def _cart(changes: StripeChangeset, given: Any, param: str) -> list[tuple[StripePrice, int]]:
    cart = []
    for place, item in enumerate(items(given)):
        id = item.get("price") if isinstance(item, dict) else None
        price = changes.books.prices.get(str(id))
        if price is None:
            named = f"{param}[{place}][price]"
            raise StripeError(400, f"No such price: '{str(id)[:100]}'", code="resource_missing", param=named)
        cart.append((price, number(item, "quantity", 1)))
    if not cart:
        raise StripeError(400, f"Missing required param: {param}.", code="parameter_missing", param=param)
    return cart


def _customer(changes: StripeChangeset, asked: Asked) -> Any:
    id = _needed(asked, "customer")
    if id not in changes.books.customers:
        raise StripeError(400, f"No such customer: '{id[:100]}'", code="resource_missing", param="customer")
    return changes.customer(id)


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
