"""Actions on a customer, its attributes and the offering assigned to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import InvalidParameter
from latchkey.api.models import AnyId, AppUserId, Body, Instant, Paging, PathUserId
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.v2.customers import view_of
from latchkey.domain.access.explanation import explain
from latchkey.domain.customers.customer import MAX_NAME, MAX_VALUE, problem_with_attribute
from latchkey.usecases.catalog.overrides import assign_offering, clear_offering
from latchkey.usecases.customers import grants, listing
from latchkey.usecases.customers.attributes import put_attributes
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import transfer
from latchkey.usecases.rendering import v2 as render
from latchkey.usecases.sandbox.clocks import create_customer
from latchkey.wire import v2
from latchkey.wire.actions import Alias, Deleted, Explanation, Transferred

router = Router(prefix="/v2/projects/{project_id}/customers", tags=["V2 customers"])

MOST_ATTRIBUTES = 50


class NewAttribute(Body):
    """Null deletes the attribute."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    value: Annotated[str, Field(max_length=MAX_VALUE)] | None


NewAttributes: TypeAlias = list[NewAttribute]


class AttributeChanges(Body):
    attributes: NewAttributes = Field(min_length=1, max_length=MOST_ATTRIBUTES)


@router.post("/{customer_id}/attributes", responses=shows(v2.Page[v2.Attribute]))
@audited("customer.attributes_set")
async def set_attributes(
    services: Provided, caller: WriteKey, customer_id: PathUserId, changes: AttributeChanges
) -> Response:
    """Set attributes now: all of them, or none. Null deletes one. The reply is the first page of all attributes."""
    values = checked(changes.attributes)
    done = await put_attributes(services.changes, caller.project_id, customer_id, values)
    return reply(render.attributes(done.view(services.now()), render.DEFAULT_LIMIT, None))


def checked(attributes: Sequence[NewAttribute]) -> dict[str, str | None]:
    """The values by name, or one error that names every attribute that cannot be kept."""
    problems = [
        f"{one.name!r}: {problem}"
        for one in attributes
        if (problem := problem_with_attribute(one.name, one.value)) is not None
    ]
    named = Counter(one.name for one in attributes)
    problems += [f"{name!r}: It is there {times} times." for name, times in named.items() if times > 1]
    if problems:
        raise InvalidParameter(
            f"Some attributes cannot be stored; none was saved. {' '.join(problems)}", param="attributes"
        )
    return {one.name: one.value for one in attributes}


Name = Annotated[str, Field(min_length=1, max_length=200)]


class NewCustomer(Body):
    id: AppUserId
    attributes: NewAttributes = Field(default_factory=list, max_length=MOST_ATTRIBUTES)
    test_clock_id: Name | None = None


class Target(Body):
    """With `app_ids`, only the purchases that were made in one of these apps."""

    target_customer_id: AppUserId
    app_ids: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None


class NewGrant(Body):
    """Until `expires_at`, or for ever if it is null or omitted."""

    entitlement_id: Name
    expires_at: Instant | None = None


class EntitlementName(Body):
    entitlement_id: Name


@router.post("", responses=shows(v2.Customer, 201), status_code=201)
@audited("customer.created")
async def create(services: Provided, caller: WriteKey, new: NewCustomer) -> Response:
    """Create a customer, with attributes, and on a test clock if one is given."""
    values = checked(new.attributes)
    await create_customer(services.changes, caller.project_id, new.id, new.test_clock_id, values)
    return reply(render.customer(await view_of(services, caller.project_id, new.id)), 201)


@router.delete("/{customer_id}", responses=shows(Deleted))
@audited("customer.deleted", erases=True)
async def delete(services: Provided, caller: WriteKey, customer_id: PathUserId) -> Response:
    """Erase the person; sales stay in the charts under a pseudonym."""
    await erase(services.changes, caller.project_id, customer_id)
    return reply(Deleted(object="customer", id=customer_id, deleted_at=services.now()))


