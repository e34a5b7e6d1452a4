"""Grants, revocations and extensions by the operator."""

from typing import Annotated

from fastapi import Request
from pydantic import ConfigDict, Field

from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.domain.instants import DAY
from latchkey.http.authentication import AppReadKey, AppWriteKey, AttributesKey, SecretWriteKey, documented
from latchkey.http.errors import BadRequest, InvalidParameter
from latchkey.http.exchange import READS_KEY, SCOPE_KEY
from latchkey.http.hot_reads import V1_ROUTE, subscriber, subscriber_reply, view_of_reply
from latchkey.http.models import AppBody, AppUserId, Body, GrantLength, Instant, PathUserId, any_of, one_of
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.shared_bodies import NewAttributes, left_out, sorted_out
from latchkey.stores import adapter
from latchkey.subjects.currencies.usecases import balances
from latchkey.subjects.currencies.wire import V1Currencies, V1Currency
from latchkey.subjects.customers.usecases import edits
from latchkey.subjects.customers.usecases.identities import join, log_in
from latchkey.subjects.customers.wire import V1Deleted
from latchkey.subjects.purchases.usecases import store_actions
from latchkey.wire.attributes import from_attributes
from latchkey.wire.v1 import AttributesSaved, SubscriberResponse

access_router = Router(prefix="/v1/subscribers/{app_user_id}", tags=["V1 subscribers"])


class NewPromotional(Body):
    """A duration, or the end time. If both are sent, the end time counts."""

    model_config = ConfigDict(json_schema_extra=any_of(duration="string", end_time_ms="integer"))

    duration: GrantLength | None = None
    end_time_ms: Instant | None = None
    # The duration counts from here. The grant itself begins now.
    start_time_ms: Instant | None = None


class NewEnd(Body):
    """Either the new end, or the number of days to add."""

    model_config = ConfigDict(json_schema_extra=one_of(expiry_time_ms="integer", extend_by_days="integer"))

    expiry_time_ms: Instant | None = None
    extend_by_days: Annotated[int, Field(ge=1, le=3650)] | None = None


@access_router.creates("/entitlements/{entitlement_id}/promotional", SubscriberResponse, "customer.granted")
async def grant_promotional(
    call: SecretWriteKey, app_user_id: PathUserId, entitlement_id: str, new: NewPromotional
) -> Response:
    """Grant an entitlement for a while, or for ever. An unknown user is created."""
    if new.duration is None and new.end_time_ms is None:
        raise InvalidParameter("Send duration or end_time_ms.", param="duration")
    await edits.grant(
        call.changes,
        call.project_id,
        app_user_id,
        entitlement_id,
        ends_at=new.end_time_ms,
        duration=new.duration if new.end_time_ms is None else None,
        counted_from=new.start_time_ms,
        create=True,
    )
    return await subscriber_reply(call, app_user_id, 201)


@access_router.acts("/entitlements/{entitlement_id}/revoke_promotionals", SubscriberResponse, "customer.grant_revoked")
async def revoke_promotionals(call: SecretWriteKey, app_user_id: PathUserId, entitlement_id: str) -> Response:
    """End every active grant of an entitlement; purchases are not affected."""
    await edits.revoke(call.changes, call.project_id, app_user_id, entitlement_id)
    return await subscriber_reply(call, app_user_id)


@access_router.acts("/subscriptions/{product_id}/revoke", SubscriberResponse, "customer.refunded")
async def revoke_subscription(call: SecretWriteKey, app_user_id: PathUserId, product_id: str) -> Response:
    """Refund the current period and end access at once. A real store is asked to do it: one that refunds nothing on
    request gets a 422."""
    view = await view_of_reply(call, app_user_id)
    await store_actions.revoke(call.services, store_actions.by_product(view.customer, product_id))
    return await subscriber_reply(call, app_user_id)


@access_router.acts("/subscriptions/{product_id}/defer", SubscriberResponse, "customer.extended")
async def defer_subscription(call: SecretWriteKey, app_user_id: PathUserId, product_id: str, new: NewEnd) -> Response:
    """Move the end of an active subscription to a later time, free of charge. A real store is asked to do it."""
    if (new.expiry_time_ms is None) == (new.extend_by_days is None):
        raise InvalidParameter("Send either expiry_time_ms or extend_by_days.", param="expiry_time_ms")
    view = await view_of_reply(call, app_user_id)
    by = new.extend_by_days * DAY if new.extend_by_days is not None else None
    extension = adapter.Extension(by=by, until=new.expiry_time_ms)
    await store_actions.extend(call.services, store_actions.by_product(view.customer, product_id), extension)
    return await subscriber_reply(call, app_user_id)


