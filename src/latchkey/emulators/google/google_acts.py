"""What can happen to a purchase in Google Play. Each function gives the new books and the notifications that Google
would send. No clock, no I/O, no randomness: `now` comes in."""

from msgspec.structs import replace

from latchkey.domain.instants import DAY, Ms, add, to_iso
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.control_requests import duration_of, refuse_if
from latchkey.emulators.google.google_books import (
    CancelledBy,
    GoogleBooks,
    GoogleProduct,
    GooglePurchase,
    GoogleState,
    GoogleStep,
    NoticeCode,
    new_purchase,
    product_of,
    purchase_of,
    step,
)
from latchkey.emulators.google.google_due_events import NOTHING_AHEAD, ended, renewed, voided

# Google keeps a token readable for so long after the end.
READABLE_AFTER_END: Ms = 60 * DAY


def acknowledge(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    return step(books, now, replace(purchase_of(books, token), acknowledged=True))


def consume(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """Using a purchase up also acknowledges it."""
    purchase = purchase_of(books, token)
    refuse_if(purchase.subscription, "A subscription cannot be consumed.")
    return step(books, now, replace(purchase, acknowledged=True, consumed=True))


def cancel(
    books: GoogleBooks, now: Ms, token: str, *, by: CancelledBy = CancelledBy.USER, scheduled: bool = False
) -> GoogleStep:
    """`scheduled`: in an instalment plan the cancellation counts from the end of the commitment."""
    purchase = _renewing(books, token)
    refuse_if(not purchase.auto_renew or purchase.cancellation_scheduled, "Renewal is off already.")
    if scheduled:
        refuse_if(purchase.state is not GoogleState.ACTIVE, "Only an active subscription can be cancelled so.")
        purchase = replace(purchase, cancellation_scheduled=True, cancelled_by=by, cancelled_at=now)
        return step(books, now, purchase, NoticeCode.CANCELLATION_SCHEDULED)
    without_access = purchase.state in (GoogleState.ON_HOLD, GoogleState.PAUSED)
    purchase = replace(
        purchase, state=GoogleState.CANCELED, auto_renew=False, cancelled_by=by, cancelled_at=now, **NOTHING_AHEAD
    )
    if not without_access:
        return step(books, now, purchase, NoticeCode.CANCELED)
    over = ended(purchase, now, by)
    return step(books, now, over, NoticeCode.CANCELED, NoticeCode.EXPIRED)


def uncancel(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """In the Play Store, before the end."""
    purchase = _renewing(books, token)
    if purchase.state is not GoogleState.CANCELED and not purchase.cancellation_scheduled:
        raise Refusal("Renewal is on already.", param="act")
    refuse_if(purchase.paid_until is not None, "A payment has failed; use resubscribe.")
    purchase = replace(
        purchase,
        state=GoogleState.ACTIVE,
        auto_renew=True,
        cancelled_by=None,
        cancelled_at=None,
        cancellation_scheduled=False,
    )
    return step(books, now, purchase, NoticeCode.RESTARTED)


def fail_billing(books: GoogleBooks, now: Ms, token: str, *, grace_days: int = 0, hold_days: int = 30) -> GoogleStep:
    """The payment of the next renewal will fail. Google reports it when the renewal is due."""
    if not 0 <= grace_days <= 30 or not 0 <= hold_days <= 60:
        raise Invalid("grace_days is 0 to 30, hold_days 0 to 60.", param="grace_days")
    purchase = _renewing(books, token)
    refuse_if(purchase.state is not GoogleState.ACTIVE, "No renewal is due in this state.")
    return step(books, now, replace(purchase, fails_with=(grace_days, hold_days)))


def recover(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    purchase = _renewing(books, token)
    if purchase.state is GoogleState.ACTIVE and purchase.fails_with is not None:
        return step(books, now, replace(purchase, fails_with=None))
    if purchase.state is GoogleState.IN_GRACE_PERIOD:
        # Nothing was missed: the billing date stays.
        return renewed(books, now, purchase, follows=purchase.paid_until or now, code=NoticeCode.RENEWED)
    if purchase.state is GoogleState.ON_HOLD:
        return renewed(books, now, purchase, follows=now, code=NoticeCode.RECOVERED)
    raise Refusal("No payment has failed, so there is nothing to recover.", param="act")


def pause(books: GoogleBooks, now: Ms, token: str, *, duration: str = "P1M") -> GoogleStep:
    """From the end of the paid period on."""
    purchase = _renewing(books, token)
    if purchase.state is not GoogleState.ACTIVE or purchase.prepaid:
        raise Refusal("Only an active subscription that renews can be paused.", param="act")
    begins_at = purchase.expires_at or now
    resumes_at = add(begins_at, duration_of(duration, "for"))
    if resumes_at <= begins_at:
        ends = to_iso(begins_at)
        raise Refusal(f"A pause begins when the paid period ends ({ends}); it has to end later.", param="for")
    purchase = replace(purchase, resumes_at=resumes_at)
    return step(books, now, purchase, NoticeCode.PAUSE_SCHEDULE_CHANGED)


def resume(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    purchase = _renewing(books, token)
    if purchase.state is GoogleState.PAUSED:
        return renewed(books, now, purchase, follows=now, code=NoticeCode.RECOVERED)
    refuse_if(purchase.resumes_at is None, "The subscription is not paused.")
    purchase = replace(purchase, resumes_at=None)
    return step(books, now, purchase, NoticeCode.PAUSE_SCHEDULE_CHANGED)


def defer(books: GoogleBooks, now: Ms, token: str, *, days: int = 7, until: Ms | None = None) -> GoogleStep:
    """The developer moves the next billing date, by some days or to the moment `until`."""
    purchase = _renewing(books, token)
    if purchase.state is not GoogleState.ACTIVE or not purchase.auto_renew:
        raise Refusal("Only an active subscription that renews can be deferred.", param="act")
    ends_at = purchase.expires_at or now
    moved = until if until is not None else ends_at + days * DAY
    refuse_if(not ends_at < moved <= ends_at + 365 * DAY, "Google defers a renewal by 1 to 365 days.", "days")
    purchase = replace(purchase, expires_at=moved)
    return step(books, now, purchase, NoticeCode.DEFERRED)


def refund(books: GoogleBooks, now: Ms, token: str, *, order: str | None = None, revoke: bool = True) -> GoogleStep:
    """Of the latest order that cost something, or of the named one. With `revoke`, access ends."""
    purchase = purchase_of(books, token)
    candidates = [order for order in purchase.orders if order.refunded_at is None]
    if order is not None:
        candidates = [candidate for candidate in candidates if candidate.id == order]
    else:
        candidates = [candidate for candidate in candidates if candidate.price.micros]
    refuse_if(not candidates, "There is no such order that cost something and is not refunded already.", "order")
    if revoke and candidates[-1].id != purchase.latest.id:
        raise Refusal("Only the latest order can be revoked; refund an older one with revoke: false.", param="revoke")
    return voided(books, now, purchase, candidates[-1].id, revoke=revoke)


def revoke(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """The developer ends access at once, without giving money back."""
    purchase = ended(_renewing(books, token), now, CancelledBy.DEVELOPER)
    return step(books, now, purchase, NoticeCode.REVOKED)


def change(books: GoogleBooks, now: Ms, token: str, *, product_id: str, deferred: bool = False) -> GoogleStep:
    """To another base plan or product: a new purchase with a new token that points to the old one. Deferred, the new
    product begins with the next period."""
    old = _renewing(books, token)
    new = product_of(books, product_id)
    refuse_if(new.plan is None, f"{product_id!r} is not a subscription.", "product_id")
    refuse_if(new.name == old.product, f"The subscription is {product_id!r} already.", "product_id")
    if old.state not in (GoogleState.ACTIVE, GoogleState.CANCELED):
        raise Refusal("A payment is due or the subscription is paused; use recover or resume first.", param="act")
    if not deferred:
        return _replace(books, now, old, new)
    # It goes on with the old product, and the time that was paid for it.
    running = product_of(books, old.product)
    return _replace(books, now, old, running, ends_at=old.expires_at, next_product=new.name)


def resubscribe(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """In the app or the Play Store, after a cancellation: a new token that points to the old one."""
    old = purchase_of(books, token)
    if not old.subscription or old.prepaid or old.state not in (GoogleState.CANCELED, GoogleState.EXPIRED):
        raise Refusal("Only a subscription that was cancelled or has ended can be bought again so.", param="act")
    if any(purchase.replaces == token for purchase in books.purchases.values()):
        raise Refusal("The purchase was replaced by another already.", param="act")
    return _replace(books, now, old, product_of(books, old.product))


def top_up(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """More time for a prepaid plan: a new token, and the time is added."""
    old = purchase_of(books, token)
    if not old.prepaid or old.state is not GoogleState.ACTIVE:
        raise Refusal("Only a prepaid plan that has not ended can be topped up.", param="act")
    product = product_of(books, old.product)
    assert product.period is not None
    return _replace(books, now, old, product, ends_at=add(old.expires_at or now, product.period))


def price_change(books: GoogleBooks, now: Ms, token: str, *, confirmed: bool = False) -> GoogleStep:
    purchase = _renewing(books, token)
    code = NoticeCode.PRICE_CHANGE_CONFIRMED if confirmed else NoticeCode.PRICE_CHANGE_UPDATED
    return step(books, now, purchase, code)


def complete(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """A pending payment came through."""
    purchase = _pending(books, token)
    order = replace(purchase.orders[0], bought_at=now)
    if order.ends_at is not None:
        order = replace(order, starts_at=now, ends_at=now + order.ends_at - purchase.orders[0].bought_at)
    purchase = replace(purchase, orders=(order,), state=GoogleState.ACTIVE, started_at=now, expires_at=order.ends_at)
    return step(books, now, purchase, NoticeCode.PURCHASED)


def decline(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """A pending payment did not come through."""
    purchase = replace(_pending(books, token), state=GoogleState.PENDING_PURCHASE_CANCELED, auto_renew=False)
    return step(books, now, purchase, NoticeCode.PENDING_PURCHASE_CANCELED)


def _replace(
    books: GoogleBooks,
    now: Ms,
    old: GooglePurchase,
    product: GoogleProduct,
    *,
    ends_at: Ms | None = None,
    next_product: str | None = None,
) -> GoogleStep:
    books, new = new_purchase(
        books,
        now,
        product,
        ends_at=ends_at,
        buyer=old.buyer,
        account_token=old.account_token,
        test=old.test,
        next_product=next_product,
        replaces=old.token,
    )
    if next_product is not None:
        unpaid = replace(new.latest, price=Price(0, new.latest.price.currency))
        new = replace(new, orders=(unpaid,))
    books, bought = step(books, now, new, NoticeCode.PURCHASED)
    if old.state is GoogleState.EXPIRED:
        return books, bought
    over = replace(ended(old, now, CancelledBy.REPLACEMENT), cancelled_by=CancelledBy.REPLACEMENT, cancelled_at=now)
    books, replaced = step(books, now, over, NoticeCode.EXPIRED)
    return books, bought + replaced


def _renewing(books: GoogleBooks, token: str) -> GooglePurchase:
    purchase = purchase_of(books, token)
    refuse_if(not purchase.subscription, "This is a one-time purchase. The act is for subscriptions.")
    if purchase.state in (GoogleState.PENDING, GoogleState.PENDING_PURCHASE_CANCELED):
        raise Refusal("The first payment has not come through; use complete or decline.", param="act")
    if purchase.state is GoogleState.EXPIRED:
        raise Refusal(f"The subscription ended at {to_iso(purchase.expires_at or 0)}; use resubscribe.", param="act")
    return purchase


def _pending(books: GoogleBooks, token: str) -> GooglePurchase:
    purchase = purchase_of(books, token)
    refuse_if(purchase.state is not GoogleState.PENDING, "No payment is pending.")
    return purchase
