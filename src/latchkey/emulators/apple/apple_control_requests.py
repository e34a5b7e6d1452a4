"""What one can ask of the pretend App Store in JSON: products, sales, and acts on a purchase."""

from __future__ import annotations

import uuid
from typing import Any, Literal

import msgspec

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid
from latchkey.emulators.apple import apple_acts, apple_purchases
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    AppleDiscount,
    AppleKind,
    AppleOffer,
    AppleOfferKind,
    AppleProduct,
    AppleStep,
    ExpirationIntent,
)
from latchkey.emulators.control_requests import Acts, ControlRequest, duration_of, price_of

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
_REASONS = {
    "voluntary": ExpirationIntent.CANCELLED,
    "billing": ExpirationIntent.BILLING,
    "price_increase": ExpirationIntent.PRICE_INCREASE,
    "not_for_sale": ExpirationIntent.NOT_FOR_SALE,
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


class AppleProductRequest(ControlRequest, frozen=True):
    id: str
    kind: Literal["subscription", "consumable", "non_consumable", "non_renewing"] = "subscription"
    price: float = 9.99
    currency: str = "USD"
    period: str | None = None
    group: str = "main"
    level: int = 1
    trial: str | None = None
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
            period=duration_of(self.period, "period") if self.period else None,
            group=self.group,
            level=self.level,
            trial=duration_of(self.trial, "trial") if self.trial else None,
            intro=intro.offer(self.currency) if intro else None,
        )


class AppleSaleRequest(ControlRequest, frozen=True):
    product_id: str
    # The customer of the store. One customer has one subscription in a group.
    buyer: str = "somebody"
    # What the app tells the store about its user: a UUID, as Apple demands.
    account_token: str | None = None
    trial: bool = False
    intro: bool = False
    offer: AppleOfferRequest | None = None
    family: bool = False

    def apply(self, life: AppleBooks, now: Ms) -> AppleStep:
        if self.account_token is not None:
            try:
                uuid.UUID(self.account_token)
            except ValueError:
                raise Invalid("account_token is a UUID: Apple takes nothing else.", param="account_token") from None
        return apple_purchases.buy(
            life,
            now,
            self.product_id,
            self.buyer,
            account_token=self.account_token,
            trial=self.trial,
            intro=self.intro,
            offer=_offer_for(life, self.product_id, self.offer),
            family=self.family,
        )


def _fail_billing(life: AppleBooks, now: Ms, id: str, *, grace_days: int = 0) -> AppleStep:
    if not 0 <= grace_days <= 28:
        raise Invalid("grace_days is 0 to 28.", param="grace_days")
    return apple_acts.fail_billing(life, now, id, grace_days=grace_days)


def _expire(
    life: AppleBooks,
    now: Ms,
    id: str,
    *,
    reason: Literal["voluntary", "billing", "price_increase", "not_for_sale"] = "voluntary",
) -> AppleStep:
    return apple_acts.expire(life, now, id, intent=_REASONS[reason])


def _change(
    life: AppleBooks, now: Ms, id: str, *, product_id: str, offer: AppleOfferRequest | None = None
) -> AppleStep:
    return apple_acts.change(life, now, id, product_id, offer=_offer_for(life, product_id, offer))


def _redeem(life: AppleBooks, now: Ms, id: str, *, offer: AppleOfferRequest) -> AppleStep:
    given = _offer_for(life, apple_purchases.purchase_of(life, id).latest.product_id, offer)
    assert given is not None
    return apple_acts.redeem(life, now, id, given)


ACTS = Acts(
    cancel=apple_acts.cancel,
    uncancel=apple_acts.uncancel,
    fail_billing=_fail_billing,
    recover=apple_acts.recover,
    expire=_expire,
    refund=apple_acts.refund,
    reverse_refund=apple_acts.reverse_refund,
    decline_refund=apple_acts.decline_refund,
    request_consumption=apple_acts.request_consumption,
    change=_change,
    redeem=_redeem,
    extend=apple_acts.extend,
    end_family_sharing=apple_acts.end_family_sharing,
    price_increase=apple_acts.announce_price_increase,
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


def _offer_for(life: AppleBooks, product_id: str, asked: AppleOfferRequest | None) -> AppleOffer | None:
    return asked.offer(apple_purchases.product_of(life, product_id).price.currency) if asked is not None else None
