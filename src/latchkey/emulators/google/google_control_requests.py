"""Control API requests of the Google Play emulator: products, sales and acts in JSON."""

from typing import Any

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid
from latchkey.emulators.control_requests import Acts, ControlRequest, ProductRequest, SaleRequest, duration_of, price_of
from latchkey.emulators.google import google_acts as acts
from latchkey.emulators.google import google_purchases
from latchkey.emulators.google.google_books import GoogleBooks, GoogleIntro, GoogleProduct, GoogleStep


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

    def apply(self, books: GoogleBooks, now: Ms, *, test: bool) -> GoogleStep:
        if self.account_token is not None and not 0 < len(self.account_token) <= 64:
            raise Invalid("account_token has at most 64 characters: Google takes no more.", param="account_token")
        return google_purchases.buy(
            books,
            now,
            self.product_id,
            self.buyer,
            account_token=self.account_token,
            trial=self.trial,
            intro=self.intro,
            pending=self.pending,
            test=test,
        )


ACTS = Acts(
    cancel=acts.cancel,
    uncancel=acts.uncancel,
    fail_billing=acts.fail_billing,
    recover=acts.recover,
    pause=acts.pause,
    resume=acts.resume,
    defer=acts.defer,
    refund=acts.refund,
    revoke=acts.revoke,
    change=acts.change,
    resubscribe=acts.resubscribe,
    top_up=acts.top_up,
    complete=google_purchases.complete,
    decline=google_purchases.decline,
    price_change=acts.announce_price_change,
    acknowledge=acts.acknowledge,
    consume=acts.consume,
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
