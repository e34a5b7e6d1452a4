"""The periods of a subscription, as its orders tell them. Pure.

An order is one payment: `GPA.1-2-3-4` the first, `GPA.1-2-3-4..0` the first renewal, `GPA.1-2-3-4..1` the second.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.money.amounts import FREE, UNKNOWN, Price
from latchkey.domain.purchases.purchase import MoneyBack, PartBack, merge_parts
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType
from latchkey.stores.google.resources import GoogleOrder, LineItem, OfferDetails, OrderItem, instant, product_of

# Google does not date its answers; `settle` does.
NOW = Moment(0)

_RENEWAL = re.compile(r"(?P<first>.+?)\.\.(?P<number>\d{1,6})", re.ASCII)
_REFUNDED, _PARTIALLY_REFUNDED = "REFUNDED", "PARTIALLY_REFUNDED"
# The state of a partial refund whose money has gone back.
_DONE = "PROCESSED_SUCCESSFULLY"
_COUNTRY = re.compile(r"[A-Za-z]{2}")
# An end of access that is this much before the paid end was brought about by somebody.
_CUT_SHORT: Ms = MINUTE


def split(order_id: str) -> tuple[str, int]:
    """The id of the first order, and the number of this one: 0 for the first, 1 for the first renewal."""
    found = _RENEWAL.fullmatch(order_id)
    return (order_id, 0) if found is None else (found["first"], int(found["number"]) + 1)


def history(order_id: str) -> list[str]:
    """The ids of all orders up to this one, oldest first."""
    first, number = split(order_id)
    return [first, *(f"{first}..{renewal}" for renewal in range(number))]


def item_of(order: GoogleOrder | None, product_id: str) -> OrderItem | None:
    """The part of an order that is about a product. An order of one item is about whatever it names."""
    if order is None:
        return None
    found = [line_item for line_item in order.line_items if line_item.product_id == product_id]
    return found[0] if found else order.line_items[0] if len(order.line_items) == 1 else None


def paid_end(order: GoogleOrder | None, product_id: str) -> Ms | None:
    """Until when an order has paid. Only the order knows it while a grace period runs."""
    item = item_of(order, product_id)
    details = item.subscription_details if item is not None else None
    return instant(details.service_period_end_time) if details is not None else None


def is_revoked(ends_at: Ms, paid_until: Ms | None) -> bool:
    """Somebody has ended access before the end of the paid time."""
    return paid_until is not None and ends_at < paid_until - _CUT_SHORT


def refunded_at(order: GoogleOrder | None) -> Ms | None:
    """When all of an order's money was given back. A part of it changes nothing."""
    if order is None or order.state != _REFUNDED:
        return None
    event = order.order_history.refund_event
    told = instant(event.event_time) if event is not None else None
    return told or instant(order.last_event_time) or instant(order.create_time)


def money_back(order: GoogleOrder | None, ends_at: Ms, paid_until: Ms | None) -> tuple[MoneyBack, ...]:
    """A refund that left the user the access is none: Google does not count such an order as voided either."""
    at = refunded_at(order)
    if at is None:
        return ()
    if is_revoked(ends_at, paid_until):
        # Access ended by the refund, also where Google dates the refund a moment after the end of access.
        return (MoneyBack(min(at, ends_at - 1)),)
    return (MoneyBack(at),) if at >= ends_at else ()


def given_back(order: GoogleOrder | None) -> int:
    """Millionths that went back in part, while the order was kept."""
    if order is None or order.state != _PARTIALLY_REFUNDED:
        return 0
    return sum(micros for _, micros in _parts(order))


def parts_back(order: GoogleOrder | None) -> tuple[PartBack, ...]:
    """Since when how much had gone back in part, also if the rest followed later."""
    if order is None or order.state not in (_PARTIALLY_REFUNDED, _REFUNDED):
        return ()
    back, told = 0, list[PartBack]()
    for at, micros in sorted((at, micros) for at, micros in _parts(order) if at is not None):
        back += micros
        told.append(PartBack(at, back))
    return merge_parts(*told)


def _parts(order: GoogleOrder) -> list[tuple[Ms | None, int]]:
    """Google does not say for which of several items."""
    if len(order.line_items) > 1:
        return []
    done = [refund for refund in order.order_history.partial_refund_events if refund.state == _DONE]
    return [
        (instant(refund.process_time) or instant(refund.create_time), refund.refund_details.total.price.micros)
        for refund in done
        if refund.refund_details.total is not None
    ]


def country_of(order: GoogleOrder | None, region: str | None) -> str | None:
    """Of the buyer's address, else of the purchase: ISO 3166 with two letters."""
    found = (order.buyer_address.buyer_country if order is not None else None) or region
    return found.upper() if found is not None and _COUNTRY.fullmatch(found) else None


