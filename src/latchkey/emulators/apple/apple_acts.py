"""What can happen to a purchase in the App Store, by an act or by time. Each function gives the new books and the
notifications that the App Store would send. No clock, no I/O, no randomness: `now` comes in."""

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from latchkey.domain.instants import DAY, Ms, to_iso
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    AppleKind,
    AppleOfferKind,
    AppleOfferRequest,
    ApplePurchase,
    AppleRenewal,
    AppleStatus,
    AppleStep,
    AppleTransaction,
    ExpirationIntent,
    kept,
    noticed,
    offer_for,
    product_of,
    purchase_of,
    renewed,
    started,
)
from latchkey.emulators.control_requests import invalid_if, refuse_if

_RUNNING = (AppleStatus.ACTIVE, AppleStatus.GRACE, AppleStatus.BILLING_RETRY)


def cancel(books: AppleBooks, now: Ms, id: str) -> AppleStep:
    purchase, renewal = _running(books, id)
    refuse_if(not renewal.auto_renew, "Renewal is off already.")
    product = purchase.latest.product_id
    off = replace(renewal, auto_renew=False, product_id=product, offer=None, offers_left=0, fails_with_grace=None)
    purchase = replace(purchase, renewal=off)
    notices = [noticed("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", now, purchase)]
    if purchase.status is AppleStatus.BILLING_RETRY:
        # Access had ended already, and now no payment is tried any more.
        purchase = expired(purchase, ExpirationIntent.BILLING)
        notices.append(noticed("EXPIRED", "BILLING_RETRY", now, purchase))
    return kept(books, purchase), tuple(notices)


def uncancel(books: AppleBooks, now: Ms, id: str) -> AppleStep:
    purchase, renewal = _running(books, id)
    refuse_if(renewal.auto_renew and renewal.will_end is None, "Renewal is on already.")
    was_on = renewal.auto_renew
    purchase = replace(purchase, renewal=replace(renewal, auto_renew=True, will_end=None))
    notices = () if was_on else (noticed("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", now, purchase),)
    return kept(books, purchase), notices


def fail_billing(books: AppleBooks, now: Ms, id: str, *, grace_days: int = 0) -> AppleStep:  # noqa: ARG001 - as all acts
    """The payment of the next renewal will fail. The App Store reports it when the renewal is due."""
    invalid_if(not 0 <= grace_days <= 28, "grace_days is 0 to 28.", "grace_days")
    purchase, renewal = _running(books, id)
    refuse_if(purchase.status is not AppleStatus.ACTIVE, "A payment has failed already; use recover.")
    refuse_if(not renewal.auto_renew, "Renewal is off, so no payment is due; use uncancel first.")
    return kept(books, replace(purchase, renewal=replace(renewal, fails_with_grace=grace_days))), ()


def recover(books: AppleBooks, now: Ms, id: str) -> AppleStep:
    purchase, renewal = _running(books, id)
    if purchase.status is AppleStatus.ACTIVE:
        refuse_if(renewal.fails_with_grace is None, "No payment has failed, so there is nothing to recover.")
        return kept(books, replace(purchase, renewal=replace(renewal, fails_with_grace=None))), ()
    refuse_if(not renewal.auto_renew, "Renewal is off, so no payment is tried; use uncancel first.")
    # Within the grace period nothing was missed. After it the new period begins with the payment.
    follows = (purchase.latest.expires_at or 0) if purchase.status is AppleStatus.GRACE else 0
    return renewed(books, now, purchase, "BILLING_RECOVERY", follows)


def expire(
    books: AppleBooks,
    now: Ms,
    id: str,
    *,
    reason: Literal["voluntary", "billing", "price_increase", "not_for_sale"] = "voluntary",
) -> AppleStep:
    """The subscription will not be renewed when its period ends, for this reason."""
    purchase, renewal = _running(books, id)
    if reason == "voluntary":
        return cancel(books, now, id)
    if reason == "billing":
        return fail_billing(books, now, id)
    if purchase.status is not AppleStatus.ACTIVE:
        raise Refusal("A payment has failed, and the subscription ends for that reason.", param="act")
    will_end = ExpirationIntent[reason.upper()]
    return kept(books, replace(purchase, renewal=replace(renewal, will_end=will_end))), ()


