"""What time brings: renewals, failed payments, pauses, ends, and the refund of unacknowledged purchases."""

from collections.abc import Iterator

from msgspec.structs import replace

from latchkey.domain.instants import DAY, Ms, add
from latchkey.emulators.google.google_books import (
    CancelledBy,
    GoogleBooks,
    GoogleNotice,
    GoogleOrder,
    GooglePhase,
    GooglePurchase,
    GoogleState,
    GoogleStep,
    NoticeCode,
    product_of,
    renewal_order_id,
    step,
    terms,
)

# A purchase that the app did not acknowledge by then is refunded and taken back.
ACKNOWLEDGE_WITHIN: Ms = 3 * DAY
# Of a subscription for which nothing is planned, and no payment of which has failed.
NOTHING_AHEAD: dict[str, None] = dict.fromkeys(("next_product", "resumes_at", "fails_with", "hold_ends_at"))


def due_events(books: GoogleBooks) -> Iterator[tuple[Ms, str]]:
    for purchase in books.purchases.values():
        for at in (_unacknowledged_at(purchase), _next_change(purchase)):
            if at is not None:
                yield at, purchase.token


def voided(books: GoogleBooks, at: Ms, purchase: GooglePurchase, order: str, *, revoke: bool) -> GoogleStep:
    """An order is refunded; with `revoke`, access ends too."""
    orders = tuple(
        replace(paid, refunded_at=at, voided=revoke) if paid.id == order else paid for paid in purchase.orders
    )
    purchase = replace(purchase, orders=orders)
    if not revoke:
        return step(books, at, purchase)
    codes = [NoticeCode.REVOKED] if purchase.subscription and purchase.state is not GoogleState.EXPIRED else []
    if codes:
        purchase = ended(purchase, at, CancelledBy.DEVELOPER)
    elif not purchase.subscription:
        purchase = replace(purchase, state=GoogleState.CANCELED)
    books, notices = step(books, at, purchase, *codes)
    return books, (*notices, GoogleNotice(at, purchase, voided_order=order))


def ended(purchase: GooglePurchase, at: Ms, by: CancelledBy | None) -> GooglePurchase:
    return replace(
        purchase,
        state=GoogleState.EXPIRED,
        auto_renew=False,
        expires_at=min(at, purchase.expires_at) if purchase.expires_at is not None else at,
        cancelled_by=purchase.cancelled_by or by,
        cancelled_at=purchase.cancelled_at or at,
        **NOTHING_AHEAD,
    )


def renewed(books: GoogleBooks, at: Ms, purchase: GooglePurchase, *, follows: Ms, code: NoticeCode) -> GoogleStep:
    """A new paid period, of the product that was chosen for it."""
    product = product_of(books, purchase.next_product or purchase.product)
    changed = product.name != purchase.product
    reduced = purchase.intro_left > 0 and product.intro is not None and not changed
    phase = GooglePhase.INTRODUCTORY if reduced else GooglePhase.BASE
    length, price = terms(product, phase)
    assert length is not None
    order = GoogleOrder(
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
        orders=(*purchase.orders, order),
        state=GoogleState.ACTIVE,
        expires_at=order.ends_at,
        paid_until=None,
        intro_left=purchase.intro_left - 1 if reduced else 0,
        **NOTHING_AHEAD,
    )
    return step(books, at, purchase, code, *((NoticeCode.ITEMS_CHANGED,) if changed else ()))


def _next_change(purchase: GooglePurchase) -> Ms | None:
    if not purchase.subscription:
        return None
    match purchase.state:
        case GoogleState.ACTIVE | GoogleState.IN_GRACE_PERIOD | GoogleState.CANCELED:
            return purchase.expires_at
        case GoogleState.ON_HOLD:
            return purchase.hold_ends_at
        case GoogleState.PAUSED:
            return purchase.resumes_at
        case _:
            return None


def _unacknowledged_at(purchase: GooglePurchase) -> Ms | None:
    if purchase.acknowledged or purchase.state in (
        GoogleState.PENDING,
        GoogleState.PENDING_PURCHASE_CANCELED,
        GoogleState.EXPIRED,
    ):
        return None
    if any(order.refunded_at is not None for order in purchase.orders):
        return None
    # Renewals need no acknowledgement.
    return purchase.orders[0].bought_at + ACKNOWLEDGE_WITHIN


def happen(books: GoogleBooks, event: tuple[Ms, str]) -> GoogleStep:
    at, token = event
    purchase = books.purchases[token]
    if _unacknowledged_at(purchase) == at:
        return voided(books, at, purchase, purchase.latest.id, revoke=True)
    match purchase.state:
        case GoogleState.CANCELED:
            return _expire(books, at, purchase, purchase.cancelled_by or CancelledBy.USER)
        case GoogleState.PAUSED:
            return renewed(books, at, purchase, follows=at, code=NoticeCode.RENEWED)
        case GoogleState.ON_HOLD:
            return _give_up(books, at, purchase)
        case GoogleState.IN_GRACE_PERIOD:
            return _hold(books, at, purchase)
    if purchase.prepaid:
        return _expire(books, at, purchase, None)
    if purchase.cancellation_scheduled:
        return _expire(books, at, purchase, CancelledBy.USER)
    if purchase.resumes_at is not None:
        paused = replace(purchase, state=GoogleState.PAUSED, paid_until=at)
        return step(books, at, paused, NoticeCode.PAUSED)
    if purchase.fails_with is not None:
        return _fail(books, at, purchase)
    return renewed(books, at, purchase, follows=at, code=NoticeCode.RENEWED)


def _fail(books: GoogleBooks, at: Ms, purchase: GooglePurchase) -> GoogleStep:
    assert purchase.fails_with is not None
    grace_days, hold_days = purchase.fails_with
    failed = replace(purchase, paid_until=at, hold_ends_at=at + (grace_days + hold_days) * DAY)
    if not grace_days:
        return _hold(books, at, failed)
    # Google moves the end of the subscription to the end of the grace period.
    failed = replace(failed, state=GoogleState.IN_GRACE_PERIOD, expires_at=at + grace_days * DAY)
    return step(books, at, failed, NoticeCode.IN_GRACE_PERIOD)


def _hold(books: GoogleBooks, at: Ms, purchase: GooglePurchase) -> GoogleStep:
    if purchase.hold_ends_at is None or purchase.hold_ends_at <= at:
        return _give_up(books, at, purchase)
    held = replace(purchase, state=GoogleState.ON_HOLD)
    return step(books, at, held, NoticeCode.ON_HOLD)


def _give_up(books: GoogleBooks, at: Ms, purchase: GooglePurchase) -> GoogleStep:
    over = ended(purchase, at, CancelledBy.SYSTEM)
    return step(books, at, over, NoticeCode.CANCELED, NoticeCode.EXPIRED)


def _expire(books: GoogleBooks, at: Ms, purchase: GooglePurchase, by: CancelledBy | None) -> GoogleStep:
    over = ended(purchase, at, by)
    if by is None:
        over = replace(over, cancelled_at=None)
    return step(books, at, over, NoticeCode.EXPIRED)