@router.post("/{customer_id}/actions/transfer", responses=shows(Transferred))
@audited("customer.transferred")
async def transfer_purchases(services: Provided, caller: WriteKey, customer_id: PathUserId, new: Target) -> Response:
    """Transfer the purchases of this customer to another one, who gets a TRANSFER event. With `app_ids`, only those
    made in these apps; grants have no app and stay."""
    project_id = caller.project_id
    await transfer(services.changes, project_id, customer_id, new.target_customer_id, new.app_ids)
    return reply(
        Transferred(
            source_customer=render.customer(await view_of(services, project_id, customer_id)),
            target_customer=render.customer(await view_of(services, project_id, new.target_customer_id)),
        )
    )


@router.post(
    "/{customer_id}/actions/grant_entitlement",
    responses=shows(v2.Customer, 201),
    status_code=201,
    response_class=Response,
)
@audited("customer.granted")
async def grant_entitlement(services: Provided, caller: WriteKey, customer_id: PathUserId, new: NewGrant) -> Response:
    """Grant an entitlement until a given time, or for ever."""
    await grants.grant(services.changes, caller.project_id, customer_id, new.entitlement_id, ends_at=new.expires_at)
    return reply(render.customer(await view_of(services, caller.project_id, customer_id)), 201)


@router.post("/{customer_id}/actions/revoke_granted_entitlement", responses=shows(v2.Customer))
@audited("customer.grant_revoked")
async def revoke_granted_entitlement(
    services: Provided, caller: WriteKey, customer_id: PathUserId, new: EntitlementName
) -> Response:
    """End every active grant of an entitlement; purchases are not affected."""
    await grants.revoke(services.changes, caller.project_id, customer_id, new.entitlement_id)
    return reply(render.customer(await view_of(services, caller.project_id, customer_id)))


@router.get("/{customer_id}/aliases", responses=shows(v2.Page[Alias]))
async def list_aliases(services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """All ids of this customer, and since when it has each of them."""
    view = await view_of(services, caller.project_id, customer_id)
    found = await listing.list_aliases(services.database, caller.project_id, view.key)
    items = [Alias(id=one.app_user_id, created_at=one.created_at) for one in found]
    return reply(
        render.page(items, lambda item: item.id, f"{render.customer_path(view)}/aliases", paging.limit, paging.after)
    )


@router.get(
    "/{customer_id}/entitlements/{entitlement_id}/explanation",
    responses=shows(Explanation),
    response_class=Response,
)
async def explain_entitlement(
    services: Provided, caller: ReadKey, customer_id: PathUserId, entitlement_id: str
) -> Response:
    """Why this customer has, or lacks, an entitlement: since when, until when, by what, and what would change it."""
    view = await view_of(services, caller.project_id, customer_id)
    found = explain(view.customer, view.catalog, entitlement_id, view.now)
    return reply(
        Explanation(
            customer_id=view.customer.app_user_id,
            entitlement_id=found.entitlement_id,
            has_access=found.has_access,
            reason=found.reason,
            since=found.since,
            until=found.until,
            product_id=found.product_id,
            store=found.store,
            transaction_id=found.transaction_id,
            renews=found.renews,
            granting_products=list(found.granting_products),
            would_change=list(found.would_change),
            sentence=found.sentence,
        )
    )


class Assignment(Body):
    """Null: the customer sees the current offering again."""

    offering_id: AnyId | None


@router.post(
    "/{customer_id}/actions/assign_offering",
    responses={200: {"description": "Done. There is no body."}},
    response_class=Response,
)
@audited("customer.offering_assigned")
async def assign(services: Provided, caller: WriteKey, customer_id: PathUserId, new: Assignment) -> Response:
    """Show this offering to the customer as the current one."""
    if new.offering_id is None:
        await clear_offering(services.changes, caller.project_id, customer_id)
    else:
        await assign_offering(services.changes, caller.project_id, customer_id, new.offering_id)
    return Response()
