"""What would change an answer about access. Tests do what each line says and check that it comes true."""

from __future__ import annotations

from msgspec.structs import replace

from latchkey.domain.access.entitlements import Access, active
from latchkey.domain.access.explanation_case import Case
from latchkey.domain.access.explanation_words import any_of
from latchkey.domain.access.remapping import Grant, Remapping, remapped
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, put_purchase
from latchkey.domain.customers.promotion import revoke
from latchkey.domain.formats import instant
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import MoneyBack, Purchase
from latchkey.domain.purchases.standing import Standing
from latchkey.domain.purchases.subscription import Subscription

# Attaching alone gives nothing to a customer who has not bought the product.
_ATTACH = "Attach a product that is on sale; buying that product would then grant it."
_CREATE = "Create the entitlement and attach a product that is on sale; buying that product would then grant it."


def would_change_it(case: Case, reason: str, products: tuple[str, ...]) -> tuple[str, ...]:
    if not case.access.is_active(case.now):
        lines = _would_restore(case, reason)
        return (*lines, *would_bring_it(case.catalog, case.access.entitlement_id, products))
    lines = [*_would_end(case, reason), *_would_keep(case, reason)]
    # As the catalog names it, which may be without the base plan.
    product = case.catalog.find(case.access.product_id)
    product_id = product.id if product is not None else case.access.product_id
    detached = Remapping(detached=frozenset({Grant(product_id, case.access.entitlement_id)}))
    if product_id in products and not _held(case, catalog=remapped(case.catalog, detached)):
        lines.append(f"Detaching {product_id} from the entitlement would take it away.")
    return tuple(lines)


def would_bring_it(catalog: Catalog, entitlement_id: str, products: tuple[str, ...]) -> tuple[str, ...]:
    """What would give the entitlement to a customer who lacks it."""
    if entitlement_id not in catalog.entitlements:
        return (_CREATE,)
    on_sale = tuple(one for one in products if catalog.offered(one) is not None)
    if on_sale:
        bought = f"Buying {any_of(on_sale)} would grant it."
    else:
        bought = f"No product{' on sale' if products else ''} grants it. {_ATTACH}"
    return bought, "A promotional grant would give it at once."


def _would_end(case: Case, reason: str) -> list[str]:
    source = case.access.source
    if reason == "temporary":
        return ["The store's word on the purchase would replace it."]
    if reason == "granted":
        revoked = revoke(case.customer, case.access.entitlement_id, case.now)
        return _shortened("Revoking the grant", _held(case, customer=revoked), case)
    paid = case.period.price if case.period is not None else source.price if isinstance(source, Purchase) else None
    if paid is None or not paid.micros:
        return []
    return _shortened("A refund", _held(case, customer=_with_money_back(case)), case)


def _would_keep(case: Case, reason: str) -> list[str]:
    one = case.subscription
    if one is None or not case.next_grants:
        return []
    status = one.status
    if status.ended is not None:
        return []
    if status.billing_issue_at is not None:
        if not status.auto_renew:
            return ["Turning renewal on again, with a successful payment, would keep it."]
        return ["A successful payment would renew it."]
    if not status.auto_renew:
        return [] if status.pause is not None else ["Turning renewal on again would keep it."]
    if status.pause is not None:
        return ["Calling off the pause would keep it."]
    if reason == "trial" and case.renews:
        return ["At the end of the trial the first payment makes it a paid subscription."]
    return []


def _would_restore(case: Case, reason: str) -> list[str]:
    product_id = case.access.product_id
    if reason == "refunded" and (back := _held(case, customer=_with_money_back(case))):
        until = "" if back.ends_at is None else f" until {instant(back.ends_at)}"
        return [f"Reversing the refund would bring it back{until}."]
    if reason == "detached" and case.catalog.offered(product_id) is not None:
        attached = Remapping(frozenset({Grant(product_id, case.access.entitlement_id)}))
        if _held(case, catalog=remapped(case.catalog, attached)):
            return [f"Attaching {product_id} to the entitlement again would bring it back."]
    if reason == "product_changed" and isinstance(case.access.source, Subscription):
        running = case.access.source.access_ends_at > case.now
        granted = case.access.entitlement_id in case.catalog.grants(product_id)
        if running and granted and case.catalog.offered(product_id) is not None:
            return [f"Changing the subscription back to {product_id} would bring it back."]
    if case.next_grants:
        if reason == "billing_retry":
            return ["A successful payment would bring it back."]
        if reason == "paused":
            return ["Resuming the subscription would bring it back."]
        if reason == "expired" and case.standing is Standing.OVERDUE:
            return ["A renewal would bring it back."]
    return []


def _shortened(doing: str, left: Access | None, case: Case) -> list[str]:
    """How much earlier access would end after `doing`."""
    if left is None:
        return [f"{doing} would end it at once."]
    before, after = case.access.ends_at, left.ends_at
    if after is None or after == before:
        return []
    return [f"{doing} would let it end at {instant(after)}."]


def _held(case: Case, *, customer: Customer | None = None, catalog: Catalog | None = None) -> Access | None:
    """The access that the customer would have with this customer state or catalog."""
    held = active(customer or case.customer, catalog or case.catalog, case.now)
    return held.get(case.access.entitlement_id)


def _with_money_back(case: Case) -> Customer:
    """The customer after a refund of what gives the access, or after the reversal of one."""
    source, period = case.access.source, case.period
    if isinstance(source, Purchase):
        return put_purchase(case.customer, replace(source, money_back=_and_back(source.money_back, case.now)))
    assert period is not None
    changed = replace(period, money_back=_and_back(period.money_back, case.now))
    periods = tuple(changed if one is period else one for one in source.periods)
    others = tuple(one for one in case.customer.subscriptions if one is not source)
    return replace(case.customer, subscriptions=(*others, replace(source, periods=periods)))


def _and_back(facts: tuple[MoneyBack, ...], now: Ms) -> tuple[MoneyBack, ...]:
    standing = bool(facts) and not facts[-1].reversal
    return (*facts, MoneyBack(now, number=len(facts), reversal=standing))
