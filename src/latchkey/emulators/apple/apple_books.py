"""The App Store's own books: products, the purchases of its customers with every transaction, and how they begin."""

import uuid
from enum import IntEnum, StrEnum
from typing import Literal

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import Invalid, NotFound, Refusal, found
from latchkey.emulators import control_requests


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


class AppleOffer(msgspec.Struct, frozen=True, kw_only=True):
    kind: AppleOfferKind
    discount: AppleDiscount
    duration: Duration
    price: Price
    # How many periods have this price. More than one only with PAY_AS_YOU_GO.
    periods: int = 1
    id: str | None = None


class AppleOfferRequest(control_requests.ControlRequest, frozen=True):
    kind: Literal["introductory", "promotional", "code", "win_back"] = "promotional"
    discount: Literal["free", "pay_as_you_go", "pay_up_front"] = "pay_as_you_go"
    # How long each period with this price lasts, and how many there are.
    duration: str = "P1M"
    periods: int = 1
    price: float = 0.0
    id: str | None = None

    def offer(self, currency: str) -> AppleOffer:
        discount = AppleDiscount.FREE_TRIAL if self.discount == "free" else AppleDiscount(self.discount.upper())
        if not 1 <= self.periods <= 36 or (self.periods > 1 and discount is not AppleDiscount.PAY_AS_YOU_GO):
            raise Invalid("periods is 1 to 36, and more than 1 only with pay_as_you_go.", param="periods")
        return AppleOffer(
            kind=AppleOfferKind[self.kind.upper()],
            discount=discount,
            duration=control_requests.duration_of(self.duration, "duration"),
            price=control_requests.price_of(0.0 if discount is AppleDiscount.FREE_TRIAL else self.price, currency),
            periods=self.periods,
            id=self.id or (None if self.kind == "introductory" else "offer"),
        )


