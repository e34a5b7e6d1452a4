"""Why a customer has, or lacks, an entitlement: as data and as one sentence."""

from msgspec import Struct

from latchkey.domain.access.entitlements import Access, accesses, held
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription
from latchkey.domain.purchases.summary import SubscriptionState
from latchkey.subjects.customers.rules.explained_changes import Case, sentence, would_bring_it, would_change_it

# Why a subscription gives no access any more.
_REASON_OF_END = {
    SubscriptionState.PAUSED: "paused",
    SubscriptionState.BILLING_RETRY: "billing_retry",
    SubscriptionState.REFUNDED: "refunded",
    SubscriptionState.OVERDUE: "expired",
    SubscriptionState.ENDED: "expired",
}


class Explanation(Struct, frozen=True, kw_only=True):
    entitlement_id: str
    has_access: bool
    # Having it: active, trial, grace_period, granted, temporary. Lacking it: expired, refunded, revoked, paused,
    # billing_retry, product_changed, detached, never_granted, unknown_entitlement.
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
    """The access that decides about this entitlement at `now`. Everything due by `now` must have been applied
    already."""
    products = tuple(sorted(product.id for product in catalog.products.values() if entitlement_id in product.grants))
    found = [access for access in accesses(customer, catalog) if access.entitlement_id == entitlement_id]
    if not found:
        return _never(customer.app_user_id, entitlement_id, catalog, products)
    best = _best(found, now)
    case = Case(customer, catalog, best, period_of(best), now)
    reason = _reason(case)
    return Explanation(
        entitlement_id=entitlement_id,
        has_access=best.is_active(now),
        reason=reason,
        since=_since(best, found),
        until=best.ends_at,
        product_id=best.product_id,
        store=best.source.store,
        transaction_id=case.period.id if case.period is not None else best.source.id,
        renews=case.renews if isinstance(best.source, Subscription) else None,
        granting_products=products,
        would_change=would_change_it(case, reason, products),
        sentence=sentence(case, reason),
    )


def explain_all(customer: Customer, catalog: Catalog, now: Ms) -> list[Explanation]:
    """Of every entitlement of the project, and every one that the customer ever had, by id."""
    known = catalog.entitlements | held(customer, catalog).keys()
    return [explain(customer, catalog, id, now) for id in sorted(known)]


def _never(who: str, entitlement_id: str, catalog: Catalog, products: tuple[str, ...]) -> Explanation:
    known = entitlement_id in catalog.entitlements
    because = "and never had it: nothing that grants it was bought or given"
    return Explanation(
        entitlement_id=entitlement_id,
        has_access=False,
        reason="never_granted" if known else "unknown_entitlement",
        granting_products=products if known else (),
        would_change=would_bring_it(catalog, entitlement_id, products),
        sentence=f"{who} does not have {entitlement_id} "
        f"{because if known else 'because this project has no such entitlement'}.",
    )


def _best(found: list[Access], now: Ms) -> Access:
    """The access that decides, the same one that V1 and V2 report. Of several with the same end, the detached one
    decides, because it would have continued; else the last one, because a period that was replaced at once gave
    nothing."""

    def order(one: Access) -> tuple[bool, Ms, Ms, bool, str]:
        endless, ends_at, purchased_at, product_id = one.rank
        return endless, ends_at, purchased_at, one.detached, product_id if one.is_active(now) else ""

    return max(reversed(found), key=order)


def period_of(access: Access) -> Period | None:
    """The period that gives this access, where a subscription does."""
    if isinstance(access.source, Purchase):
        return None
    of_product = (period for period in reversed(access.source.periods) if period.product_id == access.product_id)
    return next(period for period in of_product if period.purchased_at == access.purchased_at)


def _reason(case: Case) -> str:
    access, source = case.access, case.access.source
    if access.is_active(case.now):
        if isinstance(source, Purchase):
            return {PurchaseKind.PROMOTIONAL: "granted", PurchaseKind.TEMPORARY: "temporary"}.get(source.kind, "active")
        if case.standing is SubscriptionState.IN_GRACE:
            return "grace_period"
        return "trial" if case.period is not None and case.period.period_type is PeriodType.TRIAL else "active"
    if access.detached:
        return "detached"
    return _end_of_purchase(source) if isinstance(source, Purchase) else _end_of_period(case, source)


def _end_of_purchase(purchase: Purchase) -> str:
    """The reason is whichever ended access first; later ones changed nothing."""
    ended_at = purchase.access_ends_at
    if ended_at in (purchase.ends_at, purchase.resolved_at):
        return "expired"
    return "revoked" if ended_at == purchase.revoked_at else "refunded"


def _end_of_period(case: Case, subscription: Subscription) -> str:
    period = case.period
    assert period is not None
    if case.standing is not None:
        # A refund that came after the end took no access.
        late = case.standing is SubscriptionState.REFUNDED and not subscription.cut_short
        return "expired" if late else _REASON_OF_END[case.standing]
    if period.cut_short:
        return "refunded"
    return "product_changed" if case.changed_without_gap else "expired"


def _since(best: Access, found: list[Access]) -> Ms:
    """Since when access has run without a gap."""
    since = _start(best)
    while earlier := [
        start
        for access in found
        if (start := _start(access)) < since and (access.ends_at is None or access.ends_at >= since)
    ]:
        since = min(earlier)
    return since


def _start(access: Access) -> Ms:
    """A payment recovered within the grace period leaves no gap, so its time begins before the payment."""
    period = period_of(access)
    return access.purchased_at if period is None else period.starts_at
