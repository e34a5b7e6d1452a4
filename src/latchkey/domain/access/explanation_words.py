"""The sentence that says why a customer has, or lacks, an entitlement."""

from __future__ import annotations

from latchkey.domain.access.explanation_case import Case
from latchkey.domain.formats import instant
from latchkey.domain.purchases.lifecycle import end_reason
from latchkey.domain.purchases.purchase import PurchaseKind, Reason
from latchkey.domain.purchases.standing import Standing
from latchkey.domain.purchases.subscription import Cause, Subscription

_BEGUN = {
    Cause.PURCHASE: "they bought {product} at {at}",
    Cause.CONVERSION: "their trial became a paid subscription to {product} at {at}",
    Cause.RENEWAL: "{product} renewed at {at}",
    Cause.CHANGE: "they changed to {product} at {at}",
}
_NOT_FOLLOWED = {
    Reason.UNSUBSCRIBE: ", because renewal was turned off",
    Reason.BILLING_ERROR: ", because the payment for the time after it failed",
    Reason.DEVELOPER_INITIATED: ", because the developer ended it",
    Reason.PRICE_INCREASE: ", because a higher price was not agreed to",
    Reason.CUSTOMER_SUPPORT: ", because customer support ended it",
    Reason.SUBSCRIPTION_PAUSED: ", because it was paused",
}


def sentence(case: Case, reason: str) -> str:
    access, who = case.access, case.customer.app_user_id
    what, product = access.entitlement_id, access.product_id
    end = instant(access.ends_at) if access.ends_at is not None else ""
    has = f"{who} has {what} {f'until {end}' if end else 'for ever'}"
    lacks, ended = f"{who} does not have {what}", f"access ended at {end}"
    if reason == "active":
        return f"{has} because {_begun(case)}{_then(case)}."
    if reason == "expired":
        return f"{lacks}: {_expired(case, end)}."
    return {
        "trial": f"{has} because they are on a trial of {product}{_then(case)}.",
        "grace_period": f"{has}: the payment for {product} failed and its grace period is running.",
        "granted": f"{has} because it was granted at {instant(access.purchased_at)}.",
        "temporary": f"{has} while the store cannot confirm the purchase of {product}.",
        "refunded": f"{lacks}: the purchase of {product} was refunded, so {ended}.",
        "revoked": f"{lacks}: the grant was revoked, so {ended}.",
        "paused": f"{lacks}: the subscription to {product} is paused, so {ended}.",
        "billing_retry": f"{lacks}: the payment for {product} failed, so {ended}.",
        "product_changed": f"{lacks}: the subscription changed from {product} to {_following(case)}, so {ended}.",
        "detached": f"{lacks}: {product} was detached from it, so {ended}.",
    }[reason]


def any_of(products: tuple[str, ...]) -> str:
    return " or ".join(products[:3]) + (" or another product" if len(products) > 3 else "")


def _following(case: Case) -> str:
    return case.following.product_id if case.following is not None else ""


def _begun(case: Case) -> str:
    said = _BEGUN.get(case.period.cause, _BEGUN[Cause.PURCHASE]) if case.period is not None else _BEGUN[Cause.PURCHASE]
    return said.format(product=case.access.product_id, at=instant(case.access.purchased_at))


def _expired(case: Case, end: str) -> str:
    source, product = case.access.source, case.access.product_id
    if isinstance(source, Subscription):
        why = _NOT_FOLLOWED.get(end_reason(source), "") if case.subscription is not None else ""
        return f"{product} ended at {end}{why}"
    if source.kind is PurchaseKind.PROMOTIONAL:
        return f"the grant ended at {end}"
    if source.kind is PurchaseKind.TEMPORARY and source.resolved_at is None:
        return f"the store did not confirm the purchase of {product} in time, so access ended at {end}"
    return f"{product} ended at {end}"


def _then(case: Case) -> str:
    """What happens at the end of the paid time."""
    one = case.subscription
    if one is None:
        return ""
    pause, next_product_id = one.status.pause, one.status.next_product_id
    if case.standing is Standing.PAYMENT_FAILED:
        grace = ", and a grace period is counted in" if one.in_grace else ""
        return f", but the payment for the time after it failed{grace}"
    if case.standing is Standing.PAUSES and pause is not None:
        return f", and it then pauses until {instant(pause.resumes_at)}"
    if case.standing is Standing.ENDS or (not case.renews and next_product_id is None):
        return ", and it does not renew"
    renews = f", and it renews as {next_product_id}" if next_product_id else ", and it renews"
    return renews if case.renews else f"{renews}, which does not grant {case.access.entitlement_id}"
