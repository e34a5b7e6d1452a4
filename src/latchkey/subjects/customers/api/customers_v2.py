"""V2 customers: the list, one customer and its lists, actions, attributes and the offering assigned to it."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from fastapi import Query, Request
from pydantic import AfterValidator, Field

from latchkey.domain.customers.customer import MAX_NAME, MAX_VALUE, problem_with_attribute
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey, documented
from latchkey.http.errors import InvalidParameter
from latchkey.http.exchange import READS_KEY, SCOPE_KEY
from latchkey.http.hot_reads import V2_ROUTE
from latchkey.http.models import AnyId, AppUserId, Body, Instant, Paging, PathUserId, without_nul
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.customers.render import customer_v2
from latchkey.subjects.customers.rules.explanation import explain
from latchkey.subjects.customers.usecases import edits, identities
from latchkey.subjects.customers.wire import Alias, Deleted, Explanation, Transferred
from latchkey.subjects.offerings.usecases import assign_offering, clear_offering
from latchkey.subjects.test_clocks.usecases import create_customer
from latchkey.wire import paging as wire_paging
from latchkey.wire import v2
from latchkey.wire.attributes import from_attributes

customers_router = Router(tags=["V2 customers"])

Expand = Annotated[
    list[str] | None, Query(alias="expand", description="`attributes` is always there, asked for or not.")
]


@customers_router.get(V2_ROUTE, responses=shows(v2.Customer), dependencies=[documented])
async def read_customer(request: Request, project_id: str, customer_id: PathUserId, _: Expand = None) -> Response:
    """The customer with this id or alias, with the first page of each of its lists."""
    status, body = await request.scope[READS_KEY].customer(request.scope[SCOPE_KEY], project_id, customer_id)
    return Response(body, status, media_type="application/json")


@customers_router.get(f"{V2_ROUTE}/active_entitlements", responses=shows(v2.Page[v2.ActiveEntitlement]))
async def list_active_entitlements(call: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """The customer's active entitlements."""
    return reply(customer_v2.active_entitlements(await call.customer(customer_id), paging.limit, paging.after))


@customers_router.get(f"{V2_ROUTE}/attributes", responses=shows(v2.Page[v2.Attribute]))
async def list_attributes(call: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """The customer's attributes."""
    return reply(customer_v2.attributes(await call.customer(customer_id), paging.limit, paging.after))


_Address = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(without_nul)]
Search = Annotated[_Address | None, Query(description="A whole e-mail address, in any case.")]


@customers_router.get("/v2/projects/{project_id}/customers", responses=shows(v2.Page[v2.ListedCustomer]))
async def list_customers(call: ReadKey, paging: Paging, search: Search = None) -> Response:
    """The project's customers by id, each with its own fields; read one to see its entitlements. `search` is a whole
    e-mail address: only customers with this `$email` are listed."""
    found = await call.run(edits.list_customers, after=paging.after, limit=paging.limit + 1, email=search)
    return reply(paging.of(found, filters={"search": search} if search is not None else None))


customer_actions_router = Router(prefix="/v2/projects/{project_id}/customers", tags=["V2 customers"])

MOST_ATTRIBUTES = 50


