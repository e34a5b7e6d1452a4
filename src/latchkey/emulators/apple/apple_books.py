"""The App Store's own books: products, and the purchases of its customers with every transaction."""

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import NotFound


class AppleKind(StrEnum):
    SUBSCRIPTION = "Auto-Renewable Subscription"
    CONSUMABLE = "Consumable"
    NON_CONSUMABLE = "Non-Consumable"
    NON_RENEWING = "Non-Renewing Subscription"


class AppleOfferKind(IntEnum):
    INTRODUCTORY = 1
    PROMOTIONAL = 2
    CODE = 3
    WIN_BACK = 4


class AppleDiscount(StrEnum):
    FREE_TRIAL = "FREE_TRIAL"
    PAY_AS_YOU_GO = "PAY_AS_YOU_GO"
    PAY_UP_FRONT = "PAY_UP_FRONT"


class AppleStatus(IntEnum):
    """Of a subscription, as the App Store Server API numbers it."""

    ACTIVE = 1
    EXPIRED = 2
    BILLING_RETRY = 3
    GRACE = 4
    REVOKED = 5


class ExpirationIntent(IntEnum):
    """Why a subscription ended, as `expirationIntent` numbers it."""

    CANCELLED = 1
    BILLING = 2
    PRICE_INCREASE = 3
    NOT_FOR_SALE = 4
    OTHER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleOffer:
    kind: AppleOfferKind
    discount: AppleDiscount
    duration: Duration
    price: Price
    # How many periods have this price. More than one only with PAY_AS_YOU_GO.
    periods: int = 1
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleProduct:
    id: str
    price: Price
    kind: AppleKind = AppleKind.SUBSCRIPTION
    period: Duration | None = None
    # A customer has at most one subscription in a group.
    group: str = "main"
    # The rank in its group: 1 is the highest. A change to a higher rank is an upgrade.
    level: int = 1
    trial: Duration | None = None
    intro: AppleOffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleTransaction:
    id: str
    product_id: str
    purchased_at: Ms
    expires_at: Ms | None
    # PURCHASE or RENEWAL.
    reason: str
    price: Price
    offer: AppleOffer | None = None
    upgraded: bool = False
    revoked_at: Ms | None = None
    # False: family sharing ended.
    refunded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleRenewal:
    product_id: str
    auto_renew: bool = True
    # The offer of the next period, and of how many more after it.
    offer: AppleOffer | None = None
    offers_left: int = 0
    # The next payment will fail; with so many days of grace.
    fails_with_grace: int | None = None
    # The store itself will not renew, for this reason.
    will_end: ExpirationIntent | None = None
    intent: ExpirationIntent | None = None
    grace_ends_at: Ms | None = None
    retries_until: Ms | None = None
    # None, 0 not answered, 1 agreed.
    price_increase: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplePurchase:
    """A one-time purchase, or everything a customer ever had in one subscription group."""

    # The original transaction id.
    id: str
    buyer: str
    kind: AppleKind
    transactions: tuple[AppleTransaction, ...]
    account_token: str | None = None
    family: bool = False
    # Only of a subscription.
    status: AppleStatus | None = None
    renewal: AppleRenewal | None = None
    # When the present stretch without interruption began.
    recent_start: Ms = 0

    @property
    def latest(self) -> AppleTransaction:
        return self.transactions[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleBooks:
    products: dict[str, AppleProduct] = field(default_factory=dict)
    purchases: dict[str, ApplePurchase] = field(default_factory=dict)
    # The next transaction id; every transaction takes one.
    next_id: int = 2_000_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleNotice:
    """A notification that the App Store sends, and what it showed of the purchase at that moment."""

    type: str
    subtype: str | None
    at: Ms
    # None for a notification about no purchase.
    purchase: ApplePurchase | None = None
    # Which transaction it shows.
    transaction: AppleTransaction | None = None

    @property
    def kind(self) -> str:
        return f"{self.type}/{self.subtype}" if self.subtype else self.type


AppleStep = tuple[AppleBooks, tuple[AppleNotice, ...]]


def product_of(books: AppleBooks, id: str) -> AppleProduct:
    if id not in books.products:
        raise NotFound(f"The store sells no product {id!r}.", param="product_id")
    return books.products[id]


def purchase_of(books: AppleBooks, id: str) -> ApplePurchase:
    """By its original transaction id, or by the id of any of its transactions."""
    if id in books.purchases:
        return books.purchases[id]
    for purchase in books.purchases.values():
        if any(transaction.id == id for transaction in purchase.transactions):
            return purchase
    raise NotFound(f"The store knows no purchase {id!r}.", param="purchase")


def kept(books: AppleBooks, purchase: ApplePurchase) -> AppleBooks:
    return replace(books, purchases={**books.purchases, purchase.id: purchase})


def noticed(
    type: str, subtype: str | None, at: Ms, purchase: ApplePurchase, transaction: AppleTransaction | None = None
) -> AppleNotice:
    return AppleNotice(type=type, subtype=subtype, at=at, purchase=purchase, transaction=transaction or purchase.latest)
