"""Google Play's own books: products with their base plans, purchases with every order, and how they begin."""

import base64
import hashlib
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import Invalid, Refusal, found
from latchkey.emulators.control_requests import (
    ControlRequest,
    ProductRequest,
    SaleRequest,
    duration_of,
    price_of,
    refuse_if,
)


class NoticeCode(IntEnum):
    """The type of a notification about a subscription."""

    RECOVERED = 1
    RENEWED = 2
    CANCELED = 3
    PURCHASED = 4
    ON_HOLD = 5
    IN_GRACE_PERIOD = 6
    RESTARTED = 7
    PRICE_CHANGE_CONFIRMED = 8
    DEFERRED = 9
    PAUSED = 10
    PAUSE_SCHEDULE_CHANGED = 11
    REVOKED = 12
    EXPIRED = 13
    ITEMS_CHANGED = 17
    CANCELLATION_SCHEDULED = 18
    PRICE_CHANGE_UPDATED = 19
    PENDING_PURCHASE_CANCELED = 20


class GoogleState(StrEnum):
    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    IN_GRACE_PERIOD = "IN_GRACE_PERIOD"
    ON_HOLD = "ON_HOLD"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    PENDING_PURCHASE_CANCELED = "PENDING_PURCHASE_CANCELED"


class CancelledBy(StrEnum):
    USER = "user"
    SYSTEM = "system"
    DEVELOPER = "developer"
    REPLACEMENT = "replacement"


class GooglePhase(StrEnum):
    BASE = "BASE"
    FREE_TRIAL = "FREE_TRIAL"
    INTRODUCTORY = "INTRODUCTORY"


class GoogleIntro(msgspec.Struct, frozen=True, kw_only=True):
    price: Price
    duration: Duration
    periods: int = 1


class GoogleIntroRequest(ControlRequest, frozen=True):
    price: float
    duration: str = "P1M"
    periods: int = 1