class AttributeChange(Body):
    """Null deletes the attribute."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    value: Annotated[str, Field(max_length=MAX_VALUE)] | None


NewAttributes: TypeAlias = list[AttributeChange]


class AttributeChanges(Body):
    attributes: NewAttributes = Field(min_length=1, max_length=MOST_ATTRIBUTES)


@customer_actions_router.acts("/{customer_id}/attributes", v2.Page[v2.Attribute], "customer.attributes_set")
async def set_attributes(call: WriteKey, customer_id: PathUserId, changes: AttributeChanges) -> Response:
    """Set attributes now: all of them, or none. Null deletes one. The reply is the first page of all attributes."""
    values = checked(changes.attributes)
    done = await edits.put_attributes(call.changes, call.project_id, customer_id, values)
    return reply(customer_v2.attributes(done.view(call.now()), wire_paging.DEFAULT_LIMIT, None))


def checked(attributes: Sequence[AttributeChange]) -> dict[str, str | None]:
    """The values by name, or one error that names every attribute that cannot be kept."""
    problems = [
        f"{attribute.name!r}: {problem}"
        for attribute in attributes
        if (problem := problem_with_attribute(attribute.name, attribute.value)) is not None
    ]
    named = Counter(attribute.name for attribute in attributes)
    problems += [f"{name!r}: It is there {times} times." for name, times in named.items() if times > 1]
    if problems:
        raise InvalidParameter(
            f"Some attributes cannot be stored; none was saved. {' '.join(problems)}", param="attributes"
        )
    return {attribute.name: attribute.value for attribute in attributes}


Name = Annotated[str, Field(min_length=1, max_length=200)]


class NewCustomer(Body):
    id: AppUserId
    attributes: NewAttributes = Field(default_factory=list, max_length=MOST_ATTRIBUTES)
    test_clock_id: Name | None = None


class TransferRequest(Body):
    """With `app_ids`, only the purchases that were made in one of these apps."""

    target_customer_id: AppUserId
    app_ids: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None


class NewGrant(Body):
    """Until `expires_at`, or for ever if it is null or omitted."""

    entitlement_id: Name
    expires_at: Instant | None = None


class EntitlementName(Body):
    entitlement_id: Name


@customer_actions_router.creates("", v2.Customer, "customer.created")
async def create(call: WriteKey, new: NewCustomer) -> Response:
    """Create a customer, with attributes, and on a test clock if one is given."""
    values = checked(new.attributes)
    await create_customer(call.changes, call.project_id, new.id, new.test_clock_id, values)
    return reply(customer_v2.customer(await call.customer(new.id)), 201)


@customer_actions_router.deletes("/{customer_id}", Deleted, "customer.deleted", erases=True)
async def delete(call: WriteKey, customer_id: PathUserId) -> Response:
    """Erase the person; sales stay in the charts under a pseudonym."""
    await edits.erase(call.changes, call.project_id, customer_id)
    return reply(Deleted(object="customer", id=customer_id, deleted_at=call.now()))


@customer_actions_router.acts("/{customer_id}/actions/transfer", Transferred, "customer.transferred")
async def transfer_purchases(call: WriteKey, customer_id: PathUserId, new: TransferRequest) -> Response:
    """Transfer the purchases of this customer to another one, who gets a TRANSFER event. With `app_ids`, only those
    made in these apps; grants have no app and stay."""
    project_id = call.project_id
    await identities.transfer(call.changes, project_id, customer_id, new.target_customer_id, new.app_ids)
    source = await call.services.reader.view(project_id, customer_id, call.now())
    target = await call.services.reader.view(project_id, new.target_customer_id, call.now())
    return reply(
        Transferred(source_customer=customer_v2.customer(source), target_customer=customer_v2.customer(target))
    )


@customer_actions_router.creates("/{customer_id}/actions/grant_entitlement", v2.Customer, "customer.granted")
async def grant_entitlement(call: WriteKey, customer_id: PathUserId, new: NewGrant) -> Response:
    """Grant an entitlement until a given time, or for ever."""
    await edits.grant(call.changes, call.project_id, customer_id, new.entitlement_id, ends_at=new.expires_at)
    return reply(customer_v2.customer(await call.customer(customer_id)), 201)


@customer_actions_router.acts(
    "/{customer_id}/actions/revoke_granted_entitlement", v2.Customer, "customer.grant_revoked"
)
async def revoke_granted_entitlement(call: WriteKey, customer_id: PathUserId, new: EntitlementName) -> Response:
    """End every active grant of an entitlement; purchases are not affected."""
    await edits.revoke(call.changes, call.project_id, customer_id, new.entitlement_id)
    return reply(customer_v2.customer(await call.customer(customer_id)))


@customer_actions_router.get("/{customer_id}/aliases", responses=shows(v2.Page[Alias]))
async def list_aliases(call: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """All ids of this customer, and since when it has each of them."""
    view = await call.customer(customer_id)
    found = await call.run(identities.list_aliases, view.key)
    items = [from_attributes(Alias, alias) for alias in found]
    path = f"{customer_v2.customer_path(view)}/aliases"
    return reply(wire_paging.page(items, lambda item: item.id, path, paging.limit, paging.after))


@customer_actions_router.get("/{customer_id}/entitlements/{entitlement_id}/explanation", responses=shows(Explanation))
async def explain_entitlement(call: ReadKey, customer_id: PathUserId, entitlement_id: str) -> Response:
    """Why this customer has, or lacks, an entitlement: since when, until when, by what, and what would change it."""
    view = await call.customer(customer_id)
    found = explain(view.customer, view.catalog, entitlement_id, view.now)
    return reply(from_attributes(Explanation, found, customer_id=view.customer.app_user_id))


class Assignment(Body):
    """Null: the customer sees the current offering again."""

    offering_id: AnyId | None


@customer_actions_router.post(
    "/{customer_id}/actions/assign_offering", responses={200: {"description": "Done. There is no body."}}
)
@audited("customer.offering_assigned")
async def assign(call: WriteKey, customer_id: PathUserId, new: Assignment) -> Response:
    """Show this offering to the customer as the current one."""
    if new.offering_id is None:
        await clear_offering(call.changes, call.project_id, customer_id)
    else:
        await assign_offering(call.changes, call.project_id, customer_id, new.offering_id)
    return Response()
