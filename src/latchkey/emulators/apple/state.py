"""The App Store's own books: products, and the purchases of its customers with every transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money import Price


class Kind(StrEnum):
    SUBSCRIPTION = "Auto-Renewable Subscription"
    CONSUMABLE = "Consumable"
    NON_CONSUMABLE = "Non-Consumable"
    NON_RENEWING = "Non-Renewing Subscription"


class OfferKind(IntEnum):
    INTRODUCTORY = 1
    PROMOTIONAL = 2
    CODE = 3
    WIN_BACK = 4


class Discount(StrEnum):
    FREE_TRIAL = "FREE_TRIAL"
    PAY_AS_YOU_GO = "PAY_AS_YOU_GO"
    PAY_UP_FRONT = "PAY_UP_FRONT"


class Status(IntEnum):
    """Of a subscription, as the App Store Server API numbers it."""

    ACTIVE = 1
    EXPIRED = 2
    BILLING_RETRY = 3
    GRACE = 4
    REVOKED = 5


class Intent(IntEnum):
    """Why a subscription ended, as `expirationIntent` numbers it."""

    CANCELLED = 1
    BILLING = 2
    PRICE_INCREASE = 3
    NOT_FOR_SALE = 4
    OTHER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    kind: OfferKind
    discount: Discount
    duration: Duration
    price: Price
    # How many periods have this price. More than one only with PAY_AS_YOU_GO.
    periods: int = 1
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    id: str
    price: Price
    kind: Kind = Kind.SUBSCRIPTION
    period: Duration | None = None
    # A customer has at most one subscription in a group.
    group: str = "main"
    # The rank in its group: 1 is the highest. A change to a higher rank is an upgrade.
    level: int = 1
    trial: Duration | None = None
    intro: Offer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    id: str
    product_id: str
    purchased_at: Ms
    expires_at: Ms | None
    # PURCHASE or RENEWAL.
    reason: str
    price: Price
    offer: Offer | None = None
    upgraded: bool = False
    revoked_at: Ms | None = None
    # False: family sharing ended.
    refunded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    product_id: str
    auto_renew: bool = True
    # The offer of the next period, and of how many more after it.
    offer: Offer | None = None
    offers_left: int = 0
    # The next payment will fail; with so many days of grace.
    fails_with_grace: int | None = None
    # The store itself will not renew, for this reason.
    will_end: Intent | None = None
    intent: Intent | None = None
    grace_ends_at: Ms | None = None
    retries_until: Ms | None = None
    # None, 0 not answered, 1 agreed.
    price_increase: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """A one-time purchase, or everything a customer ever had in one subscription group."""

    # The original transaction id.
    id: str
    buyer: str
    kind: Kind
    transactions: tuple[Transaction, ...]
    account_token: str | None = None
    family: bool = False
    # Only of a subscription.
    status: Status | None = None
    renewal: Renewal | None = None
    # When the present stretch without interruption began.
    recent_start: Ms = 0

    @property
    def latest(self) -> Transaction:
        return self.transactions[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    products: tuple[Product, ...] = ()
    purchases: dict[str, Purchase] = field(default_factory=dict)
    # The next transaction id; every transaction takes one.
    next_id: int = 2_000_000_000_000_000

    def product(self, id: str) -> Product | None:
        return next((one for one in self.products if one.id == id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notification that the App Store sends, and what it showed of the purchase at that moment."""

    type: str
    subtype: str | None
    at: Ms
    # None for a notification about no purchase.
    purchase: Purchase | None = None
    # Which transaction it shows.
    transaction: Transaction | None = None

    @property
    def kind(self) -> str:
        return f"{self.type}/{self.subtype}" if self.subtype else self.type


Step = tuple[Life, tuple[Notice, ...]]