def refund(books: AppleBooks, now: Ms, id: str, *, transaction: str | None = None) -> AppleStep:
    """Of the latest transaction that cost something, or of the named one."""
    purchase = purchase_of(books, id)
    paid = _to_refund(purchase, transaction)
    given_back = replace(paid, revoked_at=now, refunded=True)
    purchase = _changed(purchase, given_back)
    if purchase.kind is AppleKind.SUBSCRIPTION and purchase.latest.id == paid.id and purchase.status in _RUNNING:
        purchase = replace(purchase, status=AppleStatus.REVOKED)
    return kept(books, purchase), (noticed("REFUND", None, now, purchase, given_back),)


def reverse_refund(books: AppleBooks, now: Ms, id: str, *, transaction: str | None = None) -> AppleStep:
    purchase = purchase_of(books, id)
    refunded = [paid for paid in purchase.transactions if paid.refunded and transaction in (None, paid.id)]
    refuse_if(not refunded, "Nothing was refunded, so there is nothing to reverse.")
    restored = replace(refunded[-1], revoked_at=None, refunded=False)
    purchase = _changed(purchase, restored)
    if purchase.status is AppleStatus.REVOKED and purchase.latest.id == restored.id:
        runs = (restored.expires_at or 0) > now
        purchase = replace(purchase, status=AppleStatus.ACTIVE) if runs else expired(purchase, ExpirationIntent.OTHER)
    return kept(books, purchase), (noticed("REFUND_REVERSED", None, now, purchase, restored),)


def decline_refund(books: AppleBooks, now: Ms, id: str) -> AppleStep:
    return books, (noticed("REFUND_DECLINED", None, now, purchase_of(books, id)),)


def request_consumption(books: AppleBooks, now: Ms, id: str) -> AppleStep:
    """The customer asks for a refund, and the App Store asks how much was used."""
    return books, (noticed("CONSUMPTION_REQUEST", None, now, purchase_of(books, id)),)


def change(
    books: AppleBooks, now: Ms, id: str, *, product_id: str, offer: AppleOfferRequest | None = None
) -> AppleStep:
    """To another product of the group: at once if it is an upgrade, or of the same rank and length; otherwise with the
    next period."""
    chosen = offer_for(books, product_id, offer)
    purchase, renewal = _running(books, id)
    refuse_if(purchase.status is not AppleStatus.ACTIVE, "A payment has failed; use recover first.")
    new, old = product_of(books, product_id), product_of(books, purchase.latest.product_id)
    if new.kind is not AppleKind.SUBSCRIPTION or new.group != old.group:
        raise Refusal(f"{new.id!r} is not a subscription of the group {old.group!r}.", param="product_id")
    refuse_if(new.id == renewal.product_id, f"The next period is {new.id!r} already.", "product_id")
    if new.id == old.id:
        purchase = replace(purchase, renewal=replace(renewal, product_id=new.id, offer=None, offers_left=0))
        return kept(books, purchase), (noticed("DID_CHANGE_RENEWAL_PREF", None, now, purchase),)
    type = "OFFER_REDEEMED" if chosen else "DID_CHANGE_RENEWAL_PREF"
    periods = chosen.periods if chosen else 0
    if new.level < old.level or (new.level, new.period) == (old.level, old.period):
        left = replace(purchase.latest, upgraded=True)
        books, bought = started(books, now, new, chosen, family=purchase.family, reason="PURCHASE")
        renewal = AppleRenewal(product_id=new.id, offer=chosen, offers_left=max(periods - 1, 0))
        transactions = (*purchase.transactions[:-1], left, bought)
        purchase = replace(purchase, transactions=transactions, renewal=renewal)
        return kept(books, purchase), (noticed(type, "UPGRADE", now, purchase),)
    renewal = replace(renewal, product_id=new.id, auto_renew=True, offer=chosen, offers_left=periods)
    purchase = replace(purchase, renewal=renewal)
    return kept(books, purchase), (noticed(type, "DOWNGRADE", now, purchase),)


