"""A project's one-time purchases: each by its id, by an id of its store, or of one customer; and a customer's
invoices."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import Query, Request
from starlette.responses import Response

from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.reference import Kind
from latchkey.engine.admission import Caller
from latchkey.engine.reads import CustomerView
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import Missing, NoSuchPath
from latchkey.http.exchange import SCOPE_KEY
from latchkey.http.models import Paging, PathUserId, StoreId
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided, Services
from latchkey.http.vendor_shape import is_vendors
from latchkey.subjects.catalog.wire import Entitlement
from latchkey.subjects.customers.render.customer_v2 import customer_path
from latchkey.subjects.purchases import render, wire
from latchkey.subjects.purchases.api.snapshot_bodies import NewSnapshot
from latchkey.subjects.purchases.usecases import external_snapshots, lookup, store_actions
from latchkey.subjects.test_store.wire import EventReference
from latchkey.wire.paging import page, project_path
from latchkey.wire.v2 import Page

purchases_router = Router(prefix="/v2/projects/{project_id}", tags=["V2 subscriptions and purchases"])

PurchasesIdentifier = Annotated[StoreId, Query(description="The store's id of the purchase.")]
InEnvironment = Annotated[
    Literal["production", "sandbox"] | None, Query(description="Only purchases of this environment.")
]


@purchases_router.get("/purchases", responses=shows(Page[wire.Purchase]))
async def search_purchases(
    services: Provided, caller: ReadKey, store_purchase_identifier: PurchasesIdentifier
) -> Response:
    """The one-time purchases that have this id in their store. There is no list of all purchases."""
    found = await lookup.by_store_id(services, caller.project_id, "purchase", store_purchase_identifier)
    path = project_path(caller.project_id, "purchases")
    return reply(render.whole([render.purchase(purchase) for purchase in found], path))


@purchases_router.post("/purchases", responses=shows(wire.SnapshotTaken))
@audited("purchase.fed")
async def take_snapshot(services: Provided, caller: WriteKey, new: NewSnapshot) -> Response:
    """Tell how a subscription or a one-time purchase stands in a store that Latchkey has no adapter for. Snapshots may
    come in any order and any number of times: the newest `as_of` counts. One that contradicts what is known gets a
    409."""
    subscription = new.subscription
    snapshot = external_snapshots.ExternalSnapshot(
        bought=new.bought(),
        as_of=new.as_of,
        app_user_id=new.app_user_id,
        transfer=new.transfer,
        tells_status=subscription is None or subscription.tells_status,
        ended_at=subscription.ended_at if subscription is not None else None,
    )
    fed = await external_snapshots.feed(services, caller.project_id, snapshot)
    kind: Kind = "subscription" if new.subscription is not None else "purchase"
    found = await lookup.by_id(services, caller.project_id, kind, fed.id)
    return reply(
        wire.SnapshotTaken(
            id=fed.id,
            outcome=fed.outcome,
            subscription=render.subscription(found) if kind == "subscription" else None,
            purchase=render.purchase(found) if kind == "purchase" else None,
            events=[EventReference(id=event.id, type=event.type) for event in fed.events],
        )
    )


@purchases_router.get("/purchases/{purchase_id}", responses=shows(wire.Purchase))
async def read_purchase(services: Provided, caller: ReadKey, purchase_id: str) -> Response:
    """One one-time purchase, whoever owns it."""
    return reply(render.purchase(await lookup.by_id(services, caller.project_id, "purchase", purchase_id)))


@purchases_router.get("/purchases/{purchase_id}/entitlements", responses=shows(Page[Entitlement]))
async def list_entitlements_of_purchase(
    services: Provided, caller: ReadKey, purchase_id: str, paging: Paging
) -> Response:
    """What the purchase grants, by id."""
    found = await lookup.by_id(services, caller.project_id, "purchase", purchase_id)
    return reply(render.entitlements(found, paging.limit, paging.after))


@purchases_router.post("/purchases/{purchase_id}/actions/refund", responses=shows(wire.Purchase))
@audited("customer.refunded")
async def refund_purchase(services: Provided, caller: WriteKey, purchase_id: str) -> Response:
    """Give the money back and end access at once. A real store is asked to do it: one that refunds nothing on request
    gets a 422."""
    return await _acted(services, caller, "purchase", purchase_id, store_actions.revoke)


@purchases_router.get("/customers/{customer_id}/purchases", responses=shows(Page[wire.Purchase]))
async def list_purchases_of_customer(
    services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging, environment: InEnvironment = None
) -> Response:
    """The customer's one-time purchases, by id. Subscriptions are in V1, which has the whole history."""
    view = await services.reader.view(caller.project_id, customer_id, services.now())
    return await _listed(services, view, "purchase", environment, paging.limit, paging.after)


@purchases_router.get("/customers/{customer_id}/subscriptions", responses=shows(Page[wire.Subscription]))
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
    view = await services.reader.view(caller.project_id, customer_id, services.now())
    return await _listed(services, view, "subscription", environment, paging.limit, paging.after)


async def _listed(
    services: Services, view: CustomerView, kind: Kind, environment: str | None, limit: int, starting_after: str | None
) -> Response:
    found = await lookup.of_customer(
        services, view, kind, Environment(environment.upper()) if environment is not None else None
    )
    items, path = [render.bought(purchase) for purchase in found], f"{customer_path(view)}/{kind}s"
    filters = {"environment": environment} if environment is not None else None
    return reply(page(items, lambda item: item.id, path, limit, starting_after, filters))


