"""What one can ask of the pretend Google Play in JSON: products, sales, and acts on a purchase."""

from __future__ import annotations

from typing import Any

from latchkey.domain.instants import Ms, add
from latchkey.domain.refusal import Invalid
from latchkey.emulators.control_requests import Acts, ControlRequest, duration_of, price_of
from latchkey.emulators.google import google_acts, google_purchases
from latchkey.emulators.google.google_books import GoogleBooks, GoogleIntro, GoogleProduct, GoogleStep


class GoogleIntroRequest(ControlRequest, frozen=True):
    price: float
    duration: str = "P1M"
    periods: int = 1


class GoogleProductRequest(ControlRequest, frozen=True):
    """A base plan of a subscription with `plan` and `period`, or a one-time product without."""

    id: str
    price: float = 9.99
    currency: str = "USD"
    plan: str | None = None
    period: str | None = None
    prepaid: bool = False
    consumable: bool = False
    trial: str | None = None
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
            period=duration_of(self.period, "period") if self.period else None,
            prepaid=self.prepaid,
            consumable=self.consumable,
            trial=duration_of(self.trial, "trial") if self.trial else None,
            intro=intro,
        )


class GoogleSaleRequest(ControlRequest, frozen=True):
    # `product:plan` for a subscription.
    product_id: str
    buyer: str = "somebody"
    # What the app tells the store about its user.
    account_token: str | None = None
    trial: bool = False
    intro: bool = False
    # The payment has not come through yet; see the acts complete and decline.
    pending: bool = False

    def apply(self, life: GoogleBooks, now: Ms, *, test: bool) -> GoogleStep:
        if self.account_token is not None and not 0 < len(self.account_token) <= 64:
            raise Invalid("account_token has at most 64 characters: Google takes no more.", param="account_token")
        return google_purchases.buy(
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


def _fail_billing(life: GoogleBooks, now: Ms, token: str, *, grace_days: int = 0, hold_days: int = 30) -> GoogleStep:
    if not 0 <= grace_days <= 30 or not 0 <= hold_days <= 60:
        raise Invalid("grace_days is 0 to 30, hold_days 0 to 60.", param="grace_days")
    return google_acts.fail_billing(life, now, token, grace_days=grace_days, hold_days=hold_days)


def _pause(life: GoogleBooks, now: Ms, token: str, *, duration: str = "P1M") -> GoogleStep:
    """From the end of the paid period on."""
    begins = google_purchases.purchase_of(life, token).expires_at or now
    return google_acts.pause(life, now, token, resumes_at=add(begins, duration_of(duration, "for")))


def _defer(life: GoogleBooks, now: Ms, token: str, *, days: int = 7, until: Ms | None = None) -> GoogleStep:
    """`until` is the new end, instead of days."""
    return google_acts.defer(life, now, token, days=days, until=until)


def _change(life: GoogleBooks, now: Ms, token: str, *, product_id: str, deferred: bool = False) -> GoogleStep:
    return google_acts.change(life, now, token, product_id, deferred=deferred)


def _acknowledge(life: GoogleBooks, now: Ms, token: str) -> GoogleStep:  # noqa: ARG001 - as all acts
    """As the app itself may do it on the phone."""
    return google_acts.acknowledge(life, token), ()


def _consume(life: GoogleBooks, now: Ms, token: str) -> GoogleStep:  # noqa: ARG001 - as all acts
    """As the app does it on the phone."""
    return google_acts.consume(life, token), ()


ACTS = Acts(
    cancel=google_acts.cancel,
    uncancel=google_acts.uncancel,
    fail_billing=_fail_billing,
    recover=google_acts.recover,
    pause=_pause,
    resume=google_acts.resume,
    defer=_defer,
    refund=google_acts.refund,
    revoke=google_acts.revoke,
    change=_change,
    resubscribe=google_acts.resubscribe,
    top_up=google_acts.top_up,
    complete=google_purchases.complete,
    decline=google_purchases.decline,
    price_change=google_acts.announce_price_change,
    acknowledge=_acknowledge,
    consume=_consume,
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