class GoogleProduct(ProductRequest, frozen=True, kw_only=True):
    """A base plan of a subscription with `plan` and `period`, or a one-time product without."""

    plan: str | None = None
    prepaid: bool = False
    consumable: bool = False
    reduced: GoogleIntroRequest | None = msgspec.field(name="intro", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        offer = self.free_for or self.intro
        if (self.plan is None) != (self.lasts is None):
            raise Invalid("A subscription has both a plan and a period; a one-time product neither.", param="plan")
        if self.plan is None and (self.prepaid or offer):
            raise Invalid("Only a subscription is prepaid, or has a trial or an introductory price.", param="plan")
        if self.prepaid and offer:
            raise Invalid("A prepaid plan has no trial and no introductory price.", param="prepaid")

    @property
    def name(self) -> str:
        """As the emulator and Latchkey call it."""
        return f"{self.id}:{self.plan}" if self.plan else self.id

    @property
    def intro(self) -> GoogleIntro | None:
        if (asked := self.reduced) is None:
            return None
        price, length = price_of(asked.price, self.currency), duration_of(asked.duration, "intro")
        return GoogleIntro(price=price, duration=length, periods=asked.periods)


class GoogleOrder(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    product: str
    bought_at: Ms
    # The time that it paid for. None for a one-time product.
    starts_at: Ms | None
    ends_at: Ms | None
    price: Price
    phase: GooglePhase = GooglePhase.BASE
    refunded_at: Ms | None = None
    # With access taken away: only such orders are listed as voided.
    voided: bool = False


class GooglePurchase(msgspec.Struct, frozen=True, kw_only=True):
    """What one purchase token stands for."""

    token: str
    buyer: str
    # The product that runs, by its name.
    product: str
    subscription: bool
    prepaid: bool = False
    orders: tuple[GoogleOrder, ...]
    started_at: Ms
    state: GoogleState = GoogleState.ACTIVE
    account_token: str | None = None
    test: bool = True
    acknowledged: bool = False
    consumed: bool = False
    auto_renew: bool = True
    # When the paid time ends; in a grace period, when that ends.
    expires_at: Ms | None = None
    # When the last paid time ended, while payments fail.
    paid_until: Ms | None = None
    hold_ends_at: Ms | None = None
    # The next payment will fail; with so many days of grace, and of hold after it.
    fails_with: tuple[int, int] | None = None
    cancelled_by: CancelledBy | None = None
    cancelled_at: Ms | None = None
    # Of an instalment plan: it ends with the commitment, which is the running period here.
    cancellation_scheduled: bool = False
    resumes_at: Ms | None = None
    # The product of the next period, if it is another.
    next_product: str | None = None
    # Which token this purchase replaced.
    replaces: str | None = None
    intro_left: int = 0

    @property
    def latest(self) -> GoogleOrder:
        return self.orders[-1]

    @property
    def first_order(self) -> str:
        """The order id without a suffix: what Latchkey calls the purchase."""
        return self.orders[0].id.partition("..")[0]


class GoogleBooks(msgspec.Struct, frozen=True, kw_only=True):
    products: dict[str, GoogleProduct] = {}
    purchases: dict[str, GooglePurchase] = {}
    # Makes the ids of this store different from those of any other.
    series: str = "0"
    next_number: int = 1


class GoogleNotice(msgspec.Struct, frozen=True):
    at: Ms
    # None for Google's test notification.
    purchase: GooglePurchase | None = None
    # What has happened to it, or which of its orders was voided.
    code: NoticeCode | None = None
    voided_order: str | None = None

    @property
    def one_time(self) -> int:
        """Of a one-time purchase Google only tells that it was bought, or that a pending payment was cancelled."""
        return 1 if self.code is NoticeCode.PURCHASED else 2

    @property
    def kind(self) -> str:
        if self.purchase is None:
            return "TEST"
        if self.code is None:
            return "VOIDED"
        return f"{int(self.code)} {self.code.name}" if self.purchase.subscription else f"ONE_TIME {self.one_time}"


GoogleStep = tuple[GoogleBooks, tuple[GoogleNotice, ...]]


def order_id(books: GoogleBooks) -> str:
    """Such as GPA.3345-1234-5678-90123."""
    digits = str(int(hashlib.sha256(f"{books.series} order {books.next_number}".encode()).hexdigest(), 16))[:17]
    return f"GPA.{digits[:4]}-{digits[4:8]}-{digits[8:12]}-{digits[12:]}"


def purchase_token(books: GoogleBooks) -> str:
    """In the form of a real one. It cannot be guessed by who does not know the series."""
    drawn = [hashlib.sha256(f"{books.series} token {books.next_number} {part}".encode()).digest() for part in range(4)]
    name = "".join(chr(ord("a") + byte % 26) for byte in drawn[0][:24])
    rest = base64.urlsafe_b64encode(b"".join(drawn[1:])).decode().rstrip("=")
    return f"{name}.AO-J1O{rest}"


def renewal_order_id(purchase: GooglePurchase) -> str:
    """The first renewal of GPA.1-2-3-4 is GPA.1-2-3-4..0."""
    return f"{purchase.first_order}..{len(purchase.orders) - 1}"


def product_of(books: GoogleBooks, name: str) -> GoogleProduct:
    sold = ", ".join(books.products)
    return found(books.products.get(name), f"The store sells no product {name!r}. It sells: {sold}.", "product_id")


def purchase_of(books: GoogleBooks, token: str) -> GooglePurchase:
    return found(books.purchases.get(token), "The store knows no purchase with this token.", "purchase")


def step(books: GoogleBooks, at: Ms, purchase: GooglePurchase, *codes: NoticeCode) -> GoogleStep:
    """The books with the purchase as it is now, and what Google tells of it."""
    books = replace(books, purchases={**books.purchases, purchase.token: purchase})
    return books, tuple(GoogleNotice(at, purchase, code) for code in codes)


_ENDED = (GoogleState.EXPIRED, GoogleState.PENDING_PURCHASE_CANCELED)


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
        return step(books, now, replace(purchase, state=GoogleState.PENDING))
    return step(books, now, purchase, NoticeCode.PURCHASED)


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
    refuse_if(sale.trial and sale.intro, "A purchase has one offer at most: trial or intro.", "trial")
    refuse_if(sale.trial and product.trial is None, f"{sale.product_id!r} has no trial on offer.", "trial")
    refuse_if(sale.intro and product.intro is None, f"{sale.product_id!r} has no introductory price on offer.", "intro")
