"""What time brings: renewals, failed payments, pauses, ends, and the refund of what nobody acknowledged."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.instants import DAY, Ms, add
from latchkey.emulators.google.buying import kept, noticed, product_of
from latchkey.emulators.google.state import (
    By,
    Code,
    Life,
    Notice,
    Order,
    Phase,
    Purchase,
    State,
    Step,
    renewal_order_id,
)

# A purchase that the app did not acknowledge by then is refunded and taken back.
ACKNOWLEDGE_WITHIN: Ms = 3 * DAY


def due_at(purchase: Purchase) -> Ms | None:
    """When time will next change this purchase, if it ever will."""
    due = [at for at in (_unacknowledged_at(purchase), _next_change(purchase)) if at is not None]
    return min(due, default=None)


def advance(life: Life, until: Ms) -> Step:
    """Everything that happens up to and with `until`, each at its own time, oldest first."""
    told: list[Notice] = []
    while True:
        due = [(at, one.token) for one in life.purchases.values() if (at := due_at(one)) is not None and at <= until]
        if not due:
            return life, tuple(told)
        at, token = min(due)
        purchase = life.purchases[token]
        if _unacknowledged_at(purchase) == at:
            life, notices = taken_back(life, at, purchase)
        else:
            life, notices = _pass(life, at, purchase)
        told.extend(notices)


def taken_back(life: Life, at: Ms, purchase: Purchase) -> Step:
    """Refunded and revoked at once."""
    return voided(life, at, purchase, purchase.latest.id, revoke=True)


def voided(life: Life, at: Ms, purchase: Purchase, order: str, *, revoke: bool) -> Step:
    """An order is refunded; with `revoke`, access ends too."""
    orders = tuple(replace(one, refunded_at=at, voided=revoke) if one.id == order else one for one in purchase.orders)
    purchase = replace(purchase, orders=orders)
    told: tuple[Notice, ...] = ()
    if revoke:
        told = (
            Notice(
                at=at,
                token=purchase.token,
                voided_order=order,
                subscription=purchase.subscription,
                sku=purchase.product.partition(":")[0],
            ),
        )
        if not purchase.subscription:
            purchase = replace(purchase, state=State.CANCELED)
        elif purchase.state is not State.EXPIRED:
            purchase = ended(purchase, at, By.DEVELOPER)
            told = (noticed(at, purchase, Code.REVOKED), *told)
    return kept(life, purchase), told


def ended(purchase: Purchase, at: Ms, by: By | None) -> Purchase:
    return replace(
        purchase,
        state=State.EXPIRED,
        auto_renew=False,
        expires_at=min(at, purchase.expires_at) if purchase.expires_at is not None else at,
        cancelled_by=purchase.cancelled_by or by,
        cancelled_at=purchase.cancelled_at or at,
        hold_ends_at=None,
        resumes_at=None,
        fails_with=None,
        next_product=None,
    )


def renewed(life: Life, at: Ms, purchase: Purchase, *, follows: Ms, code: Code) -> Step:
    """A new paid period, of the product that was chosen for it."""
    product = product_of(life, purchase.next_product or purchase.product)
    changed = product.name != purchase.product
    length, price, phase, left = product.period, product.price, Phase.BASE, 0
    if purchase.intro_left and product.intro is not None and not changed:
        length, price, phase = product.intro.duration, product.intro.price, Phase.INTRODUCTORY
        left = purchase.intro_left - 1
    assert length is not None
    order = Order(
        id=renewal_order_id(purchase),
        product=product.name,
        bought_at=at,
        starts_at=follows,
        ends_at=add(follows, length),
        price=price,
        phase=phase,
    )
    purchase = replace(
        purchase,
        product=product.name,
        next_product=None,
        orders=(*purchase.orders, order),
        state=State.ACTIVE,
        expires_at=order.ends_at,
        paid_until=None,
        hold_ends_at=None,
        resumes_at=None,
        fails_with=None,
        intro_left=left,
    )
    told = (noticed(at, purchase, code),)
    return kept(life, purchase), (*told, noticed(at, purchase, Code.ITEMS_CHANGED)) if changed else told


def _next_change(purchase: Purchase) -> Ms | None:
    if not purchase.subscription:
        return None
    match purchase.state:
        case State.ACTIVE | State.IN_GRACE_PERIOD | State.CANCELED:
            return purchase.expires_at
        case State.ON_HOLD:
            return purchase.hold_ends_at
        case State.PAUSED:
            return purchase.resumes_at
        case _:
            return None


def _unacknowledged_at(purchase: Purchase) -> Ms | None:
    if purchase.acknowledged or purchase.state in (State.PENDING, State.PENDING_PURCHASE_CANCELED, State.EXPIRED):
        return None
    if any(one.refunded_at is not None for one in purchase.orders):
        return None
    # Renewals need no acknowledgement.
    return purchase.orders[0].bought_at + ACKNOWLEDGE_WITHIN


def _pass(life: Life, at: Ms, purchase: Purchase) -> Step:
    match purchase.state:
        case State.CANCELED:
            return _expire(life, at, purchase, purchase.cancelled_by or By.USER)
        case State.PAUSED:
            return renewed(life, at, purchase, follows=at, code=Code.RENEWED)
        case State.ON_HOLD:
            return _give_up(life, at, purchase)
        case State.IN_GRACE_PERIOD:
            return _hold(life, at, purchase)
    if purchase.prepaid:
        return _expire(life, at, purchase, None)
    if purchase.cancellation_scheduled:
        return _expire(life, at, purchase, By.USER)
    if purchase.resumes_at is not None:
        paused = replace(purchase, state=State.PAUSED, paid_until=at)
        return kept(life, paused), (noticed(at, paused, Code.PAUSED),)
    if purchase.fails_with is not None:
        return _fail(life, at, purchase)
    return renewed(life, at, purchase, follows=at, code=Code.RENEWED)


def _fail(life: Life, at: Ms, purchase: Purchase) -> Step:
    assert purchase.fails_with is not None
    grace_days, hold_days = purchase.fails_with
    failed = replace(purchase, paid_until=at, hold_ends_at=at + (grace_days + hold_days) * DAY)
    if not grace_days:
        return _hold(life, at, failed)
    # Google moves the end of the subscription to the end of the grace period.
    failed = replace(failed, state=State.IN_GRACE_PERIOD, expires_at=at + grace_days * DAY)
    return kept(life, failed), (noticed(at, failed, Code.IN_GRACE_PERIOD),)


def _hold(life: Life, at: Ms, purchase: Purchase) -> Step:
    if purchase.hold_ends_at is None or purchase.hold_ends_at <= at:
        return _give_up(life, at, purchase)
    held = replace(purchase, state=State.ON_HOLD)
    return kept(life, held), (noticed(at, held, Code.ON_HOLD),)


def _give_up(life: Life, at: Ms, purchase: Purchase) -> Step:
    over = ended(purchase, at, By.SYSTEM)
    return kept(life, over), (noticed(at, over, Code.CANCELED), noticed(at, over, Code.EXPIRED))


def _expire(life: Life, at: Ms, purchase: Purchase, by: By | None) -> Step:
    over = ended(purchase, at, by)
    if by is None:
        over = replace(over, cancelled_at=None)
    return kept(life, over), (noticed(at, over, Code.EXPIRED),)