def price_of(order: GoogleOrder | None, product_id: str) -> Price | None:
    """What was paid, with tax and after discounts."""
    item = item_of(order, product_id)
    if order is None or item is None:
        return order.total.price if order is not None and order.total is not None else None
    money = item.total or (order.total if len(order.line_items) == 1 else None)
    return money.price if money is not None else None


def paid_at(order: GoogleOrder) -> Ms | None:
    """An order is created at the first attempt and processed when the payment has succeeded."""
    event = order.order_history.processed_event
    return (instant(event.event_time) if event is not None else None) or instant(order.create_time)


# Of a code that works only once, Google does not tell the text.
ONE_TIME_CODE = "one-time code"


def phase_of(order: GoogleOrder | None, item: LineItem) -> PeriodType:
    """Of the order where it is known: the phase of the purchase may have moved on to one that is not paid yet."""
    ordered = item_of(order, item.product_id)
    if ordered is not None and (details := ordered.subscription_details) is not None:
        trial = details.offer_phase_details.free_trial_details is not None
        intro = details.offer_phase_details.introductory_price_details is not None
    else:
        trial = item.offer_phase is not None and item.offer_phase.free_trial is not None
        intro = item.offer_phase is not None and item.offer_phase.introductory_price is not None
    return PeriodType.TRIAL if trial else PeriodType.INTRO if intro else PeriodType.NORMAL


def period(
    item: LineItem, order_id: str, order: GoogleOrder | None, *, started_at: Ms, ends_at: Ms, replaces: bool = False
) -> Period:
    """The period that an order has paid for. `started_at` is when the subscription was granted; `replaces`: the
    purchase took the place of another one, which may have been granted earlier."""
    _, number = split(order_id)
    kind = phase_of(order, item)
    purchased_at, paid_from = _began(order, item.product_id, number, started_at, ends_at, replaces=replaces)
    return Period(
        id=order_id,
        number=number,
        cause=Cause.RENEWAL if number else Cause.TRIAL if kind is PeriodType.TRIAL else Cause.PURCHASE,
        product_id=item.product,
        period_type=kind,
        purchased_at=purchased_at,
        paid_from=paid_from,
        ends_at=ends_at,
        as_of=NOW,
        price=_price(item, order, kind),
        given_back=given_back(order),
        parts_back=parts_back(order),
        country=country_of(order, None),
        money_back=money_back(order, ends_at, paid_end(order, item.product_id)),
        # It was redeemed with the purchase, so renewals have none.
        offer_code=_offer_code(item) if number == 0 else None,
    )


def _offer_code(item: LineItem) -> str | None:
    promotion = item.signup_promotion
    return None if promotion is None else promotion.vanity_code.promotion_code.replace("\0", "")[:256] or ONE_TIME_CODE


def told(
    item: LineItem, ids: Iterable[str], orders: Mapping[str, GoogleOrder], *, started_at: Ms, replaces: bool
) -> Iterator[Period]:
    """The periods of these orders, as far as they are known, of whatever product each was."""
    for one in ids:
        ordered = item_of(orders.get(one), item.product_id)
        ends_at = paid_end(orders.get(one), item.product_id)
        if ordered is not None and ends_at is not None:
            named = replace(item, product_id=ordered.product_id or item.product_id, offer_details=_plan(ordered))
            yield period(named, one, orders[one], started_at=started_at, ends_at=ends_at, replaces=replaces)


def product_before(item: LineItem, order_id: str, orders: Mapping[str, GoogleOrder]) -> str | None:
    known = history(order_id)
    ordered = item_of(orders.get(known[-2]), item.product_id) if len(known) > 1 else None
    return product_of(ordered.product_id, _plan(ordered).base_plan_id) if ordered is not None else None


def _plan(ordered: OrderItem) -> OfferDetails:
    details = ordered.subscription_details
    return OfferDetails(details.base_plan_id if details is not None else "")


def _began(
    order: GoogleOrder | None, product_id: str, number: int, started_at: Ms, ends_at: Ms, *, replaces: bool
) -> tuple[Ms, Ms | None]:
    """When it was paid, and where its time began if that was earlier."""
    if number == 0 and not replaces:
        return started_at, None
    at = paid_at(order) if order is not None else None
    if at is None:
        # The order cannot be read: as if all periods were equally long.
        return started_at + (ends_at - started_at) * number // (number + 1), None
    ordered = item_of(order, product_id)
    details = ordered.subscription_details if ordered is not None else None
    start = instant(details.service_period_start_time) if details is not None else None
    return at, start if start is not None and start < at else None


def _price(item: LineItem, order: GoogleOrder | None, kind: PeriodType) -> Price:
    plan = item.auto_renewing_plan
    listed = plan.recurring_price.price if plan is not None and plan.recurring_price is not None else None
    paid = price_of(order, item.product_id)
    if kind is PeriodType.TRIAL:
        known = paid or listed
        return Price(0, known.currency) if known is not None else FREE
    return paid or listed or UNKNOWN
