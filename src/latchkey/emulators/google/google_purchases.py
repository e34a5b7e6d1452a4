"""What a customer can buy in Google Play. Each function gives the new books and the notifications."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.instants import Ms, add
from latchkey.domain.money import Price
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.google.google_books import (
    GoogleBooks,
    GoogleNotice,
    GoogleOrder,
    GooglePhase,
    GoogleProduct,
    GooglePurchase,
    GoogleState,
    GoogleStep,
    NoticeCode,
    order_id,
    purchase_token,
)

RUNNING = (
    GoogleState.ACTIVE,
    GoogleState.IN_GRACE_PERIOD,
    GoogleState.ON_HOLD,
    GoogleState.PAUSED,
    GoogleState.CANCELED,
)


def product_of(life: GoogleBooks, name: str) -> GoogleProduct:
    found = life.product(name)
    if found is None:
        sold = ", ".join(one.name for one in life.products)
        raise NotFound(f"The store sells no product {name!r}. It sells: {sold}.", param="product_id")
    return found


def purchase_of(life: GoogleBooks, token: str) -> GooglePurchase:
    found = life.purchases.get(token)
    if found is None:
        raise NotFound("The store knows no purchase with this token.", param="purchase")
    return found


def buy(
    life: GoogleBooks,
    now: Ms,
    name: str,
    buyer: str,
    *,
    account_token: str | None = None,
    trial: bool = False,
    intro: bool = False,
    pending: bool = False,
    test: bool = True,
    replaces: str | None = None,
) -> GoogleStep:
    """With `replaces`, the purchase goes on where the named one ended: a resubscription in the app."""
    product = product_of(life, name)
    if product.plan is None:
        return _buy_once(life, now, product, buyer, account_token, pending, test)
    for one in life.purchases.values():
        same = one.subscription and one.buyer == buyer and one.product.partition(":")[0] == product.id
        if same and one.state in (*RUNNING, GoogleState.PENDING):
            raise Refusal(f"{buyer!r} has {one.product!r} already; use an act on that purchase.", param="product_id")
        if same and trial and any(order.phase is GooglePhase.FREE_TRIAL for order in one.orders):
            raise Refusal(f"{buyer!r} has used the trial of {product.id!r} already.", param="trial")
    if trial and intro:
        raise Refusal("A purchase has one offer at most: trial or intro.", param="trial")
    if trial and product.trial is None:
        raise Refusal(f"{name!r} has no trial on offer.", param="trial")
    if intro and product.intro is None:
        raise Refusal(f"{name!r} has no introductory price on offer.", param="intro")
    life, token, order = first_order(life, now, product, trial=trial, intro=intro)
    purchase = GooglePurchase(
        token=token,
        buyer=buyer,
        product=product.name,
        subscription=True,
        prepaid=product.prepaid,
        orders=(order,),
        started_at=now,
        state=GoogleState.PENDING if pending else GoogleState.ACTIVE,
        account_token=account_token,
        test=test,
        auto_renew=not product.prepaid,
        expires_at=order.ends_at,
        replaces=replaces,
        intro_left=product.intro.periods - 1 if intro and product.intro else 0,
    )
    life = kept(life, purchase)
    return life, () if pending else (noticed(now, purchase, NoticeCode.PURCHASED),)


def first_order(
    life: GoogleBooks,
    now: Ms,
    product: GoogleProduct,
    *,
    trial: bool = False,
    intro: bool = False,
    ends_at: Ms | None = None,
) -> tuple[GoogleBooks, str, GoogleOrder]:
    """The token and the order of a new purchase. Its paid time ends at `ends_at` if that is given."""
    length, price, phase = product.period, product.price, GooglePhase.BASE
    assert length is not None
    if trial and product.trial is not None:
        length, price, phase = product.trial, Price(0, product.price.currency), GooglePhase.FREE_TRIAL
    elif intro and product.intro is not None:
        length, price, phase = product.intro.duration, product.intro.price, GooglePhase.INTRODUCTORY
    order = GoogleOrder(
        id=order_id(life),
        product=product.name,
        bought_at=now,
        starts_at=now,
        ends_at=ends_at if ends_at is not None else add(now, length),
        price=price,
        phase=phase,
    )
    return replace(life, next_number=life.next_number + 1), purchase_token(life), order


def complete(life: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """A pending payment came through."""
    purchase = _pending(life, token)
    first = purchase.orders[0]
    moved = replace(first, bought_at=now)
    if first.ends_at is not None:
        moved = replace(moved, starts_at=now, ends_at=now + first.ends_at - first.bought_at)
    purchase = replace(purchase, orders=(moved,), state=GoogleState.ACTIVE, started_at=now, expires_at=moved.ends_at)
    if purchase.subscription:
        return kept(life, purchase), (noticed(now, purchase, NoticeCode.PURCHASED),)
    return kept(life, purchase), (one_time(now, purchase, 1),)


def decline(life: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """A pending payment did not come through."""
    purchase = replace(_pending(life, token), state=GoogleState.PENDING_PURCHASE_CANCELED, auto_renew=False)
    if purchase.subscription:
        return kept(life, purchase), (noticed(now, purchase, NoticeCode.PENDING_PURCHASE_CANCELED),)
    return kept(life, purchase), (one_time(now, purchase, 2),)


def kept(life: GoogleBooks, *purchases: GooglePurchase) -> GoogleBooks:
    return replace(life, purchases={**life.purchases, **{one.token: one for one in purchases}})


def noticed(at: Ms, purchase: GooglePurchase, code: NoticeCode) -> GoogleNotice:
    return GoogleNotice(at=at, token=purchase.token, code=code, sku=purchase.product.partition(":")[0])


def one_time(at: Ms, purchase: GooglePurchase, type: int) -> GoogleNotice:
    return GoogleNotice(at=at, token=purchase.token, one_time=type, sku=purchase.product, subscription=False)


def _pending(life: GoogleBooks, token: str) -> GooglePurchase:
    purchase = purchase_of(life, token)
    if purchase.state is not GoogleState.PENDING:
        raise Refusal("No payment is pending.", param="act")
    return purchase


def _buy_once(
    life: GoogleBooks, now: Ms, product: GoogleProduct, buyer: str, account_token: str | None, pending: bool, test: bool
) -> GoogleStep:
    for one in life.purchases.values():
        owned = (
            one.buyer == buyer
            and one.product == product.name
            and one.state in (GoogleState.ACTIVE, GoogleState.PENDING)
        )
        if owned and not one.consumed:
            raise Refusal(f"{buyer!r} owns {product.name!r} already, and has not consumed it.", param="product_id")
    order = GoogleOrder(
        id=order_id(life), product=product.name, bought_at=now, starts_at=None, ends_at=None, price=product.price
    )
    purchase = GooglePurchase(
        token=purchase_token(life),
        buyer=buyer,
        product=product.name,
        subscription=False,
        orders=(order,),
        started_at=now,
        state=GoogleState.PENDING if pending else GoogleState.ACTIVE,
        account_token=account_token,
        test=test,
        auto_renew=False,
    )
    life = kept(replace(life, next_number=life.next_number + 1), purchase)
    return life, () if pending else (one_time(now, purchase, 1),)
