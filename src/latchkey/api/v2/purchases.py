"""A project's one-time purchases: each by its id, by an id of its store, or of one customer; and a customer's
invoices."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import NoSuchPath
from latchkey.api.exchange import SCOPE_KEY
from latchkey.api.models import Paging, PathUserId, StoreId
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.shape import is_vendors
from latchkey.api.v2.customers import view_of
from latchkey.api.v2.snapshot_bodies import NewSnapshot
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.reference import Kind
from latchkey.usecases.ledger import acting, finding
from latchkey.usecases.rendering import ledger as render
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.rendering.v2 import customer_path, page
from latchkey.usecases.rendering.view import View
from latchkey.usecases.services import Services
from latchkey.usecases.stores import feeding
from latchkey.wire import ledger as wire
from latchkey.wire.actions import EventReference
from latchkey.wire.management import Entitlement
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 subscriptions and purchases"])

Identifier = Annotated[StoreId, Query(description="The store's id of the purchase.")]
InEnvironment = Annotated[
    Literal["production", "sandbox"] | None, Query(description="Only purchases of this environment.")
]


@router.get("/purchases", responses=shows(Page[wire.Purchase]))
async def search_purchases(services: Provided, caller: ReadKey, store_purchase_identifier: Identifier) -> Response:
    """The one-time purchases that have this id in their store. There is no list of all purchases."""
    found = await finding.by_store_id(services, caller.project_id, "purchase", store_purchase_identifier)
    return reply(render.whole([render.purchase(one) for one in found], project_path(caller.project_id, "purchases")))


@router.post("/purchases", responses=shows(wire.SnapshotTaken))
@audited("purchase.fed")
async def take_snapshot(services: Provided, caller: WriteKey, new: NewSnapshot) -> Response:
    """Tell how a subscription or a one-time purchase stands in a store that Latchkey has no adapter for. Snapshots may
    come in any order and any number of times: the newest `as_of` counts. One that contradicts what is known gets a
    409."""
    bought = new.bought()
    subscription = new.subscription
    snapshot = feeding.Snapshot(
        bought=bought,
        as_of=new.as_of,
        app_user_id=new.app_user_id,
        transfer=new.transfer,
        tells_status=subscription is None or subscription.tells_status,
        ended_at=subscription.ended_at if subscription is not None else None,
    )
    fed = await feeding.feed(services, caller.project_id, snapshot)
    kind: Kind = "subscription" if new.subscription is not None else "purchase"
    found = await finding.by_id(services, caller.project_id, kind, fed.id)
    return reply(
        wire.SnapshotTaken(
            id=fed.id,
            outcome=fed.outcome,
            subscription=render.subscription(found) if kind == "subscription" else None,
            purchase=render.purchase(found) if kind == "purchase" else None,
            events=[EventReference(id=event.id, type=event.type) for event in fed.events],
        )
    )


@router.get("/purchases/{purchase_id}", responses=shows(wire.Purchase))
async def read_purchase(services: Provided, caller: ReadKey, purchase_id: str) -> Response:
    """One one-time purchase, whoever owns it."""
    return reply(render.purchase(await finding.by_id(services, caller.project_id, "purchase", purchase_id)))


@router.get("/purchases/{purchase_id}/entitlements", responses=shows(Page[Entitlement]))
async def list_entitlements_of_purchase(
    services: Provided, caller: ReadKey, purchase_id: str, paging: Paging
) -> Response:
    """What the purchase grants, by id."""
    found = await finding.by_id(services, caller.project_id, "purchase", purchase_id)
    return reply(render.entitlements(found, paging.limit, paging.after))


@router.post("/purchases/{purchase_id}/actions/refund", responses=shows(wire.Purchase))
@audited("customer.refunded")
async def refund_purchase(services: Provided, caller: WriteKey, purchase_id: str) -> Response:
    """Give the money back and end access at once. A real store is asked to do it: one that refunds nothing on request
    gets a 422."""
    found = await finding.by_id(services, caller.project_id, "purchase", purchase_id)
    await acting.revoke(services, acting.item_of(found.view.customer, found.bought))
    return reply(render.purchase(await finding.by_id(services, caller.project_id, "purchase", purchase_id)))


@router.get("/customers/{customer_id}/purchases", responses=shows(Page[wire.Purchase]))
async def list_purchases_of_customer(
    services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging, environment: InEnvironment = None
) -> Response:
    """The customer's one-time purchases, by id. Subscriptions are in V1, which has the whole history."""
    view = await view_of(services, caller.project_id, customer_id)
    return await _listed(services, view, "purchase", environment, paging.limit, paging.after)


@router.get("/customers/{customer_id}/subscriptions", responses=shows(Page[wire.Subscription]))
async def list_subscriptions_of_customer(
    request: Request,
    services: Provided,
    caller: ReadKey,
    customer_id: PathUserId,
    paging: Paging,
    environment: InEnvironment = None,
) -> Response:
    """The customer's subscriptions, by id. Only in the vendor's shape; otherwise there is nothing at this path."""
    if not is_vendors(request.scope[SCOPE_KEY]):
        raise NoSuchPath()
    view = await view_of(services, caller.project_id, customer_id)
    return await _listed(services, view, "subscription", environment, paging.limit, paging.after)


async def _listed(
    services: Services, view: View, kind: Kind, environment: str | None, limit: int, starting_after: str | None
) -> Response:
    found = await finding.of_customer(
        services, view, kind, Environment(environment.upper()) if environment is not None else None
    )
    return reply(
        page(
            [render.purchase(one) if kind == "purchase" else render.subscription(one) for one in found],
            lambda item: item.id,
            f"{customer_path(view)}/{kind}s",
            limit,
            starting_after,
            {"environment": environment} if environment is not None else None,
        )
    )


@router.get("/customers/{customer_id}/invoices", responses=shows(Page[wire.Invoice]))
async def list_invoices(services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """The invoices that stores have issued to the customer, by id: each was an INVOICE_ISSUANCE event. The App Store
    and Google Play issue none to their developers."""
    view = await view_of(services, caller.project_id, customer_id)
    return reply(render.invoices(view, await finding.invoices_of(services, view), paging.limit, paging.after))
