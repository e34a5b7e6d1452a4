"""What Google Play sells and what a customer can buy there, as the control API takes it in JSON."""

from dataclasses import replace
from typing import Any

from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.control_requests import ControlRequest, ProductRequest, SaleRequest, duration_of, price_of
from latchkey.emulators.google.google_books import (
    GoogleBooks,
    GoogleIntro,
    GoogleOrder,
    GooglePhase,
    GoogleProduct,
    GooglePurchase,
    GoogleState,
    GoogleStep,
    NoticeCode,
    kept,
    noticed,
    order_id,
    product_of,
    purchase_token,
)

# What a new store sells: the products of the demo project, in Google's terms, and a prepaid plan.
FIRST_PRODUCTS: tuple[dict[str, Any], ...] = (
    {"id": "team_monthly", "plan": "monthly", "period": "P1M", "price": 29.99},
    {"id": "pro_monthly", "plan": "monthly", "period": "P1M", "price": 9.99, "trial": "P7D"},
    {"id": "pro_monthly", "plan": "prepaid", "period": "P1M", "price": 10.99, "prepaid": True},
    {"id": "pro_yearly", "plan": "yearly", "period": "P1Y", "price": 79.99},
    {"id": "basic_monthly", "plan": "monthly", "period": "P1M", "price": 4.99,
     "intro": {"price": 0.99, "periods": 3}},
    {"id": "pro_lifetime", "price": 199.99},
    {"id": "coins_100", "price": 1.99, "consumable": True},
)  # fmt: skip
_ENDED = (GoogleState.EXPIRED, GoogleState.PENDING_PURCHASE_CANCELED)


class GoogleIntroRequest(ControlRequest, frozen=True):
    price: float
    duration: str = "P1M"
    periods: int = 1


class GoogleProductRequest(ProductRequest, frozen=True, kw_only=True):
    """A base plan of a subscription with `plan` and `period`, or a one-time product without."""

    plan: str | None = None
    prepaid: bool = False
    consumable: bool = False
    intro: GoogleIntroRequest | None = None

    def product(self) -> GoogleProduct:
        if (self.plan is None) != (self.period is None):
            raise Invalid("A subscription has both a plan and a period; a one-time product neither.", param="plan")
        if self.plan is None and (self.prepaid or self.trial or self.intro):
            raise Invalid("Only a subscription is prepaid, or has a trial or an introductory price.", param="plan")
        if self.prepaid and (self.trial or self.intro):
            raise Invalid("A prepaid plan has no trial and no introductory price.", param="prepaid")
        intro = None
        if self.intro is not None:
            intro = GoogleIntro(
                price=price_of(self.intro.price, self.currency),
                duration=duration_of(self.intro.duration, "intro"),
                periods=self.intro.periods,
            )
        return GoogleProduct(
            id=self.id,
            price=price_of(self.price, self.currency),
            plan=self.plan,
            period=self.length(),
            prepaid=self.prepaid,
            consumable=self.consumable,
            trial=self.trial_length(),
            intro=intro,
        )


class GoogleSaleRequest(SaleRequest, frozen=True, kw_only=True):
    intro: bool = False
    # The payment has not come through yet; see the acts complete and decline.
    pending: bool = False


def buy(books: GoogleBooks, now: Ms, sale: GoogleSaleRequest, *, test: bool) -> GoogleStep:
    if sale.account_token is not None and not 0 < len(sale.account_token) <= 64:
        raise Invalid("account_token has at most 64 characters: Google takes no more.", param="account_token")
    product, phase = product_of(books, sale.product_id), GooglePhase.BASE
    if product.plan is None:
        _check_not_owned(books, product, sale.buyer)
    else:
        _check_offer(books, product, sale)
        phase = GooglePhase.FREE_TRIAL if sale.trial else GooglePhase.INTRODUCTORY if sale.intro else phase
    owner: dict[str, Any] = {"buyer": sale.buyer, "account_token": sale.account_token, "test": test}
    books, purchase = new_purchase(books, now, product, phase=phase, **owner)
    if sale.pending:
        return kept(books, replace(purchase, state=GoogleState.PENDING)), ()
    return kept(books, purchase), (noticed(now, purchase, NoticeCode.PURCHASED),)


def new_purchase(
    books: GoogleBooks,
    now: Ms,
    product: GoogleProduct,
    *,
    phase: GooglePhase = GooglePhase.BASE,
    ends_at: Ms | None = None,
    **fields: Any,
) -> tuple[GoogleBooks, GooglePurchase]:
    """With its token and its first order. The paid time ends at `ends_at` if that is given."""
    length, price = terms(product, phase)
    if ends_at is None and length is not None:
        ends_at = add(now, length)
    order = GoogleOrder(
        id=order_id(books),
        product=product.name,
        bought_at=now,
        starts_at=now if length is not None else None,
        ends_at=ends_at,
        price=price,
        phase=phase,
    )
    purchase = GooglePurchase(
        token=purchase_token(books),
        product=product.name,
        subscription=product.plan is not None,
        prepaid=product.prepaid,
        orders=(order,),
        started_at=now,
        auto_renew=product.plan is not None and not product.prepaid,
        expires_at=ends_at,
        intro_left=product.intro.periods - 1 if product.intro and phase is GooglePhase.INTRODUCTORY else 0,
        **fields,
    )
    return replace(books, next_number=books.next_number + 1), purchase


def terms(product: GoogleProduct, phase: GooglePhase) -> tuple[Duration | None, Price]:
    """How long a period of this phase is, and what it costs."""
    if phase is GooglePhase.FREE_TRIAL:
        return product.trial, Price(0, product.price.currency)
    if phase is GooglePhase.INTRODUCTORY and product.intro is not None:
        return product.intro.duration, product.intro.price
    return product.period, product.price


def _check_not_owned(books: GoogleBooks, product: GoogleProduct, buyer: str) -> None:
    for purchase in books.purchases.values():
        owned = purchase.state in (GoogleState.ACTIVE, GoogleState.PENDING) and not purchase.consumed
        if owned and purchase.buyer == buyer and purchase.product == product.name:
            raise Refusal(f"{buyer!r} owns {product.name!r} already, and has not consumed it.", param="product_id")


def _check_offer(books: GoogleBooks, product: GoogleProduct, sale: GoogleSaleRequest) -> None:
    for purchase in books.purchases.values():
        same = purchase.buyer == sale.buyer and purchase.product.partition(":")[0] == product.id
        if not same or not purchase.subscription:
            continue
        if purchase.state not in _ENDED:
            message = f"{sale.buyer!r} has {purchase.product!r} already; use an act on that purchase."
            raise Refusal(message, param="product_id")
        if sale.trial and any(order.phase is GooglePhase.FREE_TRIAL for order in purchase.orders):
            raise Refusal(f"{sale.buyer!r} has used the trial of {product.id!r} already.", param="trial")
    if sale.trial and sale.intro:
        raise Refusal("A purchase has one offer at most: trial or intro.", param="trial")
    if sale.trial and product.trial is None:
        raise Refusal(f"{sale.product_id!r} has no trial on offer.", param="trial")
    if sale.intro and product.intro is None:
        raise Refusal(f"{sale.product_id!r} has no introductory price on offer.", param="intro")
