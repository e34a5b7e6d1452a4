"""What Latchkey asks Stripe to do."""

from typing import Any

from latchkey.domain.instants import Ms
from latchkey.stores.adapter import ActionTarget, ConnectedApp, Extension
from latchkey.stores.errors import ActionRefused
from latchkey.stores.stripe.api import StripeApi, UnknownObject, acting
from latchkey.stores.stripe.reading import StripeReader
from latchkey.stores.stripe.resources import StripeSubscription

ITEM = "#"
# Stripe takes a trial of this length at most.
_LONGEST: Ms = 730 * 86_400_000


class StripeActions:
    def __init__(self, api: StripeApi, reader: StripeReader) -> None:
        self._api = api
        self._reader = reader

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:
        subscription = await self._alone(app, target)
        if not subscription.cancel_at_period_end:
            await self._post(app, f"subscriptions/{subscription.id}", cancel_at_period_end=True)

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:
        await self._alone(app, target)
        await self.refund(app, target, revoke=True)

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:
        payment = await self._payment(app, target)
        await self._post(app, "refunds", **payment)
        if revoke and target.subscription and target.latest:
            with acting():
                await self._api.client(app).raw_request_async("delete", f"/v1/subscriptions/{_whole(target.handle)}")

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        """By a trial: Stripe charges nothing until its end, and then begins the next period."""
        subscription = await self._alone(app, target)
        if subscription.status not in ("active", "trialing"):
            raise ActionRefused("Stripe extends only a subscription that is active or in its trial.")
        end = subscription.items.data[0].current_period_end * 1000
        # From the end that the caller knows: whoever asks again because the answer was lost extends once.
        known = target.ends_at if target.ends_at is not None else end
        until = extension.until if extension.until is not None else known + (extension.by or 0)
        if until == end and until > known:
            return
        if not end < until <= end + _LONGEST:
            raise ActionRefused("Stripe moves the end of a period to a later time, by two years at most.")
        await self._post(
            app, f"subscriptions/{subscription.id}", trial_end=-(-until // 1000), proration_behavior="none"
        )

    async def _alone(self, app: ConnectedApp, target: ActionTarget) -> StripeSubscription:
        """The subscription, if it has only one item: Stripe acts on all of them."""
        try:
            subscription = await self._reader.subscription(app, _whole(target.handle))
        except UnknownObject as error:
            raise ActionRefused(error.message) from None
        if len(subscription.items.data) != 1:
            raise ActionRefused("It was bought together with others, and Stripe acts on all of them at once.")
        if subscription.status == "canceled":
            raise ActionRefused("The subscription has ended.")
        return subscription

    async def _payment(self, app: ConnectedApp, target: ActionTarget) -> dict[str, Any]:
        """What a refund names: a payment intent, or a charge without one."""
        together = "It was paid together with others, and Stripe gives back all of it."
        paid = target.transaction_id
        if ITEM in paid:
            raise ActionRefused(together)
        if target.subscription:
            if not paid.startswith("in_") or "/" in paid:
                raise ActionRefused("There is no payment of its own for this period.")
            try:
                invoice = await self._reader.invoice(app, paid)
                found = await self._reader.payments_of(app, paid)
            except UnknownObject as error:
                raise ActionRefused(error.message) from None
            if len({one.item_id for one in invoice.lines.data if not one.is_proration}) > 1:
                raise ActionRefused(together)
            if not found:
                raise ActionRefused("Nothing was paid for this period.")
            if len(found) > 1:
                raise ActionRefused("The invoice was paid in several parts. Give them back in Stripe's dashboard.")
            paid = found[0]
        return {"payment_intent": paid} if paid.startswith("pi_") else {"charge": paid}

    async def _post(self, app: ConnectedApp, path: str, **given: Any) -> None:
        with acting():
            await self._api.client(app).raw_request_async("post", f"/v1/{path}", **given)


def _whole(handle: str) -> str:
    return handle.partition(ITEM)[0]
