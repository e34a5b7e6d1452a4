"""Subscriptions, products, prices, customers and checkout sessions in Stripe's own fields."""

from typing import Any

from latchkey.emulators.stripe.stripe_books import (
    CheckoutItem,
    CheckoutSession,
    StripeBooks,
    StripeCustomer,
    StripeItem,
    StripePrice,
    StripeProduct,
    StripeSubscription,
    drawn,
    next_period,
)


def stripe_object(kind: str, record: Any, *, same: str = "", unset: str = "", **fields: Any) -> dict[str, Any]:
    """An object of the API, its fields in alphabetical order as Stripe writes them. `same` are the fields that have the
    same name in the books, `unset` those that are always null here."""
    shown = {name: getattr(record, name) for name in ("id", *same.split())}
    shown |= {**dict.fromkeys(unset.split()), **fields}
    return {"id": shown.pop("id"), "object": kind, **dict(sorted(shown.items()))}


def subscription(books: StripeBooks, subscription: StripeSubscription) -> dict[str, Any]:
    cancel_at = subscription.ends if subscription.cancel_at_period_end else subscription.cancel_at
    return stripe_object(
        "subscription",
        subscription,
        same=(
            "cancel_at_period_end canceled_at created currency customer days_until_due ended_at "
            "latest_invoice metadata schedule trial_end trial_start"
        ),
        unset=(
            "application application_fee_percent billing_cycle_anchor_config billing_thresholds "
            "customer_account default_payment_method default_source description "
            "next_pending_invoice_item_invoice on_behalf_of pending_invoice_item_interval pending_update "
            "test_clock transfer_data"
        ),
        automatic_tax={"disabled_reason": None, "enabled": False, "liability": None},
        billing_cycle_anchor=subscription.anchor,
        billing_mode={"flexible": None, "type": "classic", "updated_at": None},
        billing_schedules=[],
        cancel_at=cancel_at,
        cancellation_details={"comment": None, "feedback": None, "reason": subscription.cancel_reason},
        collection_method="send_invoice" if subscription.sends_invoices else "charge_automatically",
        default_tax_rates=[],
        discounts=[],
        invoice_settings={"account_tax_ids": None, "issuer": {"type": "self"}},
        items=listed(
            f"/v1/subscription_items?subscription={subscription.id}",
            [item(books, subscription, i) for i in subscription.items],
        ),
        livemode=books.live,
        pause_collection=pause_collection(subscription),
        payment_settings={
            "payment_method_options": None,
            "payment_method_types": None,
            "save_default_payment_method": "on_subscription",
        },
        pending_setup_intent=_pending_setup(books, subscription),
        start_date=subscription.created,
        status=str(subscription.status),
        trial_settings={
            "end_behavior": {
                "billing_cycle_anchor": None,
                "missing_payment_method": subscription.no_card or "create_invoice",
            }
        },
    )


def item(books: StripeBooks, subscription: StripeSubscription, item: StripeItem) -> dict[str, Any]:
    sold = books.prices[item.price]
    return stripe_object(
        "subscription_item",
        item,
        same="created quantity",
        unset="billing_thresholds",
        current_period_end=item.ends,
        current_period_start=item.starts,
        discounts=[],
        metadata={},
        plan=stripe_object(
            "plan",
            sold,
            same="active amount created currency interval metadata product",
            amount_decimal=str(sold.amount),
            billing_scheme="per_unit",
            interval_count=sold.count,
            livemode=books.live,
            usage_type="licensed",
        ),
        price=price(books, sold),
        subscription=subscription.id,
        tax_rates=[],
    )


def schedule(books: StripeBooks, subscription: StripeSubscription) -> dict[str, Any]:
    """The subscription schedule of a change that waits for the end of the period."""
    following = subscription.next_price or subscription.items[0].price
    ends = next_period(books.prices[following], subscription.ends, subscription.anchor)
    return stripe_object(
        "subscription_schedule",
        subscription,
        same="customer",
        unset="canceled_at completed_at released_at released_subscription",
        id=subscription.schedule,
        created=subscription.starts,
        current_phase={"start_date": subscription.starts, "end_date": subscription.ends},
        end_behavior="release",
        livemode=books.live,
        metadata={},
        phases=[
            _phase(subscription.items[0].price, subscription.starts, subscription.ends, subscription.items[0].quantity),
            _phase(following, subscription.ends, ends, subscription.items[0].quantity),
        ],
        status="active",
        subscription=subscription.id,
    )


def listed(url: str, data: list[dict[str, Any]], *, has_more: bool = False) -> dict[str, Any]:
    return {"object": "list", "data": data, "has_more": has_more, "url": url}


def pause_collection(subscription: StripeSubscription) -> dict[str, Any] | None:
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


def _pending_setup(books: StripeBooks, subscription: StripeSubscription) -> str | None:
    found = books.setups.get(subscription.setup or "")
    return found.id if found is not None and found.status != "succeeded" else None