def redeem(books: AppleBooks, now: Ms, id: str, *, offer: AppleOfferRequest) -> AppleStep:
    """An offer for a subscription that runs. It counts from the next period on."""
    chosen = offer.offer(product_of(books, purchase_of(books, id).latest.product_id).price.currency)
    purchase, renewal = _running(books, id)
    if chosen.kind is AppleOfferKind.INTRODUCTORY:
        raise Refusal("An introductory offer is only for a first purchase.", param="offer")
    later = replace(renewal, auto_renew=True, offer=chosen, offers_left=chosen.periods)
    purchase = replace(purchase, renewal=later)
    return kept(books, purchase), (noticed("OFFER_REDEEMED", None, now, purchase),)


def extend(books: AppleBooks, now: Ms, id: str, *, days: int = 7) -> AppleStep:
    purchase, _ = _running(books, id)
    if purchase.status is not AppleStatus.ACTIVE:
        raise Refusal("Only a subscription whose payments are in order can be extended.", param="act")
    refuse_if(not 1 <= days <= 90, "The App Store extends a subscription by 1 to 90 days.", "days")
    longer = replace(purchase.latest, expires_at=(purchase.latest.expires_at or now) + days * DAY)
    purchase = _changed(purchase, longer)
    return kept(books, purchase), (noticed("RENEWAL_EXTENDED", None, now, purchase),)


def end_family_sharing(books: AppleBooks, now: Ms, id: str) -> AppleStep:
    purchase = purchase_of(books, id)
    refuse_if(not purchase.family, "This purchase is not shared by a family member; use refund.")
    if purchase.latest.revoked_at is not None or purchase.status is AppleStatus.EXPIRED:
        raise Refusal("The purchase has ended already.", param="act")
    ended = replace(purchase.latest, revoked_at=now)
    purchase = _changed(purchase, ended)
    if purchase.kind is AppleKind.SUBSCRIPTION:
        purchase = replace(purchase, status=AppleStatus.REVOKED)
    return kept(books, purchase), (noticed("REVOKE", None, now, purchase, ended),)


def price_increase(books: AppleBooks, now: Ms, id: str, *, agreed: bool = False) -> AppleStep:
    """The customer is asked to agree to a higher price, or has agreed."""
    purchase, renewal = _running(books, id)
    purchase = replace(purchase, renewal=replace(renewal, price_increase=int(agreed)))
    return kept(books, purchase), (noticed("PRICE_INCREASE", "ACCEPTED" if agreed else "PENDING", now, purchase),)


def _running(books: AppleBooks, id: str) -> tuple[ApplePurchase, AppleRenewal]:
    purchase = purchase_of(books, id)
    if purchase.renewal is None:
        raise Refusal("This is a one-time purchase. The act is for subscriptions.", param="act")
    refuse_if(purchase.status is AppleStatus.REVOKED, "The subscription was refunded or revoked.")
    if purchase.status is AppleStatus.EXPIRED:
        at = to_iso(purchase.latest.expires_at or 0)
        raise Refusal(f"The subscription ended at {at}; buy again.", param="act")
    return purchase, purchase.renewal


def _to_refund(purchase: ApplePurchase, id: str | None) -> AppleTransaction:
    if id is not None:
        named = [transaction for transaction in purchase.transactions if transaction.id == id]
        refuse_if(not named, f"The purchase has no transaction {id!r}.", "transaction")
        refuse_if(named[0].revoked_at is not None, "The transaction is refunded already.", "transaction")
        return named[0]
    paid = [bought for bought in purchase.transactions if bought.price.micros and bought.revoked_at is None]
    refuse_if(not paid, "Nothing was paid that is not refunded already.")
    return paid[-1]


