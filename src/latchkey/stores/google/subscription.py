"""A subscription as `purchases.subscriptionsv2` tells it, and a one-time purchase as `purchases.productsv2` does, in
Latchkey's words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

from msgspec import Struct, structs

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import UNKNOWN
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.subscription import PAUSE_NOT_TOLD, Pause, Status, Subscription
from latchkey.domain.stores.store import PLAY_STORE
from latchkey.stores.adapter import SeenPurchase, StoreReading
from latchkey.stores.errors import StoreDown
from latchkey.stores.google import periods
from latchkey.stores.google.line import Chain, Earlier, SubscriptionLine, bought, running_orders, taken_over
from latchkey.stores.google.resources import (
    ACTIVE,
    CANCELED,
    EXPIRED,
    IN_GRACE,
    ON_HOLD,
    PAUSED,
    PENDING,
    PENDING_CANCELED,
    UNACKNOWLEDGED,
    GoogleOrder,
    LineItem,
    ProductItem,
    ProductPurchase,
    SubscriptionPurchase,
    instant,
    product_of,
)

STORE = PLAY_STORE
_KNOWN = frozenset({ACTIVE, CANCELED, EXPIRED, PAUSED, IN_GRACE, ON_HOLD})
# Divides the purchase token from the product in the handle of an add-on. No token has this sign.
ADD_ON = "#"
# How the id of a purchase begins that Google names no order for.
NO_ORDER = "GPT."


class PurchaseContext(Struct, frozen=True, kw_only=True):
    orders: Mapping[str, GoogleOrder]
    # The purchases that this one replaced, newest first, by their tokens. None: Google no longer tells of it.
    chain: Chain = ()
    # The prepaid purchases that it, or the first of the chain, has replaced.
    topped_up: Earlier = ()
    # Google tells of a pause that has not begun only if it is asked for it: whether it does, and when the pause ends.
    tells_of_pause: bool = False
    planned_resume: Ms | None = None
    # Also the periods before the running one.
    with_history: bool = False
    # When Google told of it, or was asked.
    at: Ms


def why_nothing_follows(purchase: SubscriptionPurchase) -> str:
    """For the journal. Empty where something follows from the purchase."""
    if purchase.subscription_state == PENDING:
        return "The purchase is waiting for its payment."
    if purchase.subscription_state == PENDING_CANCELED:
        return "The purchase was called off before it was paid."
    if purchase.subscription_state not in _KNOWN:
        raise StoreDown("Google tells of a subscription in a state that this version of Latchkey does not know.")
    if purchase.is_replaced:
        return "Another purchase has replaced this one, and tells how it goes on."
    return "" if purchase.items else "The purchase has no item with an end."


def read_subscription(app_id: str, token: str, purchase: SubscriptionPurchase, around: PurchaseContext) -> StoreReading:
    if note := why_nothing_follows(purchase):
        return StoreReading(note=note)
    newest = (_seen_subscription(app_id, token, purchase, item, around) for item in purchase.items)
    # Last what has ended: by then the customer has what took its place.
    ended = (*_vanished(app_id, token, purchase, around), *_given_up(app_id, purchase, around))
    return StoreReading(seen=(*_topped_up(app_id, purchase, around), *newest, *ended))


def _suffix(product_id: str, purchase: SubscriptionPurchase, order: GoogleOrder | None) -> str:
    """Of an add-on: whatever is not the first of what was bought together."""
    listed = [line_item.product_id for line_item in order.line_items] if order is not None else []
    first = listed[0] if product_id in listed else purchase.items[0].product_id
    return "" if product_id == first else f"{ADD_ON}{product_id}"


def _vanished(
    app_id: str, token: str, purchase: SubscriptionPurchase, around: PurchaseContext
) -> Iterator[SeenPurchase]:
    """What was paid for together with what is left, and is no longer part of the purchase. Google does not date it:
    `settle` keeps what was told first."""
    present = {item.product_id for item in purchase.line_items}
    were = [item.item_replacement for item in purchase.line_items]
    replaced = {before.product_id for before in were if before is not None}
    for order_id in running_orders(purchase):
        order = around.orders.get(order_id)
        listed = {line_item.product_id for line_item in order.line_items} if order is not None else set()
        for product_id in sorted(listed - present - replaced) if listed & present else ():
            item = structs.replace(purchase.items[0], product_id=product_id)
            started_at, suffix = instant(purchase.start_time) or around.at, _suffix(product_id, purchase, order)
            for paid in periods.told(item, [order_id], around.orders, started_at=started_at, replaces=False):
                snapshot = Subscription(
                    store=STORE,
                    id=periods.split(order_id)[0] + suffix,
                    environment=_environment(purchase),
                    app_id=app_id,
                    periods=(structs.replace(paid, ends_at=min(paid.ends_at, max(around.at, paid.purchased_at))),),
                    status=Status(as_of=periods.NOW, ended=Reason.UNSUBSCRIBE),
                )
                account = _account_token(purchase)
                yield SeenPurchase(
                    snapshot=snapshot,
                    account_token=account,
                    handle=token + suffix,
                    unordered=True,
                    complete=paid.number == 0,
                )


def _topped_up(app_id: str, purchase: SubscriptionPurchase, around: PurchaseContext) -> Iterator[SeenPurchase]:
    """The prepaid purchases that this one, or the first of its chain, has replaced."""
    first = around.chain[-1][1] if around.chain else purchase
    if first is None:
        return
    older = dict(around.topped_up)
    for token, made in taken_over(app_id, STORE, first, around.topped_up, around.orders):
        yield SeenPurchase(
            snapshot=made,
            account_token=_account_token(older[token]),
            handle=token,
            unordered=True,
            replaces=tuple(one for one in older if one != token),
        )


def _given_up(app_id: str, purchase: SubscriptionPurchase, around: PurchaseContext) -> Iterator[SeenPurchase]:
    """The subscription that a prepaid plan has replaced. It goes on in none, so it ended there."""
    if not purchase.is_prepaid or not around.chain:
        return
    (token, old), *older = around.chain
    order_id = old.items[0].latest_successful_order_id if old is not None and old.items else None
    if old is None or order_id is None or not old.is_replaced:
        return
    line = SubscriptionLine.of(old, old.items[0], order_id, around.orders, tuple(older))
    running = line.periods(old.items[0].ends_at)[-1]
    snapshot = Subscription(
        store=STORE,
        id=line.first_order,
        environment=_environment(old),
        app_id=app_id,
        periods=(structs.replace(running, money_back=()),),
        status=Status(as_of=periods.NOW, ended=Reason.UNKNOWN),
    )
    replaces = tuple(one for one, _ in older)
    account = _account_token(old)
    yield SeenPurchase(
        snapshot=snapshot, account_token=account, handle=token, unordered=True, replaces=replaces, complete=False
    )


def _seen_subscription(
    app_id: str, token: str, purchase: SubscriptionPurchase, item: LineItem, around: PurchaseContext
) -> SeenPurchase:
    order_id = item.latest_successful_order_id or made_up_id(token)
    suffix = _suffix(item.product_id, purchase, around.orders.get(order_id))
    seen = SeenPurchase(
        snapshot=bought(app_id, STORE, purchase, item, order_id + suffix, around.orders.get(order_id))
        if item.prepaid_plan is not None
        else _subscription(app_id, purchase, item, order_id, suffix, around),
        account_token=_account_token(purchase),
        handle=token + suffix,
        unordered=True,
        # The acknowledgement counts for all items of a purchase.
        acknowledge=item is purchase.items[0] and purchase.acknowledgement_state == UNACKNOWLEDGED,
    )
    if item.prepaid_plan is not None:
        # The owner of what was topped up, if nobody says whose the top-up is.
        earlier = () if suffix else tuple(token for token, _ in (*around.chain, *around.topped_up))
        return structs.replace(seen, replaces=earlier)
    _, number = periods.split(order_id)
    replaces = tuple(one + suffix for one, _ in around.chain)
    return structs.replace(seen, replaces=replaces, complete=around.with_history or (number == 0 and not replaces))


def _subscription(
    app_id: str, purchase: SubscriptionPurchase, item: LineItem, order_id: str, suffix: str, around: PurchaseContext
) -> Subscription:
    # An add-on has no history but its own.
    line = SubscriptionLine.of(purchase, item, order_id, around.orders, () if suffix else around.chain)
    status, ends_at = _standing(purchase, item, around.orders.get(order_id), around)
    whole = line.periods(ends_at)
    return Subscription(
        store=STORE,
        id=line.first_order + suffix,
        environment=_environment(purchase),
        app_id=app_id,
        # Without the history, what a notification was about: an older order whose money was given back.
        periods=whole if around.with_history else (*(period for period in whole[:-1] if period.money_back), whole[-1]),
        status=status,
    )


def _standing(
    purchase: SubscriptionPurchase, item: LineItem, order: GoogleOrder | None, around: PurchaseContext
) -> tuple[Status, Ms]:
    """How the subscription stands, and where its running period ends.

    While a payment is missing, `expiryTime` is the end of the grace period; how long was paid, only the order says. A
    missing payment is dated to the end of the paid time, so that every reading of one problem tells the same.
    """
    state, end, paid = purchase.subscription_state, item.ends_at, periods.paid_end(order, item.product_id)
    status = Status(as_of=periods.NOW, next_product_id=_next_product(purchase, item))
    if state in (IN_GRACE, ON_HOLD):
        return _unpaid(status, state, end, paid, purchase)
    if state == PAUSED:
        return structs.replace(status, pause=Pause(0, _resume_time(purchase, around) or end)), end
    if state == CANCELED:
        return _renewal_off(status, purchase), end
    if state == EXPIRED:
        return _over(status, purchase, end, paid)
    plan = item.auto_renewing_plan
    if plan is None or not plan.auto_renew_enabled:
        # An item that another one will replace does not renew itself, but the subscription goes on.
        return structs.replace(status, auto_renew=item.deferred_item_replacement is not None), end
    installments = plan.installment_details
    scheduled = installments is not None and installments.pending_cancellation is not None
    if scheduled or item.deferred_item_removal is not None:
        return structs.replace(status, auto_renew=False, renewal_off_reason=Reason.UNSUBSCRIBE), end
    return structs.replace(status, pause=_planned_pause(purchase, around)), end


def _unpaid(status: Status, state: str, end: Ms, paid: Ms | None, purchase: SubscriptionPurchase) -> tuple[Status, Ms]:
    if paid is None or paid > end:
        # The order cannot be read. The start of the subscription is the one moment that is the same in every reading.
        issue_at = instant(purchase.start_time) or end
        return structs.replace(status, billing_issue_at=issue_at, grace_ends_at=end if state == IN_GRACE else None), end
    return structs.replace(status, billing_issue_at=paid, grace_ends_at=end if end > paid else None), paid


def _over(status: Status, purchase: SubscriptionPurchase, end: Ms, paid: Ms | None) -> tuple[Status, Ms]:
    reason, _ = _who_canceled(purchase)
    if periods.is_revoked(end, paid):
        # Revoked. Whether renewal was off is told only where the user had turned it off before.
        off = _renewal_off(status, purchase) if reason is Reason.UNSUBSCRIBE else status
        return structs.replace(off, ended=Reason.DEVELOPER_INITIATED), end
    if reason is None:
        return structs.replace(status, ended=Reason.UNKNOWN), end
    status = structs.replace(_renewal_off(status, purchase), ended=reason)
    if reason is Reason.BILLING_ERROR and paid is not None and paid < end:
        # It ran out in account hold, after a grace period: what was told then still holds.
        return structs.replace(status, billing_issue_at=paid, grace_ends_at=end), paid
    return status, end


def _renewal_off(status: Status, purchase: SubscriptionPurchase) -> Status:
    reason, at = _who_canceled(purchase)
    return structs.replace(status, auto_renew=False, renewal_off_reason=reason, renewal_off_at=at, next_product_id=None)


def _who_canceled(purchase: SubscriptionPurchase) -> tuple[Reason | None, Ms | None]:
    context = purchase.canceled_state_context
    if context is None:
        return None, None
    if context.user_initiated_cancellation is not None:
        return Reason.UNSUBSCRIBE, instant(context.user_initiated_cancellation.cancel_time)
    if context.system_initiated_cancellation is not None:
        return Reason.BILLING_ERROR, None
    return (Reason.DEVELOPER_INITIATED if context.developer_initiated_cancellation is not None else None), None


def _planned_pause(purchase: SubscriptionPurchase, around: PurchaseContext) -> Pause | None:
    """A pause that begins when the running period ends."""
    resumes_at = _resume_time(purchase, around)
    if resumes_at is None:
        return None if around.tells_of_pause else PAUSE_NOT_TOLD
    return Pause(0, resumes_at)


def _resume_time(purchase: SubscriptionPurchase, around: PurchaseContext) -> Ms | None:
    context = purchase.paused_state_context
    return (instant(context.auto_resume_time) if context is not None else None) or around.planned_resume


def _next_product(purchase: SubscriptionPurchase, item: LineItem) -> str | None:
    waiting = item.deferred_item_replacement
    if waiting is None or not waiting.product_id:
        return None
    others = (one for one in purchase.line_items if one is not item)
    listed = (one.product for one in others if one.product_id == waiting.product_id)
    named = product_of(waiting.product_id, waiting.base_plan_id)
    return named if waiting.base_plan_id else next(listed, named)


def _account_token(purchase: SubscriptionPurchase) -> str | None:
    account = purchase.external_account_identifiers
    return account.obfuscated_external_account_id or account.external_account_id


def _environment(purchase: SubscriptionPurchase) -> Environment:
    return Environment.SANDBOX if purchase.test_purchase is not None else Environment.PRODUCTION


def made_up_id(token: str) -> str:
    """For a purchase without an order, such as one made with a promotional code: the token stays the same."""
    return NO_ORDER + sha256(token.encode()).hexdigest()[:32]


PURCHASED, CANCELLED, UNPAID = "PURCHASED", "CANCELLED", "PENDING"


def read_product(app_id: str, token: str, purchase: ProductPurchase, order: GoogleOrder | None) -> StoreReading:
    state = purchase.purchase_state_context.purchase_state
    if state == UNPAID:
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
            _seen_product(app_id, token, purchase, item, order, at, back, number)
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


def _seen_product(
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
