"""Whether a snapshot fits what is known of its purchase. What was paid for does not change afterwards, and of one
moment there is only one truth."""

from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.formats import decimals, instant, money
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import DECIMALS, Price
from latchkey.domain.purchases.lifecycle import observe
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.reconciliation import settle
from latchkey.domain.purchases.subscription import Moment, Period, Subscription
from latchkey.domain.refusal import Conflict

SAME_MOMENT = "Another snapshot as of the same moment says something else. Send the true one with a later as_of."


def check_conflicts(customer: Customer, seen: Subscription | Purchase, as_of: Ms) -> None:
    key = seen.store, seen.id
    subscription, purchase = customer.subscription(*key), customer.purchase(*key)
    if isinstance(seen, Subscription):
        if purchase is not None:
            raise Conflict(f"{seen.id!r} is a one-time purchase, not a subscription.", param="subscription")
        if subscription is not None:
            _check_subscription(subscription, seen, as_of)
    else:
        if subscription is not None:
            raise Conflict(f"{seen.id!r} is a subscription, not a one-time purchase.", param="purchase")
        if purchase is not None:
            _check_purchase(purchase, seen)


def _check_subscription(before: Subscription, seen: Subscription, as_of: Ms) -> None:
    _same("The subscription", "environment", before.environment, seen.environment, param="environment")
    known = {period.id: period for period in before.periods}
    for period in seen.periods:
        if period.id in known:
            _check_period(known[period.id], period)
    # Of the same moment: it must change nothing that is known of that moment, even if it came later.
    last = max(before.status.as_of, *(period.as_of for period in before.periods))
    later = Moment(last.at, last.revision + 1)
    same_status = before.status.as_of.at == seen.status.as_of.at == as_of
    told = tuple(
        replace(period, as_of=later)
        for period in seen.periods
        if period.id in known and known[period.id].as_of.at == period.as_of.at == as_of
    )
    if not same_status and not told:
        return
    status = replace(seen.status, as_of=later) if same_status else before.status
    after = observe(before, settle(before, replace(seen, periods=told or (before.current,), status=status), later.at))
    if _said(after, known) != _said(before, known):
        raise Conflict(SAME_MOMENT, param="as_of")


def _check_period(known: Period, seen: Period) -> None:
    what, param = f"The period {seen.id!r}", "subscription.periods"
    for name in ("product_id", "period_type", "purchased_at"):
        _same(what, name, getattr(known, name), getattr(seen, name), param=param)
    _same_price(what, known.price, seen.price, param=param)


def _check_purchase(known: Purchase, seen: Purchase) -> None:
    what = f"The purchase {seen.id!r}"
    _same(what, "environment", known.environment, seen.environment, param="environment")
    _same(what, "product_id", known.product_id, seen.product_id, param="purchase.product_id")
    _same(what, "purchased_at", known.purchased_at, seen.purchased_at, param="purchase.purchased_at")
    _same(what, "expires_at", known.ends_at, seen.ends_at, param="purchase.expires_at")
    _same_price(what, known.price, seen.price, param="purchase.price")
    if known.told_at == seen.told_at:
        ends = (seen.refunded_at, seen.revoked_at, seen.given_back)
        if (known.refunded_at, known.revoked_at, known.given_back) != ends:
            raise Conflict(SAME_MOMENT, param="as_of")


def _said(subscription: Subscription, ids: dict[str, Period]) -> object:
    """Everything that a snapshot can change, without its moments."""
    return (
        replace(subscription.status, as_of=Moment(0)),
        [
            (period.id, period.ends_at, period.refunded_at, period.given_back)
            for period in subscription.periods
            if period.id in ids
        ],
    )


def _same(what: str, name: str, known: object, seen: object, *, param: str) -> None:
    if known != seen:
        was, now = (_written(name, one) for one in (known, seen))
        raise Conflict(f"{what} is known with the {name} {was}. It cannot become {now}.", param=param)


def _written(name: str, value: object) -> str:
    """An instant as it was sent, and as people read it."""
    if name.endswith("_at"):
        return f"{value} ({instant(value, seconds=True)})" if isinstance(value, int) else "null"
    return str(value)


def _same_price(what: str, known: Price, seen: Price, *, param: str) -> None:
    if known.known and seen.known and known != seen:
        raise Conflict(
            f"{what} is known with the price {_money(known)}. It cannot become "
            f"{_money(seen)}. Money that went back is refunded_at or refunded_amount.",
            param=param,
        )


def _money(price: Price) -> str:
    """Exact: two prices that are shown differ."""
    if price.micros % 10 ** (DECIMALS - decimals(price.currency)):
        return f"{price.amount} {price.currency}"
    return money(price.micros, price.currency)
