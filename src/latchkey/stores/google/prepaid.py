"""Prepaid plans: each top-up is a purchase of its own, with an order and a token of its own. Pure.

Google adds the time of a top-up to the time that was left, and only the newest purchase says when access ends.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import UNKNOWN
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.stores.errors import StoreDown
from latchkey.stores.google import periods
from latchkey.stores.google.resources import GoogleOrder, LineItem, SubscriptionPurchase, instant

# The prepaid purchases that one replaced, newest first, by their tokens.
Earlier = tuple[tuple[str, SubscriptionPurchase], ...]


def orders_of(earlier: Earlier) -> tuple[str, ...]:
    """Oldest first."""
    named = (old.items[0].latest_successful_order_id for _, old in reversed(earlier))
    return tuple(one for one in named if one is not None)


def bought(
    app_id: str, store: str, purchase: SubscriptionPurchase, item: LineItem, id: str, order: GoogleOrder | None
) -> Purchase:
    ends_at, paid_until = _end(item), periods.paid_end(order, item.product_id)
    back = periods.money_back(order, ends_at, paid_until)
    revoked = periods.is_revoked(ends_at, paid_until)
    paid_at = periods.paid_at(order) if order is not None else None
    return Purchase(
        kind=PurchaseKind.ONE_TIME,
        store=store,
        id=id,
        product_id=item.product,
        environment=Environment.SANDBOX if purchase.test_purchase is not None else Environment.PRODUCTION,
        app_id=app_id,
        purchased_at=paid_at or instant(purchase.start_time) or ends_at,
        ends_at=paid_until if revoked else ends_at,
        revoked_at=ends_at if revoked and not back else None,
        price=periods.price_of(order, item.product_id) or UNKNOWN,
        given_back=periods.given_back(order),
        parts_back=periods.parts_back(order),
        country=periods.country_of(order, purchase.region_code),
        money_back=back,
    )


def taken_over(
    app_id: str, store: str, newest: SubscriptionPurchase, earlier: Earlier, orders: Mapping[str, GoogleOrder]
) -> Iterator[tuple[str, Purchase]]:
    """The purchases that others took over from, oldest first, by their tokens. Each ends, without an event, where
    the next one begins: only the next one says when access ends."""
    following = (newest, *(old for _, old in earlier))
    for (token, old), after in reversed([*zip(earlier, following, strict=False)]):
        item = old.items[0]
        order_id = item.latest_successful_order_id
        if order_id is None:
            continue
        order = orders.get(order_id)
        made = bought(app_id, store, old, item, order_id, order)
        if old.is_replaced:
            # Its end was cut by what replaced it, not by a refund or a revocation.
            made = replace(made, money_back=(), revoked_at=None)
        yield token, _ended_by(made, after, orders)


def _ended_by(made: Purchase, after: SubscriptionPurchase, orders: Mapping[str, GoogleOrder]) -> Purchase:
    items = after.items
    order = orders.get(items[0].latest_successful_order_id or "") if items else None
    refunded_at = periods.refunded_at(order) if after.is_prepaid else None
    if refunded_at is not None and periods.is_revoked(refunded_at, _end(items[0])):
        # The money of the top-up went back, and Google leaves what was there before it, until the end that it names.
        left_until = _end(items[0])
        return replace(made, revoked_at=left_until if periods.is_revoked(left_until, made.ends_at) else None)
    began = _first_paid_at(items, orders) or instant(after.start_time)
    resolved = began is not None and (made.ends_at is None or began < made.ends_at)
    return replace(made, resolved_at=began if resolved else None)


def _first_paid_at(items: tuple[LineItem, ...], orders: Mapping[str, GoogleOrder]) -> Ms | None:
    order_id = items[0].latest_successful_order_id if items else None
    order = orders.get(periods.split(order_id)[0]) if order_id is not None else None
    return periods.paid_at(order) if order is not None else None


def _end(item: LineItem) -> Ms:
    at = instant(item.expiry_time)
    if at is None:
        raise StoreDown("Google answered with a subscription that has no end.")
    return at
