"""A one-time payment at checkout, in Latchkey's words. Pure."""

import msgspec

from latchkey.domain.purchases.purchase import Environment, PartBack, Purchase, PurchaseKind, merge_parts
from latchkey.stores.adapter import SeenPurchase, StoreReading
from latchkey.stores.stripe.amounts import GoneBack, country_of, micros, price_of
from latchkey.stores.stripe.resources import (
    Charge,
    CheckoutSession,
    Intent,
    SessionItem,
    StripeCustomer,
    StripeList,
    StripePrice,
    product_of,
)
from latchkey.stores.stripe.selling import PRODUCT_KEY

ITEM = "#"


def why_nothing_follows(session: CheckoutSession) -> str:
    """For the journal. Empty where something was bought."""
    if session.mode != "payment":
        return "The checkout session is about no purchase."
    if not session.is_paid:
        return "The checkout session waits for its payment."
    return "" if session.line_items is not None and session.line_items.data else "Nothing was bought."


def session_of(intent: Intent) -> CheckoutSession | None:
    """A payment that was sold in a form of a web page, as a checkout session with one item. None: it was not."""
    product, _, price = intent.metadata.get(PRODUCT_KEY, "").partition(":")
    if not product or not price:
        return None
    sold = StripePrice(id=price, product=product, currency=intent.currency)
    item = SessionItem(id=intent.id, amount_total=intent.amount_received, currency=intent.currency, price=sold)
    return CheckoutSession(
        id=intent.id,
        mode="payment",
        created=intent.created,
        livemode=intent.livemode,
        payment_status="paid" if intent.status == "succeeded" else "unpaid",
        customer=intent.customer,
        metadata=intent.metadata,
        payment_intent=intent.id,
        line_items=StripeList(data=[item]),
    )


def account_of(session: CheckoutSession, key: str) -> str | None:
    if named := (session.metadata or {}).get(key) or session.client_reference_id:
        return named
    if isinstance(session.customer, str):
        return session.customer
    try:
        customer = msgspec.convert(session.customer, StripeCustomer)
    except msgspec.MsgspecError:
        return None
    return customer.metadata.get(key) or customer.id


def read(
    app_id: str, store: str, session: CheckoutSession, charges: tuple[Charge, ...], back: GoneBack, account: str | None
) -> StoreReading:
    if note := why_nothing_follows(session):
        return StoreReading(note=note)
    assert session.line_items is not None
    items = [item for item in session.line_items.data if item.price is not None]
    several, total = len(items) > 1, sum(item.amount_total for item in items)
    return StoreReading(
        seen=tuple(
            SeenPurchase(
                snapshot=_purchase(app_id, store, session, item, charges, back, total, several=several),
                account_token=account,
                handle=f"{session.id}{ITEM}{item.id}" if several else session.id,
                imported_as=None if several or session.id == session.payment_intent else session.id,
                unordered=True,
            )
            for item in items
        )
    )


def _purchase(
    app_id: str,
    store: str,
    session: CheckoutSession,
    item: SessionItem,
    charges: tuple[Charge, ...],
    back: GoneBack,
    total: int,
    *,
    several: bool,
) -> Purchase:
    assert item.price is not None
    paid = [charge for charge in charges if charge.status == "succeeded"]
    address = session.customer_details.address if session.customer_details is not None else None
    # Not the id of the session: whoever knows that can show it as a receipt.
    payment = session.payment_intent or item.id

    def share(part: int) -> int:
        return micros(part * item.amount_total // total if total else 0, item.currency)

    return Purchase(
        kind=PurchaseKind.ONE_TIME,
        store=store,
        id=f"{payment}{ITEM}{item.id}" if several and session.payment_intent else payment,
        product_id=product_of(item.price.product, item.price.id),
        environment=Environment.PRODUCTION if session.livemode else Environment.SANDBOX,
        app_id=app_id,
        purchased_at=min((charge.created for charge in paid), default=session.created) * 1000,
        price=price_of(item.amount_total, item.currency),
        money_back=back.facts,
        given_back=share(back.part),
        parts_back=merge_parts(*(PartBack(at, share(part)) for at, part in back.parts)),
        country=country_of(paid, address),
    )
