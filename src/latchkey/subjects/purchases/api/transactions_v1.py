"""Refund, cancel and extend by a store's transaction id.

`revoke` and `defer` (`access.py`) have the same paths as `cancel` and `extend` up to the verb, but name a product.
"""

from typing import Annotated

from pydantic import Field

from latchkey.domain.instants import DAY
from latchkey.http.authentication import SecretWriteKey
from latchkey.http.hot_reads import subscriber_reply, view_of_reply
from latchkey.http.models import Body, PathUserId
from latchkey.http.routing import Response, Router
from latchkey.stores import adapter
from latchkey.subjects.purchases.usecases import store_actions
from latchkey.wire.v1 import SubscriberResponse

router = Router(prefix="/v1/subscribers/{app_user_id}", tags=["V1 subscribers"])


class NewExtension(Body):
    """How many days the running period ends later, and why, as Apple numbers reasons."""

    extend_by_days: Annotated[int, Field(ge=1, le=90)]
    extend_reason_code: Annotated[
        int, Field(ge=0, le=3, description="0 undeclared, 1 the customer's satisfaction, 2 other, 3 an outage.")
    ]


@router.acts("/transactions/{transaction_id}/refund", SubscriberResponse, "customer.refunded")
async def refund_by_transaction(call: SecretWriteKey, app_user_id: PathUserId, transaction_id: str) -> Response:
    """Give the money of a purchase or of one period back. If it is the running period, access ends at once. A real
    store is asked to do it: one that refunds nothing on request gets a 422."""
    view = await view_of_reply(call, app_user_id)
    await store_actions.refund(
        call.services, store_actions.by_transaction(view.customer, transaction_id), ends_access=True
    )
    return await subscriber_reply(call, app_user_id)


@router.acts("/subscriptions/{transaction_id}/cancel", SubscriberResponse, "customer.cancelled")
async def cancel_by_transaction(call: SecretWriteKey, app_user_id: PathUserId, transaction_id: str) -> Response:
    """Turn renewal off; access stays until the end of the period. A real store is asked to do it: one that lets only
    the buyer cancel gets a 422."""
    view = await view_of_reply(call, app_user_id)
    await store_actions.cancel(call.services, store_actions.by_transaction(view.customer, transaction_id))
    return await subscriber_reply(call, app_user_id)


@router.acts("/subscriptions/{transaction_id}/extend", SubscriberResponse, "customer.extended")
async def extend_by_transaction(
    call: SecretWriteKey, app_user_id: PathUserId, transaction_id: str, new: NewExtension
) -> Response:
    """Move the end of the running period, free of charge. A real store is asked to do it."""
    view = await view_of_reply(call, app_user_id)
    extension = adapter.Extension(by=new.extend_by_days * DAY, reason=new.extend_reason_code)
    await store_actions.extend(call.services, store_actions.by_transaction(view.customer, transaction_id), extension)
    return await subscriber_reply(call, app_user_id)
