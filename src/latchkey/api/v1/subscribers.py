"""A V1 subscriber: reading it with its virtual currency, logging in, deleting."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import AppReadKey, AppWriteKey, SecretWriteKey, documented
from latchkey.api.exchange import READS_KEY, SCOPE_KEY
from latchkey.api.models import AppBody, AppUserId, PathUserId
from latchkey.api.reads import V1_ROUTE
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.v1.reply import subscriber_reply
from latchkey.usecases.customers.currency import balances
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import join, log_in
from latchkey.wire.actions import V1Currencies, V1Currency, V1Deleted
from latchkey.wire.v1 import SubscriberResponse

router = Router(tags=["V1 subscribers"])


@router.get(
    V1_ROUTE,
    responses=shows(SubscriberResponse) | shows(SubscriberResponse, 201, "Created"),
    response_class=Response,
    dependencies=[documented],
)
async def read_subscriber(request: Request, app_user_id: PathUserId) -> Response:
    """The subscriber with this id or alias. An unknown id is created, with any key that may read."""
    status, body = await request.scope[READS_KEY].subscriber(request.scope[SCOPE_KEY], app_user_id)
    return Response(body, status, media_type="application/json")


@router.get("/v1/subscribers/{app_user_id}/virtual_currencies", responses=shows(V1Currencies))
async def read_virtual_currencies(services: Provided, caller: AppReadKey, app_user_id: PathUserId) -> Response:
    """Every currency of the project with this subscriber's balance. To an app's key, an unknown subscriber has 0."""
    # An app may ask this before anything else about a new user.
    held = await balances(services.changes, caller.project_id, app_user_id, unknown_has_none=caller.is_public)
    return reply(
        V1Currencies(
            virtual_currencies={
                one.code: V1Currency(balance=one.balance, code=one.code, name=one.name, description=one.description)
                for one in held
            }
        )
    )


class LogIn(AppBody):
    app_user_id: AppUserId
    new_app_user_id: AppUserId


class NewAlias(AppBody):
    """The SDK also sends `app_user_id`, the id of the path; it is ignored."""

    new_app_user_id: AppUserId


@router.post(
    "/v1/subscribers/identify",
    responses=shows(SubscriberResponse) | shows(SubscriberResponse, 201, "The new id was created"),
    response_class=Response,
)
async def identify(request: Request, services: Provided, caller: AppWriteKey, new: LogIn) -> Response:
    """The app's user signed in. An anonymous user becomes the new id, unless that would merge two different people."""
    logged_in = await log_in(services.changes, caller.project_id, new.app_user_id, new.new_app_user_id)
    status = 201 if logged_in.created else 200
    return await subscriber_reply(request, services, caller, new.new_app_user_id, status)


@router.post("/v1/subscribers/{app_user_id}/alias", responses=shows(SubscriberResponse))
async def alias(
    request: Request, services: Provided, caller: AppWriteKey, app_user_id: PathUserId, new: NewAlias
) -> Response:
    """Join an anonymous user, found again on a new device, to the id that the app uses there. Only anonymous users can
    be joined; whoever knows their random id is taken for the same person."""
    await join(services.changes, caller.project_id, app_user_id, new.new_app_user_id)
    return await subscriber_reply(request, services, caller, new.new_app_user_id)


@router.delete("/v1/subscribers/{app_user_id}", responses=shows(V1Deleted))
@audited("customer.deleted", erases=True)
async def delete_subscriber(services: Provided, caller: SecretWriteKey, app_user_id: PathUserId) -> Response:
    """Erase the person; sales stay in the charts under a pseudonym."""
    await erase(services.changes, caller.project_id, app_user_id)
    return reply(V1Deleted(app_user_id=app_user_id, deleted=True))
