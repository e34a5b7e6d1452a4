"""What a customer can buy in Google Play. Each function gives the new books and the notifications."""

from dataclasses import replace

from latchkey.domain.instants import Ms, add
from latchkey.domain.money.amounts import Price
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


def product_of(books: GoogleBooks, name: str) -> GoogleProduct:
    found = books.product(name)
    if found is None:
        sold = ", ".join(product.name for product in books.products)
        raise NotFound(f"The store sells no product {name!r}. It sells: {sold}.", param="product_id")
    return found


def purchase_of(books: GoogleBooks, token: str) -> GooglePurchase:
    found = books.purchases.get(token)
    if found is None:
        raise NotFound("The store knows no purchase with this token.", param="purchase")
    return found


def buy(
    books: GoogleBooks,
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
    product = product_of(books, name)
    if product.plan is None:
        return _buy_once(books, now, product, buyer, account_token, pending, test)
    for purchase in books.purchases.values():
        same = purchase.subscription and purchase.buyer == buyer and purchase.product.partition(":")[0] == product.id
        if same and purchase.state in (*RUNNING, GoogleState.PENDING):
            raise Refusal(
                f"{buyer!r} has {purchase.product!r} already; use an act on that purchase.", param="product_id"
            )
        if same and trial and any(order.phase is GooglePhase.FREE_TRIAL for order in purchase.orders):
            raise Refusal(f"{buyer!r} has used the trial of {product.id!r} already.", param="trial")
    if trial and intro:
        raise Refusal("A purchase has one offer at most: trial or intro.", param="trial")
    if trial and product.trial is None:
        raise Refusal(f"{name!r} has no trial on offer.", param="trial")
    if intro and product.intro is None:
        raise Refusal(f"{name!r} has no introductory price on offer.", param="intro")
    books, token, order = first_order(books, now, product, trial=trial, intro=intro)
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
    books = kept(books, purchase)
    return books, () if pending else (noticed(now, purchase, NoticeCode.PURCHASED),)


def first_order(
    books: GoogleBooks,
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
        id=order_id(books),
        product=product.name,
        bought_at=now,
        starts_at=now,
        ends_at=ends_at if ends_at is not None else add(now, length),
        price=price,
        phase=phase,
    )
    return replace(books, next_number=books.next_number + 1), purchase_token(books), order


def complete(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """A pending payment came through."""
    purchase = _pending(books, token)
    first = purchase.orders[0]
    moved = replace(first, bought_at=now)
    if first.ends_at is not None:
        moved = replace(moved, starts_at=now, ends_at=now + first.ends_at - first.bought_at)
    purchase = replace(purchase, orders=(moved,), state=GoogleState.ACTIVE, started_at=now, expires_at=moved.ends_at)
    if purchase.subscription:
        return kept(books, purchase), (noticed(now, purchase, NoticeCode.PURCHASED),)
    return kept(books, purchase), (one_time(now, purchase, 1),)


def decline(books: GoogleBooks, now: Ms, token: str) -> GoogleStep:
    """A pending payment did not come through."""
    purchase = replace(_pending(books, token), state=GoogleState.PENDING_PURCHASE_CANCELED, auto_renew=False)
    if purchase.subscription:
        return kept(books, purchase), (noticed(now, purchase, NoticeCode.PENDING_PURCHASE_CANCELED),)
    return kept(books, purchase), (one_time(now, purchase, 2),)


def kept(books: GoogleBooks, *purchases: GooglePurchase) -> GoogleBooks:
    return replace(books, purchases={**books.purchases, **{purchase.token: purchase for purchase in purchases}})


def noticed(at: Ms, purchase: GooglePurchase, code: NoticeCode) -> GoogleNotice:
    return GoogleNotice(at=at, token=purchase.token, code=code, sku=purchase.product.partition(":")[0])


def one_time(at: Ms, purchase: GooglePurchase, type: int) -> GoogleNotice:
    return GoogleNotice(at=at, token=purchase.token, one_time=type, sku=purchase.product, subscription=False)


def _pending(books: GoogleBooks, token: str) -> GooglePurchase:
    purchase = purchase_of(books, token)
    if purchase.state is not GoogleState.PENDING:
        raise Refusal("No payment is pending.", param="act")
    return purchase


def _buy_once(
    books: GoogleBooks,
    now: Ms,
    product: GoogleProduct,
    buyer: str,
    account_token: str | None,
    pending: bool,
    test: bool,
) -> GoogleStep:
    for purchase in books.purchases.values():
        owned = (
            purchase.buyer == buyer
            and purchase.product == product.name
            and purchase.state in (GoogleState.ACTIVE, GoogleState.PENDING)
        )
        if owned and not purchase.consumed:
            raise Refusal(f"{buyer!r} owns {product.name!r} already, and has not consumed it.", param="product_id")
    order = GoogleOrder(
        id=order_id(books), product=product.name, bought_at=now, starts_at=None, ends_at=None, price=product.price
    )
    purchase = GooglePurchase(
        token=purchase_token(books),
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
    books = kept(replace(books, next_number=books.next_number + 1), purchase)
    return books, () if pending else (one_time(now, purchase, 1),)
