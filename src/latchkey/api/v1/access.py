"""Grants, revocations and extensions by the operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import SecretWriteKey
from latchkey.api.errors import InvalidParameter
from latchkey.api.models import Body, GrantLength, Instant, PathUserId, any_of, one_of
from latchkey.api.routing import Router, shows
from latchkey.api.services import Provided
from latchkey.api.v1.reply import subscriber_reply, view_of
from latchkey.domain.instants import DAY
from latchkey.usecases.customers import grants
from latchkey.usecases.ledger import acting
from latchkey.wire.v1 import SubscriberResponse

router = Router(prefix="/v1/subscribers/{app_user_id}", tags=["V1 subscribers"])


class NewGrant(Body):
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


@router.post(
    "/entitlements/{entitlement_id}/promotional",
    responses=shows(SubscriberResponse, 201),
    status_code=201,
    response_class=Response,
)
@audited("customer.granted")
async def grant_promotional(
    request: Request,
    services: Provided,
    caller: SecretWriteKey,
    app_user_id: PathUserId,
    entitlement_id: str,
    new: NewGrant,
) -> Response:
    """Grant an entitlement for a while, or for ever. An unknown user is created."""
    if new.duration is None and new.end_time_ms is None:
        raise InvalidParameter("Send duration or end_time_ms.", param="duration")
    await grants.grant(
        services.changes,
        caller.project_id,
        app_user_id,
        entitlement_id,
        ends_at=new.end_time_ms,
        duration=new.duration if new.end_time_ms is None else None,
        counted_from=new.start_time_ms,
        create=True,
    )
    return await subscriber_reply(request, services, caller, app_user_id, 201)


@router.post(
    "/entitlements/{entitlement_id}/revoke_promotionals",
    responses=shows(SubscriberResponse),
    response_class=Response,
)
@audited("customer.grant_revoked")
async def revoke_promotionals(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId, entitlement_id: str
) -> Response:
    """End every active grant of an entitlement; purchases are not affected."""
    await grants.revoke(services.changes, caller.project_id, app_user_id, entitlement_id)
    return await subscriber_reply(request, services, caller, app_user_id)


@router.post("/subscriptions/{product_id}/revoke", responses=shows(SubscriberResponse))
@audited("customer.refunded")
async def revoke_subscription(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId, product_id: str
) -> Response:
    """Refund the current period and end access at once. A real store is asked to do it: one that refunds nothing on
    request gets a 422."""
    view = await view_of(services, caller, app_user_id)
    await acting.revoke(services, acting.by_product(view.customer, product_id))
    return await subscriber_reply(request, services, caller, app_user_id)


@router.post("/subscriptions/{product_id}/defer", responses=shows(SubscriberResponse))
@audited("customer.extended")
async def defer_subscription(
    request: Request,
    services: Provided,
    caller: SecretWriteKey,
    app_user_id: PathUserId,
    product_id: str,
    new: NewEnd,
) -> Response:
    """Move the end of an active subscription to a later time, free of charge. A real store is asked to do it."""
    if (new.expiry_time_ms is None) == (new.extend_by_days is None):
        raise InvalidParameter("Send either expiry_time_ms or extend_by_days.", param="expiry_time_ms")
    view = await view_of(services, caller, app_user_id)
    by = new.extend_by_days * DAY if new.extend_by_days is not None else None
    extension = acting.Extension(by=by, until=new.expiry_time_ms)
    await acting.extend(services, acting.by_product(view.customer, product_id), extension)
    return await subscriber_reply(request, services, caller, app_user_id)
