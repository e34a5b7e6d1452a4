"""What an operator can do to an active subscription: refund and end it, or move its end."""

from __future__ import annotations

from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.stores.test_store import actions
from latchkey.stores.test_store.billing import STORE
from latchkey.usecases.engine.changes import Change, Changes, Committed, Situation
from latchkey.usecases.sandbox.store import require_open


async def refund(changes: Changes, project_id: str, app_user_id: str, product_id: str) -> Committed:
    def refunded(situation: Situation) -> Customer:
        subscription = _find(situation.customer, product_id)
        seen = actions.refund(subscription, situation.now)
        return take_in(situation.customer, seen, situation.now)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=refunded))


async def defer(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    product_id: str,
    *,
    until: Ms | None = None,
    by: Ms | None = None,
) -> Committed:
    """Moves the end of the current period to `until`, or by `by`."""

    def extended(situation: Situation) -> Customer:
        subscription = _find(situation.customer, product_id)
        require_open(situation.catalog)
        end = until if until is not None else subscription.current.ends_at + (by or 0)
        seen = actions.extend(subscription, situation.now, until=end)
        return take_in(situation.customer, seen, situation.now)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=extended))


def _find(customer: Customer, product_id: str) -> Subscription:
    mine = [one for one in customer.subscriptions if one.current.product_id == product_id]
    if not mine:
        raise NotFound(f"{customer.app_user_id!r} has no subscription to {product_id!r}.", param="product_id")
    newest = max(mine, key=lambda one: one.current.order)
    if newest.store != STORE:
        raise Refusal(f"A subscription of {newest.store} is refunded and extended at the store.")
    return newest
