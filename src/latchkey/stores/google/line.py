"""One line of periods: those of a purchase, and of the purchases that it replaced. Pure.

Each top-up of a prepaid plan is a purchase of its own, with an order and a token of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import UNKNOWN
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType
from latchkey.stores.google import periods
from latchkey.stores.google.resources import EXPIRED, GoogleOrder, LineItem, SubscriptionPurchase, instant

# The purchases that one replaced, newest first, by their tokens. None: Google no longer tells of it.
Chain = tuple[tuple[str, SubscriptionPurchase | None], ...]


def running_orders(purchase: SubscriptionPurchase) -> tuple[str, ...]:
    """The orders that tell of the running periods."""
    named = (item.latest_successful_order_id for item in purchase.items)
    return tuple(dict.fromkeys(one for one in named if one is not None))


def earlier_orders(purchase: SubscriptionPurchase, chain: Chain, *, whole: bool) -> tuple[str, ...]:
    """The orders before them, oldest first: all, or only those that tell whether the product has changed."""
    wanted: list[str] = []
    for number, (_, old) in reversed([*enumerate(chain)]):
        order_id = old.items[0].latest_successful_order_id if old is not None and old.items else None
        if order_id is not None and (whole or number == 0):
            wanted += periods.history(order_id)[0 if whole else -1 :]
    for item in purchase.items:
        order_id = item.latest_successful_order_id
        if order_id is not None and (whole or item.item_replacement is not None or chain):
            wanted += periods.history(order_id)[0 if whole else -2 : -1]
    return tuple(dict.fromkeys(wanted))


class _Part(Struct, frozen=True, kw_only=True):
    purchase: SubscriptionPurchase
    item: LineItem
    order_id: str
    # The purchase before it, where this one took its place while it ran.
    took_over: SubscriptionPurchase | None = None

    def began(self, order: GoogleOrder | None, ends_at: Ms) -> Ms:
        paid_at = periods.paid_at(order) if order is not None else None
        return instant(self.purchase.start_time) or paid_at or ends_at


class SubscriptionLine(Struct, frozen=True):
    # Oldest first; the last is the one at hand.
    parts: tuple[_Part, ...]
    orders: Mapping[str, GoogleOrder]

    @classmethod
    def of(
        cls,
        purchase: SubscriptionPurchase,
        item: LineItem,
        order_id: str,
        orders: Mapping[str, GoogleOrder],
        chain: Chain,
    ) -> SubscriptionLine:
        known: list[SubscriptionPurchase] = []
        for _, old in chain:
            if old is None or not old.items or old.items[0].latest_successful_order_id is None:
                break
            known.append(old)
        parts: list[_Part] = []
        for old in reversed(known):
            before = parts[-1].purchase if parts else None
            first = old.items[0]
            order = first.latest_successful_order_id or ""
            parts.append(_Part(purchase=old, item=first, order_id=order, took_over=_if_running(before)))
        before = parts[-1].purchase if parts else None
        last = _Part(purchase=purchase, item=item, order_id=order_id, took_over=_if_running(before))
        return cls((*parts, last), orders)

    @property
    def first_order(self) -> str:
        """Of the first purchase that is known: the id of the subscription."""
        return periods.split(self.parts[0].order_id)[0]

    def periods(self, ends_at: Ms) -> tuple[Period, ...]:
        """As far as orders were read, and always the running one, which ends at `ends_at`."""
        line: list[Period] = []
        for part in self.parts[:-1]:
            line += self._cut(part, [*self._of(part, periods.history(part.order_id))])
        last = self.parts[-1]
        line += self._of(last, periods.history(last.order_id)[:-1])
        running = self._running(last, ends_at)
        if line and _is_no_payment(last, running):
            # The new purchase only changes how the old one goes on: what was paid before is what runs.
            line[-1] = replace(line[-1], ends_at=ends_at)
        else:
            line.append(running)
        return tuple(_without_overlaps(line))

    def _cut(self, part: _Part, told: list[Period]) -> list[Period]:
        """A purchase that is over ended when it was replaced or revoked, whatever was paid for."""
        over = instant(part.item.expiry_time)
        if told and told[-1].id == part.order_id and over is not None and over < told[-1].ends_at:
            back = periods.money_back(self.orders.get(part.order_id), over, told[-1].ends_at)
            told[-1] = replace(told[-1], ends_at=over, money_back=() if part.purchase.is_replaced else back)
        return told

    def _of(self, part: _Part, ids: list[str]) -> Iterator[Period]:
        started_at = part.began(self.orders.get(ids[0]) if ids else None, 0)
        replaces = part.took_over is not None
        for period in periods.told(part.item, ids, self.orders, started_at=started_at, replaces=replaces):
            made = self._caused(part, period)
            if not _is_no_payment(part, made):
                yield made

    def _running(self, part: _Part, ends_at: Ms) -> Period:
        order = self.orders.get(part.order_id)
        started_at = part.began(order, ends_at)
        made = periods.period(
            part.item, part.order_id, order, started_at=started_at, ends_at=ends_at, replaces=part.took_over is not None
        )
        return self._caused(part, made)

    def _caused(self, part: _Part, made: Period) -> Period:
        if made.country is None:
            made = replace(made, country=periods.country_of(None, part.purchase.region_code))
        was = periods.product_before(part.item, made.id, self.orders) if made.number else _product_of(part.took_over)
        if was is None or was == made.product_id:
            return made
        return replace(made, cause=Cause.CHANGE, changed_from=was)


def _if_running(old: SubscriptionPurchase | None) -> SubscriptionPurchase | None:
    """Whoever subscribes again after the end has replaced nothing that ran."""
    lapsed = old is not None and old.subscription_state == EXPIRED and not old.is_replaced
    return None if lapsed else old


def _product_of(old: SubscriptionPurchase | None) -> str | None:
    return old.items[0].product if old is not None else None


def _is_no_payment(part: _Part, made: Period) -> bool:
    """The first order of a purchase that goes on with the product and the time that another one has paid for: a
    product that is to change at the end, or a cancelled subscription that was taken up again."""
    same = made.number == 0 and _product_of(part.took_over) == made.product_id
    return same and made.price.micros == 0 and made.period_type is not PeriodType.TRIAL


def _without_overlaps(line: list[Period]) -> Iterator[Period]:
    """What another purchase took the place of ended there."""
    for one, following in zip(line, [*line[1:], None], strict=True):
        cut = following is not None and following.cause is not Cause.RENEWAL and following.purchased_at < one.ends_at
        yield replace(one, ends_at=following.purchased_at) if following is not None and cut else one


# The prepaid purchases that one replaced, newest first, by their tokens.
Earlier = tuple[tuple[str, SubscriptionPurchase], ...]


def orders_of(earlier: Earlier) -> tuple[str, ...]:
    """Oldest first."""
    named = (old.items[0].latest_successful_order_id for _, old in reversed(earlier))
    return tuple(one for one in named if one is not None)


def bought(
    app_id: str, store: str, purchase: SubscriptionPurchase, item: LineItem, id: str, order: GoogleOrder | None
) -> Purchase:
    ends_at, paid_until = item.ends_at, periods.paid_end(order, item.product_id)
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
    if refunded_at is not None and periods.is_revoked(refunded_at, items[0].ends_at):
        # The money of the top-up went back, and Google leaves what was there before it, until the end that it names.
        left_until = items[0].ends_at
        return replace(made, revoked_at=left_until if periods.is_revoked(left_until, made.ends_at) else None)
    began = _first_paid_at(items, orders) or instant(after.start_time)
    resolved = began is not None and (made.ends_at is None or began < made.ends_at)
    return replace(made, resolved_at=began if resolved else None)


def _first_paid_at(items: tuple[LineItem, ...], orders: Mapping[str, GoogleOrder]) -> Ms | None:
    order_id = items[0].latest_successful_order_id if items else None
    order = orders.get(periods.split(order_id)[0]) if order_id is not None else None
    return periods.paid_at(order) if order is not None else None
