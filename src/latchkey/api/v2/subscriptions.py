"""A project's subscriptions: each by its id, or by an id of its store. Promotional grants are among them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import Missing
from latchkey.api.models import Paging, StoreId
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.engine.admission import Caller
from latchkey.usecases.ledger import acting, finding
from latchkey.usecases.rendering import ledger as render
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.services import Services
from latchkey.wire import ledger as wire
from latchkey.wire.management import Entitlement
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/subscriptions", tags=["V2 subscriptions and purchases"])

Identifier = Annotated[StoreId, Query(description="The store's id of the subscription, or of one of its periods.")]


@router.get("", responses=shows(Page[wire.Subscription]))
async def search_subscriptions(
    services: Provided, caller: ReadKey, store_subscription_identifier: Identifier
) -> Response:
    """The subscriptions that have this id in their store, or a past or present period with it. There is no list of all
    subscriptions."""
    found = await finding.by_store_id(services, caller.project_id, "subscription", store_subscription_identifier)
    path = project_path(caller.project_id, "subscriptions")
    return reply(render.whole([render.subscription(one) for one in found], path))


@router.get("/{subscription_id}", responses=shows(wire.Subscription))
async def read_subscription(services: Provided, caller: ReadKey, subscription_id: str) -> Response:
    """One subscription, whoever owns it."""
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.subscription(found))


@router.get(
    "/{subscription_id}/transactions",
    responses=shows(Page[wire.SubscriptionTransaction]),
    response_class=Response,
)
async def list_transactions(services: Provided, caller: ReadKey, subscription_id: str) -> Response:
    """All periods of a subscription, oldest first. Not paged."""
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.transactions(found))


@router.get("/{subscription_id}/entitlements", responses=shows(Page[Entitlement]))
async def list_entitlements_of_subscription(
    services: Provided, caller: ReadKey, subscription_id: str, paging: Paging
) -> Response:
    """What the subscription grants while it runs, by id."""
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.entitlements(found, paging.limit, paging.after))


@router.get(
    "/{subscription_id}/authenticated_management_url",
    responses=shows(wire.ManagementUrl),
    response_class=Response,
)
async def read_management_url(services: Provided, caller: ReadKey, subscription_id: str) -> Response:
    """Where the buyer manages the subscription: the page of its store, which asks them to sign in. 404 if the
    store has no such page."""
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    url = render.management_url(found.bought.store)
    if url is None:
        raise Missing("The store of this subscription has no page to manage it on.", code=7226)
    return reply(wire.ManagementUrl(management_url=url))


@router.post("/{subscription_id}/actions/cancel", responses=shows(wire.Subscription))
@audited("customer.cancelled")
async def cancel_subscription(services: Provided, caller: WriteKey, subscription_id: str) -> Response:
    """Turn renewal off; access stays until the end of the period. A real store is asked to do it: one that lets only
    the buyer cancel gets a 422."""
    item = await _item(services, caller, subscription_id)
    await acting.cancel(services, item)
    return await _reply(services, caller, subscription_id)


@router.post("/{subscription_id}/actions/refund", responses=shows(wire.Subscription))
@audited("customer.refunded")
async def refund_subscription(services: Provided, caller: WriteKey, subscription_id: str) -> Response:
    """Give the last payment back and end access at once; a promotional grant only ends. A real store is asked to do it:
    one that refunds nothing on request gets a 422."""
    item = await _item(services, caller, subscription_id)
    await acting.revoke(services, item)
    return await _reply(services, caller, subscription_id)


@router.post(
    "/{subscription_id}/transactions/{transaction_id}/actions/refund",
    responses=shows(wire.SubscriptionTransaction),
    response_class=Response,
)
@audited("customer.refunded")
async def refund_transaction(
    services: Provided, caller: WriteKey, subscription_id: str, transaction_id: str
) -> Response:
    """Give the money of one transaction back; access and renewal stay as they are. In the test store the running period
    cannot be refunded so: its refund ends access."""
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    if render.transaction(found, transaction_id) is None:
        raise Missing(f"The subscription has no transaction {transaction_id!r}.", param="transaction_id", code=7226)
    item = acting.item_of(found.view.customer, found.bought, transaction_id)
    await acting.refund(services, item, ends_access=False)
    after = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.transaction(after, transaction_id))


async def _item(services: Services, caller: Caller, subscription_id: str) -> acting.Item:
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    return acting.item_of(found.view.customer, found.bought)


async def _reply(services: Services, caller: Caller, subscription_id: str) -> Response:
    """The subscription, read again after the action."""
    return reply(render.subscription(await finding.by_id(services, caller.project_id, "subscription", subscription_id)))