@purchases_router.get("/customers/{customer_id}/invoices", responses=shows(Page[wire.Invoice]))
async def list_invoices(services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """The invoices that stores have issued to the customer, by id: each was an INVOICE_ISSUANCE event. The App Store
    and Google Play issue none to their developers."""
    view = await services.reader.view(caller.project_id, customer_id, services.now())
    return reply(render.invoices(view, lookup.invoices_of(view), paging.limit, paging.after))


subscriptions_router = Router(prefix="/v2/projects/{project_id}/subscriptions", tags=["V2 subscriptions and purchases"])

SubscriptionsIdentifier = Annotated[
    StoreId, Query(description="The store's id of the subscription, or of one of its periods.")
]


@subscriptions_router.get("", responses=shows(Page[wire.Subscription]))
async def search_subscriptions(
    services: Provided, caller: ReadKey, store_subscription_identifier: SubscriptionsIdentifier
) -> Response:
    """The subscriptions that have this id in their store, or a past or present period with it. There is no list of all
    subscriptions."""
    found = await lookup.by_store_id(services, caller.project_id, "subscription", store_subscription_identifier)
    path = project_path(caller.project_id, "subscriptions")
    return reply(render.whole([render.subscription(purchase) for purchase in found], path))


@subscriptions_router.get("/{subscription_id}", responses=shows(wire.Subscription))
async def read_subscription(services: Provided, caller: ReadKey, subscription_id: str) -> Response:
    """One subscription, whoever owns it."""
    found = await lookup.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.subscription(found))


@subscriptions_router.get("/{subscription_id}/transactions", responses=shows(Page[wire.SubscriptionTransaction]))
async def list_transactions(services: Provided, caller: ReadKey, subscription_id: str) -> Response:
    """All periods of a subscription, oldest first. Not paged."""
    found = await lookup.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.transactions(found))


@subscriptions_router.get("/{subscription_id}/entitlements", responses=shows(Page[Entitlement]))
async def list_entitlements_of_subscription(
    services: Provided, caller: ReadKey, subscription_id: str, paging: Paging
) -> Response:
    """What the subscription grants while it runs, by id."""
    found = await lookup.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.entitlements(found, paging.limit, paging.after))


@subscriptions_router.get("/{subscription_id}/authenticated_management_url", responses=shows(wire.ManagementUrl))
async def read_management_url(services: Provided, caller: ReadKey, subscription_id: str) -> Response:
    """Where the buyer manages the subscription: the page of its store, which asks them to sign in. 404 if the
    store has no such page."""
    found = await lookup.by_id(services, caller.project_id, "subscription", subscription_id)
    url = render.management_url(found.bought.store)
    if url is None:
        raise Missing("The store of this subscription has no page to manage it on.", code=7226)
    return reply(wire.ManagementUrl(management_url=url))


@subscriptions_router.post("/{subscription_id}/actions/cancel", responses=shows(wire.Subscription))
@audited("customer.cancelled")
async def cancel_subscription(services: Provided, caller: WriteKey, subscription_id: str) -> Response:
    """Turn renewal off; access stays until the end of the period. A real store is asked to do it: one that lets only
    the buyer cancel gets a 422."""
    return await _acted(services, caller, "subscription", subscription_id, store_actions.cancel)


@subscriptions_router.post("/{subscription_id}/actions/refund", responses=shows(wire.Subscription))
@audited("customer.refunded")
async def refund_subscription(services: Provided, caller: WriteKey, subscription_id: str) -> Response:
    """Give the last payment back and end access at once; a promotional grant only ends. A real store is asked to do it:
    one that refunds nothing on request gets a 422."""
    return await _acted(services, caller, "subscription", subscription_id, store_actions.revoke)


@subscriptions_router.post(
    "/{subscription_id}/transactions/{transaction_id}/actions/refund", responses=shows(wire.SubscriptionTransaction)
)
@audited("customer.refunded")
async def refund_transaction(
    services: Provided, caller: WriteKey, subscription_id: str, transaction_id: str
) -> Response:
    """Give the money of one transaction back; access and renewal stay as they are. In the test store the running period
    cannot be refunded so: its refund ends access."""
    found = await lookup.by_id(services, caller.project_id, "subscription", subscription_id)
    if render.transaction(found, transaction_id) is None:
        raise Missing(f"The subscription has no transaction {transaction_id!r}.", param="transaction_id", code=7226)
    item = store_actions.item_of(found.view.customer, found.bought, transaction_id)
    await store_actions.refund(services, item, ends_access=False)
    after = await lookup.by_id(services, caller.project_id, "subscription", subscription_id)
    return reply(render.transaction(after, transaction_id))


async def _acted(
    services: Services,
    caller: Caller,
    kind: Kind,
    id: str,
    act: Callable[[Services, store_actions.ActionItem], Awaitable[None]],
) -> Response:
    """What was bought, read again after the action."""
    found = await lookup.by_id(services, caller.project_id, kind, id)
    await act(services, store_actions.item_of(found.view.customer, found.bought))
    return reply(render.bought(await lookup.by_id(services, caller.project_id, kind, id)))
