"""What Google Play does for a developer: cancel, revoke, refund and defer.

A purchase of several items has one token, and Google acts on all of them. Latchkey knows each item as a subscription of
its own, so it refuses to act on one of several.
"""

from latchkey.domain.instants import DAY, Ms
from latchkey.stores.adapter import ActionTarget, ConnectedApp, Extension
from latchkey.stores.errors import ActionRefused, StoreDown
from latchkey.stores.google.publisher import Publisher
from latchkey.stores.google.refusal import Gone, UnknownPurchase
from latchkey.stores.google.resources import SubscriptionPurchase, instant
from latchkey.stores.google.subscription import ADD_ON, NO_ORDER

_LONGEST: Ms = 365 * DAY


class GoogleActions:
    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:
        purchase = await self._alone(app, target)
        if purchase.is_prepaid:
            raise ActionRefused("A prepaid plan does not renew, so there is nothing to cancel.")
        await self._publisher.cancel(app, target.handle)

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:
        await self._alone(app, target)
        await self._publisher.revoke(app, target.handle)

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:
        _not_one_of_several(target)
        if target.transaction_id.startswith(NO_ORDER):
            raise ActionRefused("Google names no order for this purchase, so there is no payment to give back.")
        await self._publisher.refund(app, target.transaction_id, revoke=revoke)

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        purchase = await self._alone(app, target)
        ends_at = instant(purchase.items[0].expiry_time)
        if ends_at is None:
            raise StoreDown("Google answered with a subscription that has no end.")
        desired = extension.until if extension.until is not None else ends_at + (extension.by or 0)
        if not ends_at < desired <= ends_at + _LONGEST:
            raise ActionRefused("Google moves the end of a subscription to a later time, by a year at most.")
        await self._publisher.defer(app, target.handle, etag=purchase.etag, by=desired - ends_at)

    async def _alone(self, app: ConnectedApp, target: ActionTarget) -> SubscriptionPurchase:
        """The subscription, if nothing else was bought with it."""
        _not_one_of_several(target)
        try:
            purchase = await self._publisher.subscription(app, target.handle)
        except (UnknownPurchase, Gone) as error:
            raise ActionRefused(error.message) from None
        if len(purchase.items) != 1:
            raise ActionRefused("It was bought together with others, and Google acts on all of them at once.")
        if purchase.is_replaced:
            raise ActionRefused("Another purchase has replaced this one, and Latchkey has not heard of it yet.")
        return purchase


def _not_one_of_several(target: ActionTarget) -> None:
    if ADD_ON in target.handle:
        raise ActionRefused("It was bought together with others, and Google acts on all of them at once.")
