"""Steps of the rows of Stripe's table: what happens in the account, and the event that tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from latchkey.domain.instants import DAY, Ms
from tests.stores.stripe.account import SESSION, START, Json
from tests.stores.stripe.shop import CHARGED, END, Shop

# Something happens; the event about it, by its type and the object that it is about.
Happening = Callable[[Shop], object]
Step = tuple[Happening, str, Callable[[Shop], Json]]

MID = START + 10 * DAY
TRIAL: Ms = 7 * DAY


def subscription(shop: Shop) -> Json:
    return shop.sub


def invoice(shop: Shop) -> Json:
    return shop.invoices[-1]


def session(shop: Shop) -> Json:
    return shop.sessions[SESSION]


def charge(shop: Shop) -> Json:
    return shop.charges[-1]


def refund(shop: Shop) -> Json:
    found: Json = next(one for charge in shop.charges for one in charge["refunds"]["data"])
    return found


def dispute(shop: Shop) -> Json:
    return shop.disputes[-1]


def at(moment: Ms, happens: Callable[..., object], *given: Any, **more: Any) -> Happening:
    def it(shop: Shop) -> None:
        shop.now = moment
        happens(shop, *given, **more)

    return it


def nothing(shop: Shop) -> None:
    """Time passes."""


def to_unpaid(shop: Shop) -> None:
    shop.try_again()
    shop.sub["status"] = "unpaid"


def cancel_at(shop: Shop, moment: Ms) -> None:
    shop.sub.update(cancel_at=moment // 1000, canceled_at=shop.now // 1000)


def begin_with_a_trial(shop: Shop) -> None:
    shop.invoices.clear()
    shop.charges.clear()
    shop.subscribe(trial=TRIAL)


def pay_later(shop: Shop) -> None:
    session(shop)["payment_status"] = "paid"
    shop.charge(session(shop)["payment_intent"], 299)


def trial_ends_without_card(shop: Shop) -> None:
    shop.sub["status"] = "paused"


CREATED, UPDATED, DELETED = (f"customer.subscription.{one}" for one in ("created", "updated", "deleted"))
BOUGHT: Step = (Shop.subscribe, CREATED, subscription)
TRIED: Step = (at(START, Shop.subscribe, trial=TRIAL), CREATED, subscription)
# With an add-on.
BOTH: Step = (at(START, Shop.subscribe, "pro", "extra"), CREATED, subscription)
REMOVED: Step = (at(MID, Shop.remove_item), UPDATED, subscription)
INCOMPLETE: Step = (at(START, Shop.subscribe, status="incomplete"), CREATED, subscription)
RENEWED: Step = (at(CHARGED, Shop.renew), "invoice.paid", invoice)
FAILED: Step = (at(CHARGED, Shop.renew, paid=False), "invoice.payment_failed", invoice)
CANCELLED: Step = (at(MID, Shop.cancel), UPDATED, subscription)
CHANGED: Step = (at(MID, Shop.upgrade_later_paid), UPDATED, subscription)
PAUSED: Step = (at(MID, Shop.pause), UPDATED, subscription)
SOLD: Step = (at(START, Shop.checkout, "coins"), "checkout.session.completed", session)
REFUNDED: Step = (at(MID, Shop.refund), "charge.refunded", charge)
DISPUTED: Step = (at(MID, Shop.dispute), "charge.dispute.funds_withdrawn", dispute)
RENEWAL = ["INVOICE_ISSUANCE", "RENEWAL"]
FIRST = ["INITIAL_PURCHASE", "INVOICE_ISSUANCE"]
PRO, MAX, BASIC = (f"prod_{one}:price_{one}_monthly" for one in ("pro", "max", "basic"))

# Rows of the table, about subscriptions with several items.
ITEM_ROWS: dict[str, tuple[list[Step], list[str], bool]] = {
    "bought with an add-on": ([BOTH], [*FIRST, "INITIAL_PURCHASE"], True),
    "an add-on removed, credited later": ([BOTH, REMOVED], ["EXPIRATION UNSUBSCRIBE"], True),
    "the first item removed, credited at once": (
        [BOTH, (at(MID, Shop.remove_item, 0, credit="at once"), UPDATED, subscription)],
        ["EXPIRATION UNSUBSCRIBE"],
        True,
    ),
    "an add-on removed, and the rest renewed": ([BOTH, REMOVED, RENEWED], RENEWAL, True),
    "an add-on removed while its renewal is not paid": (
        [BOTH, FAILED, (at(END + DAY, Shop.remove_item), UPDATED, subscription)],
        ["EXPIRATION UNSUBSCRIBE"],
        True,
    ),
    "an add-on removed and added again, charged at once": (
        [BOTH, REMOVED, (at(MID + DAY, Shop.add_item, credit="at once"), UPDATED, subscription)],
        FIRST,
        True,
    ),
    "an add-on removed, added again and renewed": (
        [BOTH, REMOVED, (at(MID + DAY, Shop.add_item), UPDATED, subscription), RENEWED],
        ["INITIAL_PURCHASE", *RENEWAL],
        True,
    ),
    "an item replaced by another, charged later": (
        [BOUGHT, (at(MID, Shop.replace_item), UPDATED, subscription)],
        [f"PRODUCT_CHANGE {PRO}>{MAX}"],
        True,
    ),
    "one of two items replaced by another": (
        [BOTH, (at(MID, Shop.replace_item, credit="at once"), UPDATED, subscription)],
        ["INVOICE_ISSUANCE", f"PRODUCT_CHANGE {PRO}>{MAX}"],
        True,
    ),
}
