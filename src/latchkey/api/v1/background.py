"""What the SDKs send and ask by themselves and Latchkey has no use for: configuration of paywalls, events of their
screens, diagnostics, attribution. Each gets an answer that stops the SDK from asking or sending again."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from latchkey.api.authentication import AppReadKey, AppWriteKey
from latchkey.api.models import AnyBody, PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.wire.sdk import Accepted, HealthReportAvailability, ServiceHealth

router = Router(prefix="/v1", tags=["V1 for SDKs"])

_nothing: dict[str, Any] = {
    "responses": {204: {"description": "Nothing to configure"}},
    "status_code": 204,
    "response_class": Response,
}
_accepted: dict[str, Any] = {"responses": shows(Accepted), "response_class": Response}


@router.post("/config/{domain}", **_nothing)
async def ask_for_config(caller: AppWriteKey, domain: str, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """204: there is no remote configuration, because there are no paywalls. With 404 the SDKs would log an error and
    ask for the offerings once more at every start."""
    return Response(status_code=204)


@router.get("/config/{domain}", **_nothing)
async def read_config(caller: AppReadKey, domain: str) -> Response:  # noqa: ARG001 - only checked
    """The same for the iOS SDK, which asks this way after a failure."""
    return Response(status_code=204)


@router.post("/events", **_accepted)
@router.post("/diagnostics", **_accepted)
async def take_telemetry(caller: AppWriteKey, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """Accepted and discarded: events of the vendor's paywalls, and diagnostics of its SDKs. An SDK that is refused
    keeps them and sends them again."""
    return reply(Accepted())


@router.post("/subscribers/{app_user_id}/attribution", **_accepted)
@router.post("/subscribers/{app_user_id}/adservices_attribution", **_accepted)
async def take_attribution(caller: AppWriteKey, app_user_id: PathUserId, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """Accepted and discarded: attribution data of advertising networks. Attributes such as `$idfa` are kept."""
    return reply(Accepted())


@router.get("/health", responses=shows(ServiceHealth), response_class=Response)
async def read_health() -> Response:
    """The service answers. Without a key, as the iOS SDK asks; see /readyz for a check of the database."""
    return reply(ServiceHealth())


@router.get(
    "/subscribers/{app_user_id}/health_report_availability",
    responses=shows(HealthReportAvailability),
    response_class=Response,
)
async def read_health_report_availability(app_user_id: PathUserId) -> Response:  # noqa: ARG001 - the same for all users
    """There are no health reports. Without a key, as the iOS SDK asks."""
    return reply(HealthReportAvailability())
