"""A project's one-time purchases: each by its id, by an id of its store, or of one customer; and a customer's
invoices."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import Query

from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.reference import Kind
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.errors import Missing, NoSuchPath
from latchkey.http.models import PageRequest, Paging, PathUserId, StoreId
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.services import Services
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
async def search_purchases(call: ReadKey, store_purchase_identifier: PurchasesIdentifier) -> Response:
    """The one-time purchases that have this id in their store. There is no list of all purchases."""
    found = await lookup.by_store_id(call.services, call.project_id, "purchase", store_purchase_identifier)
    path = project_path(call.project_id, "purchases")
    return reply(render.whole([render.purchase(purchase) for purchase in found], path))


@purchases_router.acts("/purchases", wire.SnapshotTaken, "purchase.fed")
async def take_snapshot(call: WriteKey, new: NewSnapshot) -> Response:
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
    fed = await external_snapshots.feed(call.services, call.project_id, snapshot)
    kind: Kind = "subscription" if new.subscription is not None else "purchase"
    found = await lookup.by_id(call.services, call.project_id, kind, fed.id)
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
async def read_purchase(call: ReadKey, purchase_id: str) -> Response:
    """One one-time purchase, whoever owns it."""
    return reply(render.purchase(await lookup.by_id(call.services, call.project_id, "purchase", purchase_id)))


@purchases_router.get("/purchases/{purchase_id}/entitlements", responses=shows(Page[Entitlement]))
async def list_entitlements_of_purchase(call: ReadKey, purchase_id: str, paging: Paging) -> Response:
    """What the purchase grants, by id."""
    found = await lookup.by_id(call.services, call.project_id, "purchase", purchase_id)
    return reply(render.entitlements(found, paging.limit, paging.after))


@purchases_router.acts("/purchases/{purchase_id}/actions/refund", wire.Purchase, "customer.refunded")
async def refund_purchase(call: WriteKey, purchase_id: str) -> Response:
    """Give the money back and end access at once. A real store is asked to do it: one that refunds nothing on request
    gets a 422."""
    return await _acted(call, "purchase", purchase_id, store_actions.revoke)


@purchases_router.get("/customers/{customer_id}/purchases", responses=shows(Page[wire.Purchase]))
async def list_purchases_of_customer(
    call: ReadKey, customer_id: PathUserId, paging: Paging, environment: InEnvironment = None
) -> Response:
    """The customer's one-time purchases, by id. Subscriptions are in V1, which has the whole history."""
    return await _listed(call, customer_id, "purchase", environment, paging)


@purchases_router.get("/customers/{customer_id}/subscriptions", responses=shows(Page[wire.Subscription]))
async def list_subscriptions_of_customer(
    call: ReadKey, customer_id: PathUserId, paging: Paging, environment: InEnvironment = None
) -> Response:
    """The customer's subscriptions, by id. Only in the vendor's shape; otherwise there is nothing at this path."""
    if not is_vendors(call.exchange):
        raise NoSuchPath()
    return await _listed(call, customer_id, "subscription", environment, paging)


async def _listed(call: Call, customer_id: str, kind: Kind, environment: str | None, paging: PageRequest) -> Response:
    view = await call.customer(customer_id)
    found = await lookup.of_customer(
        call.services, view, kind, Environment(environment.upper()) if environment is not None else None
    )
    items, path = [render.bought(purchase) for purchase in found], f"{customer_path(view)}/{kind}s"
    filters = {"environment": environment} if environment is not None else None
    return reply(page(items, lambda item: item.id, path, paging.limit, paging.after, filters))


