"""What a customer can buy in Google Play. Each function gives the new books and the notifications."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.instants import Ms, add
from latchkey.domain.money import Price
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.google.state import (
    Code,
    Life,
    Notice,
    Order,
    Phase,
    Product,
    Purchase,
    State,
    Step,
    order_id,
    purchase_token,
)

RUNNING = (State.ACTIVE, State.IN_GRACE_PERIOD, State.ON_HOLD, State.PAUSED, State.CANCELED)


def product_of(life: Life, name: str) -> Product:
    found = life.product(name)
    if found is None:
        sold = ", ".join(one.name for one in life.products)
        raise NotFound(f"The store sells no product {name!r}. It sells: {sold}.", param="product_id")
    return found


def purchase_of(life: Life, token: str) -> Purchase:
    found = life.purchases.get(token)
    if found is None:
        raise NotFound("The store knows no purchase with this token.", param="purchase")
    return found


def buy(
    life: Life,
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
) -> Step:
    """With `replaces`, the purchase goes on where the named one ended: a resubscription in the app."""
    product = product_of(life, name)
    if product.plan is None:
        return _buy_once(life, now, product, buyer, account_token, pending, test)
    for one in life.purchases.values():
        same = one.subscription and one.buyer == buyer and one.product.partition(":")[0] == product.id
        if same and one.state in (*RUNNING, State.PENDING):
            raise Refusal(f"{buyer!r} has {one.product!r} already; use an act on that purchase.", param="product_id")
        if same and trial and any(order.phase is Phase.FREE_TRIAL for order in one.orders):
            raise Refusal(f"{buyer!r} has used the trial of {product.id!r} already.", param="trial")
    if trial and intro:
        raise Refusal("A purchase has one offer at most: trial or intro.", param="trial")
    if trial and product.trial is None:
        raise Refusal(f"{name!r} has no trial on offer.", param="trial")
    if intro and product.intro is None:
        raise Refusal(f"{name!r} has no introductory price on offer.", param="intro")
    life, token, order = first_order(life, now, product, trial=trial, intro=intro)
    purchase = Purchase(
        token=token,
        buyer=buyer,
        product=product.name,
        subscription=True,
        prepaid=product.prepaid,
        orders=(order,),
        started_at=now,
        state=State.PENDING if pending else State.ACTIVE,
        account_token=account_token,
        test=test,
        auto_renew=not product.prepaid,
        expires_at=order.ends_at,
        replaces=replaces,
        intro_left=product.intro.periods - 1 if intro and product.intro else 0,
    )
    life = kept(life, purchase)
    return life, () if pending else (noticed(now, purchase, Code.PURCHASED),)


def first_order(
    life: Life, now: Ms, product: Product, *, trial: bool = False, intro: bool = False, ends_at: Ms | None = None
) -> tuple[Life, str, Order]:
    """The token and the order of a new purchase. Its paid time ends at `ends_at` if that is given."""
    length, price, phase = product.period, product.price, Phase.BASE
    assert length is not None
    if trial and product.trial is not None:
        length, price, phase = product.trial, Price(0, product.price.currency), Phase.FREE_TRIAL
    elif intro and product.intro is not None:
        length, price, phase = product.intro.duration, product.intro.price, Phase.INTRODUCTORY
    order = Order(
        id=order_id(life),
        product=product.name,
        bought_at=now,
        starts_at=now,
        ends_at=ends_at if ends_at is not None else add(now, length),
        price=price,
        phase=phase,
    )
    return replace(life, next_number=life.next_number + 1), purchase_token(life), order


def complete(life: Life, now: Ms, token: str) -> Step:
    """A pending payment came through."""
    purchase = _pending(life, token)
    first = purchase.orders[0]
    moved = replace(first, bought_at=now)
    if first.ends_at is not None:
        moved = replace(moved, starts_at=now, ends_at=now + first.ends_at - first.bought_at)
    purchase = replace(purchase, orders=(moved,), state=State.ACTIVE, started_at=now, expires_at=moved.ends_at)
    if purchase.subscription:
        return kept(life, purchase), (noticed(now, purchase, Code.PURCHASED),)
    return kept(life, purchase), (one_time(now, purchase, 1),)


def decline(life: Life, now: Ms, token: str) -> Step:
    """A pending payment did not come through."""
    purchase = replace(_pending(life, token), state=State.PENDING_PURCHASE_CANCELED, auto_renew=False)
    if purchase.subscription:
        return kept(life, purchase), (noticed(now, purchase, Code.PENDING_PURCHASE_CANCELED),)
    return kept(life, purchase), (one_time(now, purchase, 2),)


def kept(life: Life, *purchases: Purchase) -> Life:
    return replace(life, purchases={**life.purchases, **{one.token: one for one in purchases}})


def noticed(at: Ms, purchase: Purchase, code: Code) -> Notice:
    return Notice(at=at, token=purchase.token, code=code, sku=purchase.product.partition(":")[0])


def one_time(at: Ms, purchase: Purchase, type: int) -> Notice:
    return Notice(at=at, token=purchase.token, one_time=type, sku=purchase.product, subscription=False)


def _pending(life: Life, token: str) -> Purchase:
    purchase = purchase_of(life, token)
    if purchase.state is not State.PENDING:
        raise Refusal("No payment is pending.", param="act")
    return purchase


def _buy_once(
    life: Life, now: Ms, product: Product, buyer: str, account_token: str | None, pending: bool, test: bool
) -> Step:
    for one in life.purchases.values():
        owned = one.buyer == buyer and one.product == product.name and one.state in (State.ACTIVE, State.PENDING)
        if owned and not one.consumed:
            raise Refusal(f"{buyer!r} owns {product.name!r} already, and has not consumed it.", param="product_id")
    order = Order(
        id=order_id(life), product=product.name, bought_at=now, starts_at=None, ends_at=None, price=product.price
    )
    purchase = Purchase(
        token=purchase_token(life),
        buyer=buyer,
        product=product.name,
        subscription=False,
        orders=(order,),
        started_at=now,
        state=State.PENDING if pending else State.ACTIVE,
        account_token=account_token,
        test=test,
        auto_renew=False,
    )
    life = kept(replace(life, next_number=life.next_number + 1), purchase)
    return life, () if pending else (one_time(now, purchase, 1),)
