"""What an operator does to one subscription or purchase: cancel it, refund it, extend it.

Latchkey itself decides about promotional grants and about purchases of its test store. A real store is asked first, and
what it did is then read from it, so that Latchkey never says what the store does not. Where a store refuses, nothing
has changed. Where it cannot be reached, nobody knows: the purchase is read again as soon as it answers.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import structlog
from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.errors import CollisionError
from latchkey.domain.catalog import without_plan
from latchkey.domain.customers.customer import Customer, put_purchase
from latchkey.domain.customers.intake import take_in
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.reference import has_transaction, kind_of
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.purchases.summary import gives_access
from latchkey.domain.refusal import NotFound, Refusal, StoreRefused, StoreUnreachable
from latchkey.domain.stores.store import BASE_PLANS, TEST_STORE, store_of
from latchkey.domain.stores.test_store import actions
from latchkey.domain.stores.test_store.orders import require_open
from latchkey.engine.changes import Change, Situation
from latchkey.engine.storage import store_handles as handles
from latchkey.engine.storage.store_handles import Handle
from latchkey.stores.adapter import ActionTarget, Adapter, ConnectedApp, Extension
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown, StoreError
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups
from latchkey.subjects.purchase_intake.usecases.purchase_intake import Taker
from latchkey.subjects.purchases.usecases.lookup import LookupServices

__all__ = ["ActionItem", "Extension", "by_product", "by_transaction", "cancel", "extend", "item_of", "refund", "revoke"]

Bought: TypeAlias = Subscription | Purchase
# What the test store makes of a purchase.
Rule: TypeAlias = Callable[[Any, Situation], Bought]
# What a real store is asked to do.
Asked: TypeAlias = Callable[[Adapter, ConnectedApp, ActionTarget], Awaitable[None]]

log = structlog.get_logger()


class ActionItem(Struct, frozen=True):
    """A subscription or purchase of a customer, and which of its transactions is meant."""

    project_id: str
    app_user_id: str
    bought: Bought
    transaction_id: str

    @property
    def latest(self) -> bool:
        return not isinstance(self.bought, Subscription) or self.transaction_id == self.bought.current.id

    @property
    def is_grant(self) -> bool:
        return isinstance(self.bought, Purchase) and self.bought.kind is PurchaseKind.PROMOTIONAL


def item_of(customer: Customer, bought: Bought, transaction_id: str | None = None) -> ActionItem:
    """The last transaction, unless another one is named."""
    if isinstance(bought, Purchase):
        named = bought.id
    else:
        known = {period.id for period in bought.periods}
        named = transaction_id if transaction_id in known and transaction_id is not None else bought.current.id
    return ActionItem(customer.project_id, customer.app_user_id, bought, named)


def by_transaction(customer: Customer, transaction_id: str) -> ActionItem:
    """What the customer bought with this transaction."""
    for purchase in customer.bought:
        if has_transaction(purchase, transaction_id) and kind_of(purchase) is not None:
            return item_of(customer, purchase, transaction_id)
    raise NotFound(f"{customer.app_user_id!r} has no transaction {transaction_id!r}.", param="transaction_id")


def by_product(customer: Customer, product_id: str) -> ActionItem:
    """The customer's newest subscription to this product, with or without its base plan."""
    mine = [subscription for subscription in customer.subscriptions if _is_of(subscription, product_id)]
    if not mine:
        raise NotFound(f"{customer.app_user_id!r} has no subscription to {product_id!r}.", param="product_id")
    return item_of(customer, max(mine, key=lambda one: one.current.order))


async def cancel(services: LookupServices, item: ActionItem) -> None:
    """Turns renewal off. Access stays until the end of the time that was paid for."""
    if isinstance(item.bought, Purchase):
        what = "A promotional grant" if item.is_grant else "A one-time purchase"
        raise Refusal(f"{what} does not renew, so there is nothing to cancel.")

    def cancelled(bought: Subscription, situation: Situation) -> Bought:
        return actions.cancel(bought, situation.now, Reason.DEVELOPER_INITIATED)

    await _do(services, item, cancelled, lambda adapter, app, target: adapter.cancel(app, target))


async def revoke(services: LookupServices, item: ActionItem) -> None:
    """Gives the last payment back, or ends a grant. Access ends at once."""
    if item.is_grant:
        await _revoke_grant(services, item)
        return

    def asked(adapter: Adapter, app: ConnectedApp, target: ActionTarget) -> Awaitable[None]:
        return adapter.revoke(app, target) if target.subscription else adapter.refund(app, target, revoke=True)

    await _do(services, item, lambda bought, situation: actions.refund(bought, situation.now), asked)


