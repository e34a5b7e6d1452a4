"""What a customer can buy in the App Store. Each function gives the new books and the notifications."""

from dataclasses import replace

from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    AppleDiscount,
    AppleKind,
    AppleNotice,
    AppleOffer,
    AppleOfferKind,
    AppleProduct,
    ApplePurchase,
    AppleRenewal,
    AppleStatus,
    AppleStep,
    AppleTransaction,
)


def product_of(books: AppleBooks, id: str) -> AppleProduct:
    found = books.product(id)
    if found is None:
        raise NotFound(f"The store sells no product {id!r}.", param="product_id")
    return found


def purchase_of(books: AppleBooks, id: str) -> ApplePurchase:
    """By its original transaction id, or by the id of any of its transactions."""
    found = books.purchases.get(id)
    if found is None:
        transactions = ((purchase, each.id) for purchase in books.purchases.values() for each in purchase.transactions)
        found = next((one for one, each in transactions if each == id), None)
    if found is None:
        raise NotFound(f"The store knows no purchase {id!r}.", param="purchase")
    return found


def buy(
    books: AppleBooks,
    now: Ms,
    product_id: str,
    buyer: str,
    *,
    account_token: str | None = None,
    trial: bool = False,
    intro: bool = False,
    offer: AppleOffer | None = None,
    family: bool = False,
) -> AppleStep:
    product = product_of(books, product_id)
    if product.kind is not AppleKind.SUBSCRIPTION:
        return _buy_once(books, now, product, buyer, account_token, family)
    if sum((trial, intro, offer is not None)) > 1:
        raise Refusal("A purchase has one offer at most: trial, intro or offer.", param="offer")
    known = _in_group(books, product.group, buyer)
    if known is not None and known.status not in (AppleStatus.EXPIRED, AppleStatus.REVOKED):
        raise Refusal(
            f"{buyer!r} has a subscription in the group {product.group!r} already; use the act `change`.",
            param="product_id",
        )
    used = offer if offer is not None else _introductory(product, known, trial=trial, intro=intro)
    # Only an introductory offer comes with SUBSCRIBED; every other one has a notification of its own.
    redeemed = used is not None and used.kind is not AppleOfferKind.INTRODUCTORY
    books, bought = started(books, now, product, used, family=family, reason="PURCHASE")
    renewal = AppleRenewal(product_id=product.id, offer=_next_offer(used), offers_left=_offers_left(used))
    first = known or ApplePurchase(id=bought.id, buyer=buyer, kind=product.kind, transactions=(), family=family)
    purchase = replace(
        first,
        transactions=(*first.transactions, bought),
        account_token=account_token or first.account_token,
        status=AppleStatus.ACTIVE,
        renewal=renewal,
        recent_start=now,
    )
    subtype = "INITIAL_BUY" if known is None else "RESUBSCRIBE"
    notice = noticed("OFFER_REDEEMED" if redeemed else "SUBSCRIBED", subtype, now, purchase)
    return kept(books, purchase), (notice,)


def started(
    books: AppleBooks,
    now: Ms,
    product: AppleProduct,
    offer: AppleOffer | None,
    *,
    family: bool = False,
    reason: str,
    follows: Ms = 0,
) -> tuple[AppleBooks, AppleTransaction]:
    """A new transaction. Its time begins at `follows` if that is given, else when it is paid."""
    assert product.period is not None
    length = offer.duration if offer is not None else product.period
    price = offer.price if offer is not None else product.price
    transaction = AppleTransaction(
        id=str(books.next_id),
        product_id=product.id,
        purchased_at=now,
        expires_at=add(follows or now, length),
        reason=reason,
        price=Price(0, price.currency) if family else price,
        offer=offer,
    )
    return replace(books, next_id=books.next_id + 1), transaction


def renewal_offer(renewal: AppleRenewal) -> tuple[AppleOffer | None, AppleRenewal]:
    """The offer of the period that now begins, and what is left of it for those after."""
    if renewal.offer is None or renewal.offers_left < 1:
        return None, replace(renewal, offer=None, offers_left=0)
    left = renewal.offers_left - 1
    return renewal.offer, replace(renewal, offer=renewal.offer if left else None, offers_left=left)


def kept(books: AppleBooks, purchase: ApplePurchase) -> AppleBooks:
    return replace(books, purchases={**books.purchases, purchase.id: purchase})


def noticed(
    type: str, subtype: str | None, at: Ms, purchase: ApplePurchase, transaction: AppleTransaction | None = None
) -> AppleNotice:
    return AppleNotice(type=type, subtype=subtype, at=at, purchase=purchase, transaction=transaction or purchase.latest)


def free_trial(duration: Duration, currency: str) -> AppleOffer:
    return AppleOffer(
        kind=AppleOfferKind.INTRODUCTORY, discount=AppleDiscount.FREE_TRIAL, duration=duration, price=Price(0, currency)
    )


def _buy_once(
    books: AppleBooks, now: Ms, product: AppleProduct, buyer: str, account_token: str | None, family: bool
) -> AppleStep:
    if product.kind is AppleKind.NON_CONSUMABLE:
        for purchase in books.purchases.values():
            if (
                purchase.buyer == buyer
                and purchase.latest.product_id == product.id
                and purchase.latest.revoked_at is None
            ):
                raise Refusal(f"{buyer!r} owns {product.id!r} already.", param="product_id")
    bought = AppleTransaction(
        id=str(books.next_id),
        product_id=product.id,
        purchased_at=now,
        # Apple does not know when a non-renewing subscription ends; the app decides that.
        expires_at=None,
        reason="PURCHASE",
        price=Price(0, product.price.currency) if family else product.price,
    )
    purchase = ApplePurchase(
        id=bought.id,
        buyer=buyer,
        kind=product.kind,
        transactions=(bought,),
        account_token=account_token,
        family=family,
        recent_start=now,
    )
    books = kept(replace(books, next_id=books.next_id + 1), purchase)
    return books, (noticed("ONE_TIME_CHARGE", None, now, purchase),)


def _in_group(books: AppleBooks, group: str, buyer: str) -> ApplePurchase | None:
    for purchase in books.purchases.values():
        if purchase.kind is AppleKind.SUBSCRIPTION and purchase.buyer == buyer:
            product = books.product(purchase.latest.product_id)
            if product is not None and product.group == group:
                return purchase
    return None


def _introductory(product: AppleProduct, known: ApplePurchase | None, *, trial: bool, intro: bool) -> AppleOffer | None:
    if not trial and not intro:
        return None
    if trial and product.trial is None:
        raise Refusal(f"{product.id!r} has no trial on offer.", param="trial")
    if intro and product.intro is None:
        raise Refusal(f"{product.id!r} has no introductory price on offer.", param="intro")
    before = known.transactions if known is not None else ()
    if any(bought.offer is not None and bought.offer.kind is AppleOfferKind.INTRODUCTORY for bought in before):
        raise Refusal("The buyer has used an introductory offer of this group already.", param="trial")
    if trial:
        assert product.trial is not None
        return free_trial(product.trial, product.price.currency)
    return product.intro


def _next_offer(used: AppleOffer | None) -> AppleOffer | None:
    return used if _offers_left(used) else None


def _offers_left(used: AppleOffer | None) -> int:
    return used.periods - 1 if used is not None else 0