def product(books: StripeBooks, product: StripeProduct) -> dict[str, Any]:
    first = next((price.id for price in books.prices.values() if price.product == product.id), None)
    return stripe_object(
        "product",
        product,
        same="active created metadata name",
        unset="description package_dimensions shippable statement_descriptor tax_code unit_label url",
        default_price=first,
        images=[],
        livemode=books.live,
        marketing_features=[],
        type="service",
        updated=product.created,
    )


def price(books: StripeBooks, price: StripePrice) -> dict[str, Any]:
    return stripe_object(
        "price",
        price,
        same="active created currency lookup_key metadata product",
        unset="custom_unit_amount nickname tiers_mode transform_quantity",
        billing_scheme="per_unit",
        livemode=books.live,
        recurring=_recurring(price),
        tax_behavior="unspecified",
        type="recurring" if price.interval else "one_time",
        unit_amount=price.amount,
        unit_amount_decimal=str(price.amount),
    )


def customer(books: StripeBooks, customer: StripeCustomer) -> dict[str, Any]:
    return stripe_object(
        "customer",
        customer,
        same="balance created email metadata name",
        unset="currency default_source description phone shipping test_clock",
        address=address(customer.country),
        delinquent=False,
        invoice_prefix=customer.id[-8:].upper(),
        invoice_settings={
            "custom_fields": None,
            "default_payment_method": None,
            "footer": None,
            "rendering_options": None,
        },
        livemode=books.live,
        next_invoice_sequence=1,
        preferred_locales=[],
        tax_exempt="none",
    )


def _recurring(price: StripePrice) -> dict[str, Any] | None:
    if price.interval is None:
        return None
    return {
        "interval": price.interval,
        "interval_count": price.count,
        "meter": None,
        "trial_period_days": None,
        "usage_type": "licensed",
    }


def address(country: str | None) -> dict[str, Any] | None:
    return None if country is None else postal_address(country)


def postal_address(country: str | None) -> dict[str, Any]:
    return {"city": None, "country": country, "line1": None, "line2": None, "postal_code": None, "state": None}


def session(books: StripeBooks, session: CheckoutSession) -> dict[str, Any]:
    customer = books.customers.get(session.customer or "")
    total = sum(books.prices[item.price].amount * item.quantity for item in session.items)
    free = session.mode == "setup" or bool(session.trial_days or session.trial_end) or total == 0
    paid = "no_payment_required" if free else "paid"
    hosted = session.ui_mode == "hosted_page"
    return stripe_object(
        "checkout.session",
        session,
        same=(
            "cancel_url client_reference_id created currency customer expires_at invoice metadata mode "
            "return_url status subscription success_url ui_mode"
        ),
        unset=(
            "allow_promotion_codes billing_address_collection collected_information consent "
            "consent_collection invoice_creation locale payment_link shipping_cost submit_type"
        ),
        adaptive_pricing={"enabled": False},
        amount_subtotal=0 if free else total,
        amount_total=0 if free else total,
        automatic_tax={"enabled": False, "liability": None, "provider": None, "status": None},
        client_secret=session_secret(books, session) if not hosted and session.status == "open" else None,
        custom_fields=[],
        custom_text={"after_submit": None, "shipping_address": None, "submit": None},
        customer_creation="always" if session.mode == "subscription" or session.makes_customer else "if_required",
        customer_details={
            "address": address(customer.country if customer else None),
            "email": (customer.email if customer else None) or session.email,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_exempt": "none",
            "tax_ids": [],
        }
        if session.status == "complete"
        else None,
        customer_email=session.email,
        discounts=[],
        livemode=books.live,
        payment_intent=session.intent,
        payment_method_collection="always",
        payment_method_types=["card"],
        payment_status=paid if free or session.status == "complete" else "unpaid",
        redirect_on_completion=None if hosted else ("always" if session.return_url else "never"),
        setup_intent=session.setup,
        shipping_options=[],
        total_details={"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
        url=f"{session.page_at}/pay/{session.id}" if hosted and session.status == "open" else None,
    )


def session_secret(books: StripeBooks, session: CheckoutSession) -> str:
    return f"{session.id}_secret_{drawn(books.series, f'secret of {session.id}', 25)}"


def session_item(books: StripeBooks, session: CheckoutSession, item: CheckoutItem) -> dict[str, Any]:
    sold = books.prices[item.price]
    amount = sold.amount * item.quantity
    free = session.mode == "subscription" and bool(session.trial_days or session.trial_end)
    return stripe_object(
        "item",
        item,
        same="quantity",
        amount_discount=0,
        amount_subtotal=0 if free else amount,
        amount_tax=0,
        amount_total=0 if free else amount,
        currency=sold.currency,
        description=books.products[sold.product].name,
        metadata={},
        price=price(books, sold),
    )