attributes_router = Router(tags=["V1 subscribers"])


@attributes_router.post("/v1/subscribers/{app_user_id}/attributes", responses=shows(AttributesSaved))
async def post_attributes(call: AttributesKey, app_user_id: PathUserId, new: NewAttributes) -> Response:
    """Set attributes; of two values the newer `updated_at_ms` wins, and null or an empty one deletes. The valid ones
    are saved also if others are not: the SDKs never send an attribute again after a 4xx. Then the reply is 400 with
    code 7263, and `attribute_errors` names those that were not saved."""
    good, problems = sorted_out(new.attributes, call.now())
    saved = None
    if good or not problems:
        saved = await edits.set_attributes(call.changes, call.project_id, app_user_id, good, create=True)
        problems += left_out(good, saved.customer)
    if saved is None or problems:
        raise BadRequest(
            "Some attributes cannot be stored; the others were saved.",
            code=7263,
            type="parameter_error",
            param="attributes",
            attribute_errors=problems,
        )
    body = subscriber(call, saved.view(call.now()))
    return reply(from_attributes(AttributesSaved, body, attribute_errors=[]))


subscribers_router = Router(tags=["V1 subscribers"])


@subscribers_router.get(
    V1_ROUTE, responses=shows(SubscriberResponse) | shows(SubscriberResponse, 201, "Created"), dependencies=[documented]
)
async def read_subscriber(request: Request, app_user_id: PathUserId) -> Response:
    """The subscriber with this id or alias. An unknown id is created, with any key that may read."""
    status, body = await request.scope[READS_KEY].subscriber(request.scope[SCOPE_KEY], app_user_id)
    return Response(body, status, media_type="application/json")


@subscribers_router.get("/v1/subscribers/{app_user_id}/virtual_currencies", responses=shows(V1Currencies))
async def read_virtual_currencies(call: AppReadKey, app_user_id: PathUserId) -> Response:
    """Every currency of the project with this subscriber's balance. To an app's key, an unknown subscriber has 0, and
    a balance above 2,147,483,647 is shown as that."""
    # An app may ask this before anything else about a new user.
    held = await balances(call.changes, call.project_id, app_user_id, unknown_has_none=call.caller.is_public)
    # The Android SDK reads 32 bits, and takes the whole reply for broken if one balance has more.
    most = 2**31 - 1 if call.caller.is_public else MAX_BALANCE
    currencies = {one.code: from_attributes(V1Currency, one, balance=min(one.balance, most)) for one in held}
    return reply(V1Currencies(virtual_currencies=currencies))


class LogInRequest(AppBody):
    app_user_id: AppUserId
    new_app_user_id: AppUserId


class NewAlias(AppBody):
    """The SDK also sends `app_user_id`, the id of the path; it is ignored."""

    new_app_user_id: AppUserId


@subscribers_router.post(
    "/v1/subscribers/identify",
    responses=shows(SubscriberResponse) | shows(SubscriberResponse, 201, "The new id was created"),
)
async def identify(call: AppWriteKey, new: LogInRequest) -> Response:
    """The app's user signed in. An anonymous user becomes the new id, unless that would merge two different people."""
    logged_in = await log_in(call.changes, call.project_id, new.app_user_id, new.new_app_user_id)
    status = 201 if logged_in.created else 200
    return await subscriber_reply(call, new.new_app_user_id, status)


@subscribers_router.post("/v1/subscribers/{app_user_id}/alias", responses=shows(SubscriberResponse))
async def alias(call: AppWriteKey, app_user_id: PathUserId, new: NewAlias) -> Response:
    """Join an anonymous user, found again on a new device, to the id that the app uses there. Only anonymous users can
    be joined; whoever knows their random id is taken for the same person."""
    await join(call.changes, call.project_id, app_user_id, new.new_app_user_id)
    return await subscriber_reply(call, new.new_app_user_id)


@subscribers_router.deletes("/v1/subscribers/{app_user_id}", V1Deleted, "customer.deleted", erases=True)
async def delete_subscriber(call: SecretWriteKey, app_user_id: PathUserId) -> Response:
    """Erase the person; sales stay in the charts under a pseudonym."""
    await edits.erase(call.changes, call.project_id, app_user_id)
    return reply(V1Deleted(app_user_id=app_user_id, deleted=True))