def _changed(purchase: ApplePurchase, new: AppleTransaction) -> ApplePurchase:
    transactions = tuple(new if old.id == new.id else old for old in purchase.transactions)
    return replace(purchase, transactions=transactions)


# The App Store tries for so long to collect a payment.
BILLING_RETRY: Ms = 60 * DAY
_ENDED_BY = {
    ExpirationIntent.CANCELLED: "VOLUNTARY",
    ExpirationIntent.BILLING: "BILLING_RETRY",
    ExpirationIntent.PRICE_INCREASE: "PRICE_INCREASE",
    ExpirationIntent.NOT_FOR_SALE: "PRODUCT_NOT_FOR_SALE",
    ExpirationIntent.OTHER: None,
}


def due_events(books: AppleBooks) -> Iterator[tuple[Ms, str]]:
    """When time will next change each purchase."""
    for purchase in books.purchases.values():
        if (renewal := purchase.renewal) is None or purchase.status is None:
            continue
        at = {
            AppleStatus.ACTIVE: purchase.latest.expires_at,
            AppleStatus.GRACE: renewal.grace_ends_at,
            AppleStatus.BILLING_RETRY: renewal.retries_until,
        }.get(purchase.status)
        if at is not None:
            yield at, purchase.id


def expired(purchase: ApplePurchase, intent: ExpirationIntent) -> ApplePurchase:
    assert purchase.renewal is not None
    over = replace(
        purchase.renewal, intent=intent, retries_until=None, grace_ends_at=None, fails_with_grace=None, will_end=None
    )
    return replace(purchase, status=AppleStatus.EXPIRED, renewal=over)


def happen(books: AppleBooks, event: tuple[Ms, str]) -> AppleStep:
    at, id = event
    purchase = books.purchases[id]
    renewal = purchase.renewal
    assert renewal is not None
    if purchase.status is AppleStatus.BILLING_RETRY:
        return _end(books, at, purchase, ExpirationIntent.BILLING)
    if not renewal.auto_renew:
        return _end(books, at, purchase, ExpirationIntent.CANCELLED)
    if purchase.status is AppleStatus.GRACE:
        retried = replace(purchase, status=AppleStatus.BILLING_RETRY, renewal=replace(renewal, grace_ends_at=None))
        return kept(books, retried), (noticed("GRACE_PERIOD_EXPIRED", None, at, retried),)
    if renewal.will_end is not None:
        return _end(books, at, purchase, renewal.will_end)
    if renewal.fails_with_grace is not None:
        return _fail(books, at, purchase, renewal.fails_with_grace)
    return renewed(books, at, purchase)


def _fail(books: AppleBooks, at: Ms, purchase: ApplePurchase, grace_days: int) -> AppleStep:
    assert purchase.renewal is not None
    failed = replace(
        purchase.renewal,
        fails_with_grace=None,
        intent=ExpirationIntent.BILLING,
        grace_ends_at=at + grace_days * DAY if grace_days else None,
        retries_until=at + BILLING_RETRY,
    )
    status = AppleStatus.GRACE if grace_days else AppleStatus.BILLING_RETRY
    purchase = replace(purchase, status=status, renewal=failed)
    subtype = "GRACE_PERIOD" if grace_days else None
    return kept(books, purchase), (noticed("DID_FAIL_TO_RENEW", subtype, at, purchase),)


def _end(books: AppleBooks, at: Ms, purchase: ApplePurchase, intent: ExpirationIntent) -> AppleStep:
    purchase = expired(purchase, intent)
    return kept(books, purchase), (noticed("EXPIRED", _ENDED_BY[intent], at, purchase),)
