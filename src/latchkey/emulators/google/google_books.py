"""Google Play's own books: products with their base plans, and purchases with every order."""

import base64
import hashlib
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import NotFound


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
    """Who cancelled."""

    USER = "user"
    SYSTEM = "system"
    DEVELOPER = "developer"
    REPLACEMENT = "replacement"


class GooglePhase(StrEnum):
    BASE = "BASE"
    FREE_TRIAL = "FREE_TRIAL"
    INTRODUCTORY = "INTRODUCTORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleIntro:
    price: Price
    duration: Duration
    periods: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleProduct:
    """A base plan of a subscription, or a one-time product (without a plan)."""

    id: str
    price: Price
    plan: str | None = None
    period: Duration | None = None
    prepaid: bool = False
    consumable: bool = False
    trial: Duration | None = None
    intro: GoogleIntro | None = None

    @property
    def name(self) -> str:
        """As the emulator and Latchkey call it."""
        return f"{self.id}:{self.plan}" if self.plan else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleOrder:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GooglePurchase:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleBooks:
    products: dict[str, GoogleProduct] = field(default_factory=dict)
    purchases: dict[str, GooglePurchase] = field(default_factory=dict)
    # Makes the ids of this store different from those of any other.
    series: str = "0"
    next_number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleNotice:
    at: Ms
    token: str = ""
    # One of these three says what it is about; none of them is Google's test notification.
    code: NoticeCode | None = None
    # 1 bought, 2 cancelled
    one_time: int | None = None
    voided_order: str | None = None
    sku: str = ""
    subscription: bool = True

    @property
    def kind(self) -> str:
        if self.code is not None:
            return f"{int(self.code)} {self.code.name}"
        if self.one_time is not None:
            return f"ONE_TIME {self.one_time}"
        return "VOIDED" if self.voided_order is not None else "TEST"


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
    if name not in books.products:
        sold = ", ".join(books.products)
        raise NotFound(f"The store sells no product {name!r}. It sells: {sold}.", param="product_id")
    return books.products[name]


def purchase_of(books: GoogleBooks, token: str) -> GooglePurchase:
    if token not in books.purchases:
        raise NotFound("The store knows no purchase with this token.", param="purchase")
    return books.purchases[token]


def kept(books: GoogleBooks, *purchases: GooglePurchase) -> GoogleBooks:
    return replace(books, purchases={**books.purchases, **{purchase.token: purchase for purchase in purchases}})


def noticed(at: Ms, purchase: GooglePurchase, code: NoticeCode) -> GoogleNotice:
    """Of a one-time purchase Google only tells that it was bought, or that a pending payment was cancelled."""
    notice = GoogleNotice(at=at, token=purchase.token, code=code, sku=purchase.product.partition(":")[0])
    if purchase.subscription:
        return notice
    return replace(notice, code=None, one_time=1 if code is NoticeCode.PURCHASED else 2, subscription=False)
