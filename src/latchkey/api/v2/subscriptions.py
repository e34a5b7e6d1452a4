"""A project's subscriptions: each by its id, or by an id of its store. Promotional grants are among them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from latchkey.api.authentication import ReadKey
from latchkey.api.models import Limit, StartingAfter, StoreId
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.ledger import finding
from latchkey.usecases.rendering import ledger as render
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import ledger as wire
from latchkey.wire.management import Entitlement
from latchkey.wire.v2 import Page

router = APIRouter(prefix="/v2/projects/{project_id}/subscriptions", tags=["V2 subscriptions and purchases"])

Identifier = Annotated[StoreId, Query(description="The store's id of the subscription, or of one of its periods.")]


@router.get("", responses=shows(Page[wire.Subscription]), response_class=Response)
async def search_subscriptions(
    services: Provided, caller: ReadKey, store_subscription_identifier: Identifier
) -> Response:
    """The subscriptions that have this id in their store, or a past or present period with it. There is no list of all
    subscriptions."""
    found = await finding.by_store_id(services, caller.project_id, "subscription", store_subscription_identifier)
    path = project_path(caller.project_id, "subscriptions")
    return reply(render.whole([render.subscription(one) for one in found], path))


@router.get("/{subscription_id}", responses=shows(wire.Subscription), response_class=Response)
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


@router.get("/{subscription_id}/entitlements", responses=shows(Page[Entitlement]), response_class=Response)
async def list_entitlements_of_subscription(
    services: Provided,
    caller: ReadKey,
    subscription_id: str,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """What the subscription grants while it runs, by id."""
    found = await finding.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.entitlements(found, limit, starting_after))
