"""Control API requests of the App Store emulator: products, sales and acts in JSON."""

import uuid
from typing import Any, Literal

import msgspec

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid
from latchkey.emulators.apple import apple_acts as acts
from latchkey.emulators.apple import apple_purchases
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    AppleDiscount,
    AppleKind,
    AppleOffer,
    AppleOfferKind,
    AppleProduct,
    AppleStep,
)
from latchkey.emulators.control_requests import Acts, ControlRequest, ProductRequest, SaleRequest, duration_of, price_of

_KINDS = {
    "subscription": AppleKind.SUBSCRIPTION,
    "consumable": AppleKind.CONSUMABLE,
    "non_consumable": AppleKind.NON_CONSUMABLE,
    "non_renewing": AppleKind.NON_RENEWING,
}
_OFFERS = {
    "introductory": AppleOfferKind.INTRODUCTORY,
    "promotional": AppleOfferKind.PROMOTIONAL,
    "code": AppleOfferKind.CODE,
    "win_back": AppleOfferKind.WIN_BACK,
}


class AppleOfferRequest(ControlRequest, frozen=True):
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
            kind=_OFFERS[self.kind],
            discount=discount,
            duration=duration_of(self.duration, "duration"),
            price=price_of(0.0 if discount is AppleDiscount.FREE_TRIAL else self.price, currency),
            periods=self.periods,
            id=self.id or (None if self.kind == "introductory" else "offer"),
        )


class AppleProductRequest(ProductRequest, frozen=True, kw_only=True):
    kind: Literal["subscription", "consumable", "non_consumable", "non_renewing"] = "subscription"
    group: str = "main"
    level: int = 1
    intro: AppleOfferRequest | None = None

    def product(self) -> AppleProduct:
        kind = _KINDS[self.kind]
        if kind is AppleKind.SUBSCRIPTION and self.period is None:
            raise Invalid("A subscription needs a period such as P1M.", param="period")
        if kind is not AppleKind.SUBSCRIPTION and (self.period or self.trial or self.intro):
            raise Invalid("Only a subscription has a period, a trial or an introductory price.", param="kind")
        intro = msgspec.structs.replace(self.intro, kind="introductory") if self.intro else None
        return AppleProduct(
            id=self.id,
            kind=kind,
            price=price_of(self.price, self.currency),
            period=self.length(),
            group=self.group,
            level=self.level,
            trial=self.trial_length(),
            intro=intro.offer(self.currency) if intro else None,
        )


class AppleSaleRequest(SaleRequest, frozen=True, kw_only=True):
    intro: bool = False
    offer: AppleOfferRequest | None = None
    family: bool = False

    def apply(self, books: AppleBooks, now: Ms) -> AppleStep:
        if self.account_token is not None:
            try:
                uuid.UUID(self.account_token)
            except ValueError:
                raise Invalid("account_token is a UUID: Apple takes nothing else.", param="account_token") from None
        return apple_purchases.buy(
            books,
            now,
            self.product_id,
            self.buyer,
            account_token=self.account_token,
            trial=self.trial,
            intro=self.intro,
            offer=_offer_for(books, self.product_id, self.offer),
            family=self.family,
        )


def _change(
    books: AppleBooks, now: Ms, id: str, *, product_id: str, offer: AppleOfferRequest | None = None
) -> AppleStep:
    return acts.change(books, now, id, product_id, offer=_offer_for(books, product_id, offer))


def _redeem(books: AppleBooks, now: Ms, id: str, *, offer: AppleOfferRequest) -> AppleStep:
    given = _offer_for(books, apple_purchases.purchase_of(books, id).latest.product_id, offer)
    assert given is not None
    return acts.redeem(books, now, id, given)


ACTS = Acts(
    cancel=acts.cancel,
    uncancel=acts.uncancel,
    fail_billing=acts.fail_billing,
    recover=acts.recover,
    expire=acts.expire,
    refund=acts.refund,
    reverse_refund=acts.reverse_refund,
    decline_refund=acts.decline_refund,
    request_consumption=acts.request_consumption,
    change=_change,
    redeem=_redeem,
    extend=acts.extend,
    end_family_sharing=acts.end_family_sharing,
    price_increase=acts.announce_price_increase,
)

# What a new store sells: the products of the demo project, in Apple's terms, and one with an introductory price.
FIRST_PRODUCTS: tuple[dict[str, Any], ...] = (
    {"id": "team_monthly", "period": "P1M", "price": 29.99, "level": 1},
    {"id": "pro_monthly", "period": "P1M", "price": 9.99, "trial": "P7D", "level": 2},
    {"id": "pro_yearly", "period": "P1Y", "price": 79.99, "level": 2},
    {"id": "basic_monthly", "period": "P1M", "price": 4.99, "level": 3,
     "intro": {"duration": "P1M", "price": 0.99, "periods": 3}},
    {"id": "pro_lifetime", "kind": "non_consumable", "price": 199.99},
    {"id": "coins_100", "kind": "consumable", "price": 1.99},
)  # fmt: skip


def _offer_for(books: AppleBooks, product_id: str, asked: AppleOfferRequest | None) -> AppleOffer | None:
    return asked.offer(apple_purchases.product_of(books, product_id).price.currency) if asked is not None else None
