"""Why a customer has, or lacks, an entitlement: in data and in one plain sentence."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.entitlements import Access, accesses
from latchkey.domain.instants import Ms, end_to_iso, to_iso
from latchkey.domain.purchase import Purchase, PurchaseKind, Reason
from latchkey.domain.subscription import PeriodType, Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    entitlement_id: str
    has_access: bool
    # active, trial, grace_period, paused, refunded, revoked, expired, billing_retry, granted, temporary, never_granted,
    # unknown_entitlement
    reason: str
    since: Ms | None = None
    until: Ms | None = None
    product_id: str | None = None
    store: str | None = None
    transaction_id: str | None = None
    renews: bool | None = None
    granting_products: tuple[str, ...] = ()
    would_change: tuple[str, ...] = ()
    sentence: str = ""


def explain(customer: Customer, catalog: Catalog, entitlement_id: str, now: Ms) -> Explanation:
    """What decides about this entitlement at this moment."""
    products = tuple(sorted(one.id for one in catalog.products.values() if entitlement_id in one.grants))
    who = customer.app_user_id
    best = max(
        (one for one in accesses(customer, catalog) if one.entitlement_id == entitlement_id),
        key=lambda one: one.rank,
        default=None,
    )
    if best is None:
        return _never(who, entitlement_id, entitlement_id in catalog.entitlements, products)
    has_access = best.is_active(now)
    reason = _reason(best, now)
    return Explanation(
        entitlement_id=entitlement_id,
        has_access=has_access,
        reason=reason,
        since=_since(best),
        until=best.ends_at,
        product_id=best.product_id,
        store=best.source.store,
        transaction_id=best.source.current.id if isinstance(best.source, Subscription) else best.source.id,
        renews=_renews(best),
        granting_products=products,
        would_change=_would_change(best, reason, products),
        sentence=_sentence(who, best, reason, now),
    )


def _never(who: str, entitlement_id: str, known: bool, products: tuple[str, ...]) -> Explanation:
    if not known:
        return Explanation(
            entitlement_id=entitlement_id,
            has_access=False,
            reason="unknown_entitlement",
            would_change=("Create the entitlement and attach a product to it.",),
            sentence=f"{who} does not have {entitlement_id} because this project has no such entitlement.",
        )
    how = f"Buying {_any_of(products)} would grant it." if products else "No product grants it: attach one."
    return Explanation(
        entitlement_id=entitlement_id,
        has_access=False,
        reason="never_granted",
        granting_products=products,
        would_change=(how, "A promotional grant would give it at once."),
        sentence=f"{who} does not have {entitlement_id} and never had it: nothing that grants it was bought or given.",
    )


def _reason(access: Access, now: Ms) -> str:
    source = access.source
    if isinstance(source, Purchase):
        if access.is_active(now):
            return {PurchaseKind.PROMOTIONAL: "granted", PurchaseKind.TEMPORARY: "temporary"}.get(source.kind, "active")
        if source.refunded_at is not None:
            return "refunded"
        return "revoked" if source.revoked_at is not None else "expired"
    if access.is_active(now):
        if access.grace_ends_at is not None and source.current.ends_at <= now:
            return "grace_period"
        return "trial" if source.current.period_type is PeriodType.TRIAL else "active"
    if source.current.refunded_at is not None and source.current.product_id == access.product_id:
        return "refunded"
    if source.expired is not None and source.expired.reason is Reason.SUBSCRIPTION_PAUSED:
        return "paused"
    return "billing_retry" if source.status.billing_issue_at is not None else "expired"


def _since(access: Access) -> Ms:
    """From when access has run without a gap."""
    if isinstance(access.source, Purchase):
        return access.purchased_at
    since = access.purchased_at
    for period in reversed(access.source.periods):
        if period.purchased_at <= since <= period.ends_at:
            since = period.purchased_at
    return since


def _renews(access: Access) -> bool | None:
    source = access.source
    if isinstance(source, Purchase):
        return None
    status = source.status
    return (
        status.auto_renew
        and status.ended is None
        and status.billing_issue_at is None
        and status.pause is None
        and source.current.refunded_at is None
    )


_HAVING = frozenset({"active", "trial", "grace_period", "granted", "temporary"})
_CHANGES = {
    "active": "A refund would end it at once.",
    "trial": "The trial's end: it becomes paid if renewal is on, and ends if not.",
    "grace_period": "A successful payment would renew it; without one it ends with the grace period.",
    "billing_retry": "A successful payment would bring it back.",
    "paused": "Resuming the subscription would bring it back.",
    "refunded": "A reversal of the refund would bring it back while the paid time lasts.",
    "granted": "Revoking the grant would end it at once.",
    "temporary": "The store's word on the purchase would replace it.",
}


def _would_change(access: Access, reason: str, products: tuple[str, ...]) -> tuple[str, ...]:
    changes = [_CHANGES[reason]] if reason in _CHANGES else []
    if reason in ("active", "trial") and isinstance(access.source, Subscription):
        status = access.source.status
        if not status.auto_renew:
            changes.append("Turning renewal on again would keep it.")
        elif status.billing_issue_at is not None:
            changes.append("A successful payment would renew it.")
    if reason in ("expired", "revoked", "refunded"):
        changes.append(f"Buying {_any_of(products)} would grant it." if products else "No product grants it any more.")
    if reason in _HAVING and access.product_id in products:
        changes.append(f"Detaching {access.product_id} from the entitlement would take it away.")
    return tuple(changes)


def _sentence(who: str, access: Access, reason: str, now: Ms) -> str:
    what, product = access.entitlement_id, access.product_id
    until = f"until {end_to_iso(access.ends_at, now)}" if access.ends_at is not None else "for ever"
    ended = f"ended at {end_to_iso(access.ends_at, now)}" if access.ends_at is not None else ""
    bought = f"bought {product} at {to_iso(access.purchased_at)}"
    renews = _then(access.source)
    return {
        "active": f"{who} has {what} {until} because they {bought}{renews}.",
        "trial": f"{who} has {what} {until} because they are on a trial of {product}{renews}.",
        "grace_period": f"{who} has {what} {until}: the payment for {product} failed and its grace period is running.",
        "granted": f"{who} has {what} {until} because it was granted at {to_iso(access.purchased_at)}.",
        "temporary": f"{who} has {what} {until} while the store cannot confirm the purchase of {product}.",
        "refunded": f"{who} does not have {what}: the purchase of {product} was refunded, so access {ended}.",
        "revoked": f"{who} does not have {what}: the grant was revoked, so access {ended}.",
        "paused": f"{who} does not have {what}: the subscription to {product} is paused, so access {ended}.",
        "billing_retry": f"{who} does not have {what}: the payment for {product} failed, so access {ended}.",
        "expired": f"{who} does not have {what}: {product} {ended}.",
    }[reason]


def _then(source: Subscription | Purchase) -> str:
    """What comes after the time that is paid for."""
    if isinstance(source, Purchase):
        return ""
    status = source.status
    if not status.auto_renew or status.ended is not None:
        return ", and it does not renew"
    if status.billing_issue_at is not None:
        grace = ", and a grace period is counted in" if source.in_grace else ""
        return f", but the payment for the time after it failed{grace}"
    if status.pause is not None:
        return f", and it then pauses until {to_iso(status.pause.resumes_at)}"
    return f", and it renews as {status.next_product_id}" if status.next_product_id else ", and it renews"


def _any_of(products: tuple[str, ...]) -> str:
    return " or ".join(products[:3]) + (" or another product" if len(products) > 3 else "")