async def refund(services: LookupServices, item: ActionItem, *, ends_access: bool) -> None:
    """Gives the money of one transaction back. With `ends_access`, a refund of the running period ends access."""
    if item.is_grant and not ends_access:
        raise Refusal("A promotional grant cost nothing; there is nothing to refund.", param="transaction_id")
    if item.is_grant:
        await _revoke_grant(services, item)
        return

    def refunded(bought: Bought, situation: Situation) -> Bought:
        if isinstance(bought, Subscription) and not (ends_access and item.latest):
            return actions.refund_earlier(bought, item.transaction_id, situation.now)
        return actions.refund(bought, situation.now)

    def asked(adapter: Adapter, app: ConnectedApp, target: ActionTarget) -> Awaitable[None]:
        return adapter.refund(app, target, revoke=ends_access and target.latest)

    await _do(services, item, refunded, asked, ended_too=True)


async def extend(services: LookupServices, item: ActionItem, extension: Extension) -> None:
    """Moves the end of the running period, free of charge."""
    if isinstance(item.bought, Purchase):
        raise Refusal("Only a subscription that renews can be extended. Grant the entitlement again instead.")

    def extended(bought: Subscription, situation: Situation) -> Bought:
        require_open(situation.catalog)
        until = extension.until if extension.until is not None else bought.current.ends_at + (extension.by or 0)
        return actions.extend(bought, situation.now, until=until)

    await _do(services, item, extended, lambda adapter, app, target: adapter.extend(app, target, extension))


async def _do(services: LookupServices, item: ActionItem, rule: Rule, asked: Asked, *, ended_too: bool = False) -> None:
    if item.bought.store == TEST_STORE:
        await _change(services, item, lambda bought, at: take_in(at.customer, rule(bought, at), at.now))
        return
    if isinstance(item.bought, Subscription) and item.bought.status.ended is not None and not ended_too:
        # Its store may go on with what was bought together with it, and would act on that.
        raise StoreRefused("The subscription has ended.")
    await _at_store(services, item, asked)


async def _revoke_grant(services: LookupServices, item: ActionItem) -> None:
    def revoked(bought: Bought, situation: Situation) -> Customer:
        assert isinstance(bought, Purchase)
        if not gives_access(bought, situation.now):
            raise Refusal("The grant has ended already.")
        return put_purchase(situation.customer, replace(bought, revoked_at=situation.now))

    await _change(services, item, revoked)


async def _change(services: LookupServices, item: ActionItem, rule: Callable[[Bought, Situation], Customer]) -> None:
    key = item.bought.store, item.bought.id

    def changed(situation: Situation) -> Customer:
        bought = situation.customer.subscription(*key) or situation.customer.purchase(*key)
        if bought is None:
            raise NotFound("The purchase was just transferred. Look it up again.", param="transaction_id")
        return rule(bought, situation)

    await services.changes.make(Change(project_id=item.project_id, app_user_id=item.app_user_id, apply=changed))


async def _at_store(services: LookupServices, item: ActionItem, asked: Asked) -> None:
    handle, app = await _connected(services, item)
    adapter = services.stores.adapters[app.store]
    try:
        await asked(adapter, app, _target(item, handle))
    except ActionRefused as error:
        raise StoreRefused(error.message) from None
    except CredentialsRefused as error:
        raise StoreRefused(f"The store does not let the app's credentials do this. {error.message}") from None
    except StoreDown as error:
        # It may have been done all the same.
        await handles.set_check(services.database, handle, services.now())
        raise StoreUnreachable(error.message, retry_after_ms=error.retry_after_ms) from None
    read_at = services.now()
    try:
        reading = await adapter.read_again(app, handle.handle, handle.environment)
        taken = await Taker(services.changes, BatchedLookups(services.database), adapter, app).take(reading, read_at)
    except (StoreError, CollisionError) as error:
        # It was done, so whoever asked must not ask again. The clock role reads the purchase as soon as it can.
        log.warning("purchase not read after an action", store=handle.store, app_id=handle.app_id, reason=str(error))
        taken = ()
    if not taken:
        await handles.set_check(services.database, handle, services.now())


async def _connected(services: LookupServices, item: ActionItem) -> tuple[Handle, ConnectedApp]:
    store = item.bought.store
    title = store_of(store).title or store
    handle = await handles.of_purchase(services.database, item.project_id, store, item.bought.id)
    app = await services.stores.of_app(item.project_id, handle.app_id) if handle is not None else None
    if handle is None or app is None or store not in services.stores.adapters:
        raise StoreRefused(f"Latchkey is not connected to the {title} for this purchase, so it cannot ask for it.")
    return handle, app


def _target(item: ActionItem, handle: Handle) -> ActionTarget:
    paid = item.bought if isinstance(item.bought, Purchase) else item.bought.current
    return ActionTarget(
        handle=handle.handle,
        environment=item.bought.environment,
        product_id=paid.product_id,
        transaction_id=item.transaction_id,
        latest=item.latest,
        subscription=isinstance(item.bought, Subscription),
        ends_at=paid.ends_at,
    )


def _is_of(subscription: Subscription, product_id: str) -> bool:
    bought = subscription.current.product_id
    return product_id == bought or (subscription.store in BASE_PLANS and product_id == without_plan(bought))