@purchases_router.get("/customers/{customer_id}/invoices", responses=shows(Page[wire.Invoice]))
async def list_invoices(call: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """The invoices that stores have issued to the customer, by id: each was an INVOICE_ISSUANCE event. The App Store
    and Google Play issue none to their developers."""
    view = await call.customer(customer_id)
    return reply(render.invoices(view, lookup.invoices_of(view), paging.limit, paging.after))


subscriptions_router = Router(prefix="/v2/projects/{project_id}/subscriptions", tags=["V2 subscriptions and purchases"])

SubscriptionsIdentifier = Annotated[
    StoreId, Query(description="The store's id of the subscription, or of one of its periods.")
]


@subscriptions_router.get("", responses=shows(Page[wire.Subscription]))
async def search_subscriptions(call: ReadKey, store_subscription_identifier: SubscriptionsIdentifier) -> Response:
    """The subscriptions that have this id in their store, or a past or present period with it. There is no list of all
    subscriptions."""
    found = await lookup.by_store_id(call.services, call.project_id, "subscription", store_subscription_identifier)
    path = project_path(call.project_id, "subscriptions")
    return reply(render.whole([render.subscription(purchase) for purchase in found], path))


@subscriptions_router.get("/{subscription_id}", responses=shows(wire.Subscription))
async def read_subscription(call: ReadKey, subscription_id: str) -> Response:
    """One subscription, whoever owns it."""
    found = await lookup.by_id(call.services, call.project_id, "subscription", subscription_id)
    return reply(render.subscription(found))


@subscriptions_router.get("/{subscription_id}/transactions", responses=shows(Page[wire.SubscriptionTransaction]))
async def list_transactions(call: ReadKey, subscription_id: str) -> Response:
    """All periods of a subscription, oldest first. Not paged."""
    found = await lookup.by_id(call.services, call.project_id, "subscription", subscription_id)
    return reply(render.transactions(found))


@subscriptions_router.get("/{subscription_id}/entitlements", responses=shows(Page[Entitlement]))
async def list_entitlements_of_subscription(call: ReadKey, subscription_id: str, paging: Paging) -> Response:
    """What the subscription grants while it runs, by id."""
    found = await lookup.by_id(call.services, call.project_id, "subscription", subscription_id)
    return reply(render.entitlements(found, paging.limit, paging.after))


@subscriptions_router.get("/{subscription_id}/authenticated_management_url", responses=shows(wire.ManagementUrl))
async def read_management_url(call: ReadKey, subscription_id: str) -> Response:
    """Where the buyer manages the subscription: the page of its store, which asks them to sign in. 404 if the
    store has no such page."""
    found = await lookup.by_id(call.services, call.project_id, "subscription", subscription_id)
    url = render.management_url(found.bought.store)
    if url is None:
        raise Missing("The store of this subscription has no page to manage it on.", code=7226)
    return reply(wire.ManagementUrl(management_url=url))


@subscriptions_router.acts("/{subscription_id}/actions/cancel", wire.Subscription, "customer.cancelled")
async def cancel_subscription(call: WriteKey, subscription_id: str) -> Response:
    """Turn renewal off; access stays until the end of the period. A real store is asked to do it: one that lets only
    the buyer cancel gets a 422."""
    return await _acted(call, "subscription", subscription_id, store_actions.cancel)


@subscriptions_router.acts("/{subscription_id}/actions/refund", wire.Subscription, "customer.refunded")
async def refund_subscription(call: WriteKey, subscription_id: str) -> Response:
    """Give the last payment back and end access at once; a promotional grant only ends. A real store is asked to do it:
    one that refunds nothing on request gets a 422."""
    return await _acted(call, "subscription", subscription_id, store_actions.revoke)


@subscriptions_router.acts(
    "/{subscription_id}/transactions/{transaction_id}/actions/refund", wire.SubscriptionTransaction, "customer.refunded"
)
async def refund_transaction(call: WriteKey, subscription_id: str, transaction_id: str) -> Response:
    """Give the money of one transaction back; access and renewal stay as they are. In the test store the running period
    cannot be refunded so: its refund ends access."""
    found = await lookup.by_id(call.services, call.project_id, "subscription", subscription_id)
    if render.transaction(found, transaction_id) is None:
        raise Missing(f"The subscription has no transaction {transaction_id!r}.", param="transaction_id", code=7226)
    item = store_actions.item_of(found.view.customer, found.bought, transaction_id)
    await store_actions.refund(call.services, item, ends_access=False)
    after = await lookup.by_id(call.services, call.project_id, "subscription", subscription_id)
    return reply(render.transaction(after, transaction_id))


async def _acted(
    call: Call, kind: Kind, id: str, act: Callable[[Services, store_actions.ActionItem], Awaitable[None]]
) -> Response:
    """What was bought, read again after the action."""
    found = await lookup.by_id(call.services, call.project_id, kind, id)
    await act(call.services, store_actions.item_of(found.view.customer, found.bought))
    return reply(render.bought(await lookup.by_id(call.services, call.project_id, kind, id)))
