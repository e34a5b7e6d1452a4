"""An answer about access: the facts it is built from, its sentence, and what would change it. Tests do what each of
these lines says and check that it comes true."""

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.access.entitlements import Access, Grant, Remapping, active, remapped
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, put_purchase
from latchkey.domain.customers.promotion import revoke
from latchkey.domain.formats import instant
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.lifecycle import end_reason
from latchkey.domain.purchases.purchase import MoneyBack, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.subscription import Cause, Period, Subscription
from latchkey.domain.purchases.summary import SubscriptionState, standing_of


class Case(Struct, frozen=True):
    """The access that decides, and the customer, catalog and period it comes from."""

    customer: Customer
    catalog: Catalog
    access: Access
    # The period that gives the access, if a subscription does.
    period: Period | None
    now: Ms

    @property
    def subscription(self) -> Subscription | None:
        """The subscription whose current period gives the access; None if an older period gives it."""
        source = self.access.source
        return source if isinstance(source, Subscription) and source.current is self.period else None

    @property
    def standing(self) -> SubscriptionState | None:
        """Of that subscription, right now."""
        return standing_of(self.subscription, self.now) if self.subscription is not None else None

    @property
    def next_grants(self) -> bool:
        """Whether the next period, if there is one, grants the entitlement."""
        one = self.subscription
        if one is None or one.store in self.catalog.closed_stores:
            return False
        product = self.catalog.find(one.status.next_product_id or one.current.product_id)
        return product is not None and product.duration is not None and self.access.entitlement_id in product.grants

    @property
    def renews(self) -> bool:
        """Whether access continues by itself at the end of the period."""
        return self.standing in (SubscriptionState.RENEWS, SubscriptionState.OVERDUE) and self.next_grants

    @property
    def following(self) -> Period | None:
        """The period of the subscription after the one that gives the access."""
        source, period = self.access.source, self.period
        if period is None or isinstance(source, Purchase):
            return None
        return next((one for one in source.periods if one.order > period.order), None)

    @property
    def changed_without_gap(self) -> bool:
        """Whether the subscription continued at once with another product. After a gap, something else had ended it."""
        period, following = self.period, self.following
        if period is None or following is None or following.product_id == period.product_id:
            return False
        return following.starts_at <= period.access_ends_at


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
    after = case.following.product_id if case.following is not None else ""
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
        "product_changed": f"{lacks}: the subscription changed from {product} to {after}, so {ended}.",
        "detached": f"{lacks}: {product} was detached from it, so {ended}.",
    }[reason]


def any_of(products: tuple[str, ...]) -> str:
    return " or ".join(products[:3]) + (" or another product" if len(products) > 3 else "")


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
    if case.standing is SubscriptionState.PAYMENT_FAILED:
        grace = ", and a grace period is counted in" if one.in_grace else ""
        return f", but the payment for the time after it failed{grace}"
    if case.standing is SubscriptionState.PAUSES and pause is not None:
        return f", and it then pauses until {instant(pause.resumes_at)}"
    if case.standing is SubscriptionState.ENDS or (not case.renews and next_product_id is None):
        return ", and it does not renew"
    renews = f", and it renews as {next_product_id}" if next_product_id else ", and it renews"
    return renews if case.renews else f"{renews}, which does not grant {case.access.entitlement_id}"


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
    on_sale = tuple(product for product in products if catalog.offered(product) is not None)
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
        if reason == "expired" and case.standing is SubscriptionState.OVERDUE:
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
    others = tuple(subscription for subscription in case.customer.subscriptions if subscription is not source)
    return replace(case.customer, subscriptions=(*others, replace(source, periods=periods)))


def _and_back(facts: tuple[MoneyBack, ...], now: Ms) -> tuple[MoneyBack, ...]:
    standing = bool(facts) and not facts[-1].reversal
    return (*facts, MoneyBack(now, number=len(facts), reversal=standing))
