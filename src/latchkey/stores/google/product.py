"""A one-time purchase as `purchases.productsv2` tells it, in Latchkey's words. Pure."""

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import UNKNOWN
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Purchase, PurchaseKind
from latchkey.stores.adapter import SeenPurchase, StoreReading
from latchkey.stores.errors import StoreDown
from latchkey.stores.google import periods
from latchkey.stores.google.resources import UNACKNOWLEDGED, GoogleOrder, ProductItem, ProductPurchase, instant
from latchkey.stores.google.subscription import ADD_ON, STORE, made_up_id

PURCHASED, CANCELLED, PENDING = "PURCHASED", "CANCELLED", "PENDING"


def read(app_id: str, token: str, purchase: ProductPurchase, order: GoogleOrder | None) -> StoreReading:
    state = purchase.purchase_state_context.purchase_state
    if state == PENDING:
        return StoreReading(note="The purchase is waiting for its payment.")
    completed_at = instant(purchase.purchase_completion_time)
    if completed_at is None and state == CANCELLED:
        return StoreReading(note="The purchase was called off before it was paid.")
    if state not in (PURCHASED, CANCELLED):
        raise StoreDown("Google tells of a purchase in a state that this version of Latchkey does not know.")
    at = completed_at or (periods.paid_at(order) if order is not None else None)
    if at is None:
        raise StoreDown("Google tells of a purchase without the time of its payment.")
    # A refund that left the user the purchase is none.
    back = (MoneyBack(_cancelled_at(order, at)),) if state == CANCELLED else ()
    return StoreReading(
        seen=tuple(
            _seen(app_id, token, purchase, item, order, at, back, number)
            for number, item in enumerate(purchase.product_line_item)
        )
    )


def _cancelled_at(order: GoogleOrder | None, paid_at: Ms) -> Ms:
    """The same moment in every reading. The money is back as soon as the order says so too; without a right to read
    orders, the purchase counts as never made."""
    if order is None:
        return paid_at
    if (refunded_at := periods.refunded_at(order)) is not None:
        return refunded_at
    if order.state != "CANCELED":
        raise StoreDown("Google tells that a purchase is cancelled, and does not tell yet when it was.")
    event = order.order_history.cancellation_event
    return (instant(event.event_time) if event is not None else None) or paid_at


def _seen(
    app_id: str,
    token: str,
    purchase: ProductPurchase,
    item: ProductItem,
    order: GoogleOrder | None,
    at: Ms,
    back: tuple[MoneyBack, ...],
    number: int,
) -> SeenPurchase:
    """Whether it should be used up, Google does not know: the catalog does."""
    suffix = f"{ADD_ON}{item.product_id}" if number else ""
    test = purchase.test_purchase_context is not None
    return SeenPurchase(
        snapshot=Purchase(
            kind=PurchaseKind.ONE_TIME,
            store=STORE,
            id=(purchase.order_id or made_up_id(token)) + suffix,
            product_id=item.product_id,
            environment=Environment.SANDBOX if test else Environment.PRODUCTION,
            app_id=app_id,
            purchased_at=at,
            price=periods.price_of(order, item.product_id) or UNKNOWN,
            given_back=periods.given_back(order),
            parts_back=periods.parts_back(order),
            country=periods.country_of(order, purchase.region_code),
            money_back=back,
        ),
        account_token=purchase.obfuscated_external_account_id,
        handle=token + suffix,
        unordered=True,
        acknowledge=not number and purchase.acknowledgement_state == UNACKNOWLEDGED and not back,
    )
