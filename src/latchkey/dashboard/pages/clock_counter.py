"""Test-store actions on a clock's page: a customer's purchases, and the actions possible now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args
from uuid import uuid4

from latchkey.dashboard.form import Form
from latchkey.dashboard.texts import instant
from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, EARLIEST, LATEST, Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.standing import Standing, standing_of
from latchkey.domain.purchases.subscription import PeriodType, Subscription
from latchkey.domain.refusal import Invalid
from latchkey.domain.stores.test_store.orders import Action, ActionName, bought, refusal_of

NAMES: tuple[ActionName, ...] = get_args(ActionName)
# Actions without parameters, and the labels of their buttons.
PRESSES: dict[ActionName, str] = {
    "cancel": "Cancel",
    "uncancel": "Uncancel",
    "renew": "Renew now",
    "recover_billing": "Payment recovers",
    "resume": "Resume",
    "expire": "Expire now",
    "refund": "Refund",
    "reverse_refund": "Reverse refund",
    "issue_invoice": "Issue invoice",
}
# Actions with parameters, which have a form.
FORMS: dict[ActionName, str] = {
    "fail_billing": "Payment fails…",
    "change_product": "Change product…",
    "pause": "Pause…",
    "extend": "Extend…",
}
# How a subscription stands, in words, and whether they are good news.
WORDS: dict[Standing, tuple[str, str]] = {
    Standing.RENEWS: ("renews {end}", "good"),
    Standing.ENDS: ("ends {end}", "warn"),
    Standing.PAUSES: ("pauses {end}", "warn"),
    Standing.PAYMENT_FAILED: ("payment failed, access until {end}", "warn"),
    Standing.IN_GRACE: ("payment failed, access until {end}", "warn"),
    Standing.PAUSED: ("paused until {resumes}", "warn"),
    Standing.BILLING_RETRY: ("ended {end}", "bad"),
    Standing.OVERDUE: ("ended {end}", "bad"),
    Standing.REFUNDED: ("refunded {refunded}", "bad"),
    Standing.ENDED: ("ended {end}", "bad"),
}


@dataclass(frozen=True, slots=True)
class Held:
    """A purchase of the customer in the test store."""

    product_id: str
    standing: str
    kind: str
    presses: list[tuple[str, str]]
    forms: list[tuple[str, str]]
    # Other subscriptions it could change to.
    others: list[str]
    ends_at: Ms | None


def held(customer: Customer, catalog: Catalog, now: Ms) -> list[Held]:
    return [_held(customer, catalog, now, product_id, one) for product_id, one in bought(customer).items()]


def _held(customer: Customer, catalog: Catalog, now: Ms, product_id: str, bought: Subscription | Purchase) -> Held:
    others = [one.id for one in on_sale(catalog) if one.kind is ProductKind.SUBSCRIPTION and one.id != product_id]
    ends_at = bought.current.ends_at if isinstance(bought, Subscription) else bought.access_ends_at

    def possible(name: ActionName) -> bool:
        tried = Action(
            name=name,
            app_user_id=customer.app_user_id,
            new_id="",
            product_id=product_id,
            new_product_id=others[0] if others else None,
            resumes_at=(ends_at or now) + DAY,
            days=1,
        )
        return refusal_of(customer, catalog, now, tried) is None

    standing, kind = in_words(bought, now)
    return Held(
        product_id,
        standing,
        kind,
        [(name, title) for name, title in PRESSES.items() if possible(name)],
        [(name, title) for name, title in FORMS.items() if possible(name)],
        others,
        ends_at,
    )


def in_words(bought: Subscription | Purchase, now: Ms) -> tuple[str, str]:
    """In a few words, and whether they are good news."""
    if isinstance(bought, Purchase):
        if bought.refunded_at is not None:
            return f"refunded {instant(bought.refunded_at)}", "bad"
        ends = bought.access_ends_at
        return (
            ("bought once", "good") if ends is None else (f"{'ended' if ends <= now else 'until'} {instant(ends)}", "")
        )
    standing, pause, refunded_at = standing_of(bought, now), bought.status.pause, bought.current.refunded_at
    words, kind = WORDS[standing]
    said = words.format(
        end=instant(bought.access_ends_at),
        resumes=instant(pause.ends_at) if pause is not None and pause.ends_at is not None else "it is resumed",
        refunded=instant(refunded_at) if refunded_at is not None else "",
    )
    if bought.current.period_type is PeriodType.TRIAL and standing in (Standing.RENEWS, Standing.ENDS):
        return f"on trial, {said}", "accent" if standing is Standing.RENEWS else kind
    return said, kind


def on_sale(catalog: Catalog) -> list[Product]:
    """Subscriptions first, because clocks are mostly used for them."""
    found = (one for one in catalog.products.values() if one.on_sale)
    return sorted(found, key=lambda one: (one.kind is not ProductKind.SUBSCRIPTION, one.id))


def read_action(form: Form, now: Ms) -> Action:
    """The requested action; the test store decides whether it is possible."""
    name = next(one for one in NAMES if one == form.choice("action", NAMES))
    resumes_at = form.instant("resumes")
    if resumes_at is not None and not EARLIEST <= resumes_at <= LATEST:
        raise Invalid("A pause ends between the years 2000 and 2199.", param="resumes")
    return Action(
        name=name,
        app_user_id=form.needed("customer"),
        new_id=f"test_{now}_{uuid4()}",
        product_id=form.text("product") or None,
        trial=form.ticked("trial"),
        grace_days=form.number("grace_days", 0, high=365),
        new_product_id=form.text("new_product") or None,
        at_renewal=form.choice("when", ("now", "at_renewal"), "now") == "at_renewal",
        resumes_at=resumes_at,
        days=form.number("days", low=1, high=3650) if form.text("days") else None,
    )
