"""What one can ask of the pretend Google Play in JSON: products, sales, and acts on a purchase."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from latchkey.domain.instants import Ms, add
from latchkey.domain.refusal import Invalid
from latchkey.emulators.amounts import duration_of, price_of
from latchkey.emulators.google import life as lives
from latchkey.emulators.google.state import By, Intro, Life, Product, Step


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class AskedIntro(Asked, frozen=True):
    price: float
    duration: str = "P1M"
    periods: int = 1


class AskedProduct(Asked, frozen=True):
    """A base plan of a subscription with `plan` and `period`, or a one-time product without."""

    id: str
    price: float = 9.99
    currency: str = "USD"
    plan: str | None = None
    period: str | None = None
    prepaid: bool = False
    consumable: bool = False
    trial: str | None = None
    intro: AskedIntro | None = None

    def product(self) -> Product:
        if (self.plan is None) != (self.period is None):
            raise Invalid("A subscription has both a plan and a period; a one-time product neither.", param="plan")
        if self.plan is None and (self.prepaid or self.trial or self.intro):
            raise Invalid("Only a subscription is prepaid, or has a trial or an introductory price.", param="plan")
        if self.prepaid and (self.trial or self.intro):
            raise Invalid("A prepaid plan has no trial and no introductory price.", param="prepaid")
        intro = None
        if self.intro is not None:
            intro = Intro(
                price=price_of(self.intro.price, self.currency),
                duration=duration_of(self.intro.duration, "intro"),
                periods=self.intro.periods,
            )
        return Product(
            id=self.id,
            price=price_of(self.price, self.currency),
            plan=self.plan,
            period=duration_of(self.period, "period") if self.period else None,
            prepaid=self.prepaid,
            consumable=self.consumable,
            trial=duration_of(self.trial, "trial") if self.trial else None,
            intro=intro,
        )


class AskedSale(Asked, frozen=True):
    # `product:plan` for a subscription.
    product_id: str
    buyer: str = "somebody"
    # What the app tells the store about its user.
    account_token: str | None = None
    trial: bool = False
    intro: bool = False
    # The payment has not come through yet; see the acts complete and decline.
    pending: bool = False

    def apply(self, life: Life, now: Ms, *, test: bool) -> Step:
        if self.account_token is not None and not 0 < len(self.account_token) <= 64:
            raise Invalid("account_token has at most 64 characters: Google takes no more.", param="account_token")
        return lives.buy(
            life,
            now,
            self.product_id,
            self.buyer,
            account_token=self.account_token,
            trial=self.trial,
            intro=self.intro,
            pending=self.pending,
            test=test,
        )


class Act(Asked, frozen=True, tag_field="act"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        raise NotImplementedError


class Cancel(Act, frozen=True, tag="cancel"):
    by: Literal["user", "system", "developer"] = "user"
    scheduled: bool = False

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.cancel(life, now, token, by=By(self.by), scheduled=self.scheduled)


class Uncancel(Act, frozen=True, tag="uncancel"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.uncancel(life, now, token)


class FailBilling(Act, frozen=True, tag="fail_billing"):
    grace_days: int = 0
    hold_days: int = 30

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        if not 0 <= self.grace_days <= 30 or not 0 <= self.hold_days <= 60:
            raise Invalid("grace_days is 0 to 30, hold_days 0 to 60.", param="grace_days")
        return lives.fail_billing(life, now, token, grace_days=self.grace_days, hold_days=self.hold_days)


class Recover(Act, frozen=True, tag="recover"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.recover(life, now, token)


class Pause(Act, frozen=True, tag="pause", rename={"duration": "for"}):
    # How long it lasts, from the end of the paid period on.
    duration: str = "P1M"

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        begins = lives.purchase_of(life, token).expires_at or now
        return lives.pause(life, now, token, resumes_at=add(begins, duration_of(self.duration, "for")))


class Resume(Act, frozen=True, tag="resume"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.resume(life, now, token)


class Defer(Act, frozen=True, tag="defer"):
    days: int = 7
    # The new end, instead of days.
    until: Ms | None = None

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.defer(life, now, token, days=self.days, until=self.until)


class Refund(Act, frozen=True, tag="refund"):
    order: str | None = None
    revoke: bool = True

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.refund(life, now, token, order=self.order, revoke=self.revoke)


class Revoke(Act, frozen=True, tag="revoke"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.revoke(life, now, token)


class Change(Act, frozen=True, tag="change"):
    product_id: str
    deferred: bool = False

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.change(life, now, token, self.product_id, deferred=self.deferred)


class Resubscribe(Act, frozen=True, tag="resubscribe"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.resubscribe(life, now, token)


class TopUp(Act, frozen=True, tag="top_up"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.top_up(life, now, token)


class Complete(Act, frozen=True, tag="complete"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.complete(life, now, token)


class Decline(Act, frozen=True, tag="decline"):
    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.decline(life, now, token)


class PriceChange(Act, frozen=True, tag="price_change"):
    confirmed: bool = False

    def apply(self, life: Life, now: Ms, token: str) -> Step:
        return lives.announce_price_change(life, now, token, confirmed=self.confirmed)


class Acknowledge(Act, frozen=True, tag="acknowledge"):
    """As the app itself may do it on the phone."""

    def apply(self, life: Life, now: Ms, token: str) -> Step:  # noqa: ARG002 - as all acts
        return lives.acknowledge(life, token), ()


class Consume(Act, frozen=True, tag="consume"):
    """As the app does it on the phone."""

    def apply(self, life: Life, now: Ms, token: str) -> Step:  # noqa: ARG002 - as all acts
        return lives.consume(life, token), ()


AnyAct = (
    Cancel
    | Uncancel
    | FailBilling
    | Recover
    | Pause
    | Resume
    | Defer
    | Refund
    | Revoke
    | Change
    | Resubscribe
    | TopUp
    | Complete
    | Decline
    | PriceChange
    | Acknowledge
    | Consume
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