class AppleProduct(control_requests.ProductRequest, frozen=True, kw_only=True):
    sold_as: Literal["subscription", "consumable", "non_consumable", "non_renewing"] = msgspec.field(
        name="kind", default="subscription"
    )
    # A customer has at most one subscription in a group.
    group: str = "main"
    # The rank in its group: 1 is the highest. A change to a higher rank is an upgrade.
    level: int = 1
    reduced: AppleOfferRequest | None = msgspec.field(name="intro", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        invalid, renews = control_requests.invalid_if, self.sold_as == "subscription"
        invalid(renews and self.lasts is None, "A subscription needs a period such as P1M.", "period")
        once = not renews and (self.lasts or self.free_for or self.reduced)
        invalid(once, "Only a subscription has a period, a trial or an introductory price.", "kind")
        _ = self.intro

    @property
    def kind(self) -> AppleKind:
        return AppleKind[self.sold_as.upper()]

    @property
    def intro(self) -> AppleOffer | None:
        return replace(self.reduced, kind="introductory").offer(self.currency) if self.reduced else None


class AppleTransaction(msgspec.Struct, frozen=True, kw_only=True):
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


class AppleRenewal(msgspec.Struct, frozen=True, kw_only=True):
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


class ApplePurchase(msgspec.Struct, frozen=True, kw_only=True):
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


class AppleBooks(msgspec.Struct, frozen=True, kw_only=True):
    products: dict[str, AppleProduct] = {}
    purchases: dict[str, ApplePurchase] = {}
    # The next transaction id; every transaction takes one.
    next_id: int = 2_000_000_000_000_000


class AppleNotice(msgspec.Struct, frozen=True, kw_only=True):
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
    return found(books.products.get(id), f"The store sells no product {id!r}.", "product_id")


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


class AppleSaleRequest(control_requests.SaleRequest, frozen=True, kw_only=True):
    intro: bool = False
    offer: AppleOfferRequest | None = None
    family: bool = False


def offer_for(books: AppleBooks, product_id: str, request: AppleOfferRequest | None) -> AppleOffer | None:
    return request.offer(product_of(books, product_id).price.currency) if request is not None else None


def buy(books: AppleBooks, now: Ms, sale: AppleSaleRequest) -> AppleStep:
    if sale.account_token is not None:
        try:
            uuid.UUID(sale.account_token)
        except ValueError:
            raise Invalid("account_token is a UUID: Apple takes nothing else.", param="account_token") from None
    product, offer, known = product_of(books, sale.product_id), offer_for(books, sale.product_id, sale.offer), None
    renewing = product.kind is AppleKind.SUBSCRIPTION
    if renewing:
        known = _in_group(books, product.group, sale.buyer)
        offer = _offer_used(product, known, sale, offer)
    elif product.kind is AppleKind.NON_CONSUMABLE:
        _check_not_owned(books, product, sale.buyer)
    books, bought = started(books, now, product, offer if renewing else None, family=sale.family, reason="PURCHASE")
    first = known or ApplePurchase(
        id=bought.id, buyer=sale.buyer, kind=product.kind, transactions=(), family=sale.family
    )
    purchase = replace(
        first,
        transactions=(*first.transactions, bought),
        account_token=sale.account_token or first.account_token,
        recent_start=now,
    )
    if not renewing:
        return kept(books, purchase), (noticed("ONE_TIME_CHARGE", None, now, purchase),)
    left = offer.periods - 1 if offer is not None else 0
    renewal = AppleRenewal(product_id=product.id, offer=offer if left else None, offers_left=left)
    purchase = replace(purchase, status=AppleStatus.ACTIVE, renewal=renewal)
    # Only an introductory offer comes with SUBSCRIBED; every other one has a notification of its own.
    redeemed = offer is not None and offer.kind is not AppleOfferKind.INTRODUCTORY
    subtype = "INITIAL_BUY" if known is None else "RESUBSCRIBE"
    return kept(books, purchase), (noticed("OFFER_REDEEMED" if redeemed else "SUBSCRIBED", subtype, now, purchase),)


def started(
    books: AppleBooks,
    now: Ms,
    product: AppleProduct,
    offer: AppleOffer | None,
    *,
    family: bool,
    reason: str,
    follows: Ms = 0,
) -> tuple[AppleBooks, AppleTransaction]:
    """A new transaction. Its time begins at `follows` if that is given, else when it is paid."""
    length, price = (offer.duration, offer.price) if offer is not None else (product.period, product.price)
    transaction = AppleTransaction(
        id=str(books.next_id),
        product_id=product.id,
        purchased_at=now,
        # Apple does not know when a non-renewing subscription ends; the app decides that.
        expires_at=add(follows or now, length) if length is not None else None,
        reason=reason,
        price=Price(0, price.currency) if family else price,
        offer=offer,
    )
    return replace(books, next_id=books.next_id + 1), transaction


def renewed(
    books: AppleBooks, now: Ms, purchase: ApplePurchase, subtype: str | None = None, follows: Ms = 0
) -> AppleStep:
    """The next period, with the offer that was chosen for it. With a `subtype`, after a failed payment."""
    renewal = purchase.renewal
    assert renewal is not None
    left = max(renewal.offers_left - 1, 0)
    offer = renewal.offer if renewal.offers_left else None
    product = product_of(books, renewal.product_id)
    books, paid = started(books, now, product, offer, family=purchase.family, reason="RENEWAL", follows=follows)
    renewal = replace(
        renewal,
        offer=offer if left else None,
        offers_left=left,
        intent=None,
        grace_ends_at=None,
        retries_until=None,
        fails_with_grace=None,
        price_increase=renewal.price_increase if subtype else None,
    )
    purchase = replace(
        purchase, transactions=(*purchase.transactions, paid), status=AppleStatus.ACTIVE, renewal=renewal
    )
    return kept(books, purchase), (noticed("DID_RENEW", subtype, now, purchase),)


def _check_not_owned(books: AppleBooks, product: AppleProduct, buyer: str) -> None:
    for purchase in books.purchases.values():
        latest = purchase.latest
        if purchase.buyer == buyer and latest.product_id == product.id and latest.revoked_at is None:
            raise Refusal(f"{buyer!r} owns {product.id!r} already.", param="product_id")


def _in_group(books: AppleBooks, group: str, buyer: str) -> ApplePurchase | None:
    for purchase in books.purchases.values():
        if purchase.kind is AppleKind.SUBSCRIPTION and purchase.buyer == buyer:
            product = books.products.get(purchase.latest.product_id)
            if product is not None and product.group == group:
                return purchase
    return None


def _offer_used(
    product: AppleProduct, known: ApplePurchase | None, sale: AppleSaleRequest, offer: AppleOffer | None
) -> AppleOffer | None:
    if sum((sale.trial, sale.intro, offer is not None)) > 1:
        raise Refusal("A purchase has one offer at most: trial, intro or offer.", param="offer")
    if known is not None and known.status not in (AppleStatus.EXPIRED, AppleStatus.REVOKED):
        message = f"{sale.buyer!r} has a subscription in the group {product.group!r} already; use the act `change`."
        raise Refusal(message, param="product_id")
    if not sale.trial and not sale.intro:
        return offer
    control_requests.refuse_if(sale.trial and product.trial is None, f"{product.id!r} has no trial on offer.", "trial")
    control_requests.refuse_if(
        sale.intro and product.intro is None, f"{product.id!r} has no introductory price on offer.", "intro"
    )
    before = [bought.offer for bought in known.transactions] if known is not None else []
    if any(used is not None and used.kind is AppleOfferKind.INTRODUCTORY for used in before):
        raise Refusal("The buyer has used an introductory offer of this group already.", param="trial")
    if product.trial is None or not sale.trial:
        return product.intro
    return AppleOffer(
        kind=AppleOfferKind.INTRODUCTORY,
        discount=AppleDiscount.FREE_TRIAL,
        duration=product.trial,
        price=Price(0, product.price.currency),
    )
