"""The endpoints for the app's users, 4.6 of the specification, and for their devices."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, Struct, to_builtins
from starlette.requests import Request
from starlette.responses import Response

from latchkey.client.client_errors import ClientError, NotFound
from latchkey.consumer.api.access_guard import Identify, identified
from latchkey.consumer.api.http_endpoint import Endpoints, RequestRefused, body_of, reply
from latchkey.consumer.api.operator_endpoints import ConsumerMetrics
from latchkey.consumer.billing_service import UNKNOWN, BillingService, View, failure_text
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.timestamps import Ms, from_iso_or_none, iso_or_none, to_iso
from latchkey.consumer.storage.consumer_storage import ConsumerStorage

log = structlog.get_logger()

SYNC_DEADLINE = 20.0
BODY_LIMIT = 4_096


class NewDevice(Struct, frozen=True):
    # No provider's ids have spaces or control characters; ours are UUIDs.
    player_id: Annotated[str, Meta(pattern=r"^[!-~]{1,255}\Z")]
    platform: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,32}\Z")] | None = None
    language: Annotated[str, Meta(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}\Z", max_length=35)] | None = None


_decoder = msgspec.json.Decoder(NewDevice)


class UserEndpoints(Struct, frozen=True):
    _billing: BillingService
    _store: ConsumerStorage
    _settings: Settings
    _identify: Identify
    _metrics: ConsumerMetrics
    _now: Callable[[], Ms]

    async def subscription_status(self, request: Request) -> Response:
        view = await self._known(await self._user(request), details=True)
        subscriptions = view.copy.subscription.subscriptions if view.copy is not None else {}
        return self._reply({**_access(view), "subscriptions": subscriptions, "syncedAt": _synced_at(view)}, view)

    async def sync_billing(self, request: Request) -> Response:
        user = await self._user(request)
        try:
            view = await self._billing.refresh(user, details=True, deadline=SYNC_DEADLINE)
        except ClientError as error:
            log.warning("could not sync a user with the service", error=str(error), status=error.status)
            raise RequestRefused(500, failure_text(error)) from error
        if view is None:
            raise RequestRefused(404, "Customer not found in billing")
        return reply({"message": "Subscription synced", **_access(view), "syncedAt": _synced_at(view)})

    async def entitlement(self, request: Request) -> Response:
        user = await self._user(request)
        id = request.path_params["entitlementId"]
        view = await self.view(user)
        holds = view.lets(id)
        if holds is None:
            raise _not_known(view)
        body: dict[str, Any] = {"hasAccess": holds, "entitlementId": id, "source": view.source}
        if view.unverified:
            body["syncedAt"] = _synced_at(view)
        return self._reply(body, view)

    async def my_entitlements(self, request: Request) -> Response:
        view = await self._known(await self._user(request))
        details = _access(view)["entitlements"]
        return self._reply({"entitlements": sorted(details), "details": details}, view)

    async def virtual_currencies(self, request: Request) -> Response:
        user = await self._user(request)
        return reply({"virtualCurrencies": await self._store.of_customer(user, self._store.events.balances)})

    async def my_experiments(self, request: Request) -> Response:
        user = await self._user(request)
        return reply({"experiments": await self._store.of_customer(user, self._store.events.experiments)})

    async def register_device(self, request: Request) -> Response:
        user = await self._user(request)
        try:
            new = _decoder.decode(await body_of(request, BODY_LIMIT))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise RequestRefused(400, "Invalid device") from None
        now = self._now()
        row = {**msgspec.structs.asdict(new), "app_user_id": user, "registered_at": now, "last_seen_at": now}
        is_new = await self._store.devices.register(row, self._settings.devices_per_user)
        return reply(_device(row), 201 if is_new else 200)

    async def devices(self, request: Request) -> Response:
        found = await self._store.devices.of_user(await self._user(request))
        return reply({"devices": [_device(row) for row in found]}, headers={"Cache-Control": "no-store"})

    async def forget_device(self, request: Request) -> Response:
        if not await self._store.devices.forget(await self._user(request), request.path_params["player_id"]):
            raise RequestRefused(404, "Device not found")
        return reply({"message": "Device removed"})

    async def debug(self, request: Request) -> Response:
        if self._settings.production:
            raise RequestRefused(403, "Not available in production")
        await self._user(request)
        asked = request.path_params["userId"]
        client = self._billing.client
        copy = await self._billing.local(asked)
        now = self._now()
        second = await self._answer(client.customer(asked, deadline=SYNC_DEADLINE))
        # V1 creates a user that it does not know.
        known = second is not None
        first = await self._answer(client.subscriber(asked, deadline=SYNC_DEADLINE)) if known else None
        comparison = {
            "dbActive": bool(copy and copy.held(now)),
            # On a test clock V1 shows what ended too, with the clock's time.
            "v1Active": _active_in_v1(first, (first or {}).get("request_date_ms", now)),
            "v2Active": _active_in_v2(second, now),
        }
        return reply(
            {
                "database": _record(copy),
                "billingV1": first,
                "billingV2": second,
                "comparison": {**comparison, "match": len(set(comparison.values())) == 1},
            }
        )

    async def _user(self, request: Request) -> str:
        user = await identified(self._identify, request)
        if user is None:
            raise RequestRefused(401, "Unauthorized")
        return user

    async def view(self, app_user_id: str, *, details: bool = False) -> View:
        view = await self._billing.view(app_user_id, details=details)
        self._metrics.views.labels(view.source).inc()
        return view

    async def _known(self, app_user_id: str, *, details: bool = False) -> View:
        """A view that is complete, or 500."""
        view = await self.view(app_user_id, details=details)
        if view.unknown:
            raise _not_known(view)
        return view

    def _reply(self, body: dict[str, Any], view: View) -> Response:
        """Adds the age of a local copy in seconds as the `Age` header, and to the body if it is unverified."""
        age = view.age_ms(self._now())
        if view.error is not None:
            body["error"] = view.error
        if view.unverified and age is not None:
            body["ageSeconds"] = age // 1000
        headers = {"Age": str(age // 1000)} if view.source == "database" and age is not None else {}
        return reply(body, headers={**headers, "Cache-Control": "no-store"})

    async def _answer(self, asking: Any) -> Any:
        try:
            return to_builtins(await asking)
        except NotFound:
            return None
        except ClientError as error:
            return {"error": str(error), "status": error.status}


USER_ENDPOINTS: Endpoints[UserEndpoints] = {
    "/api/subscription-status": {"GET": UserEndpoints.subscription_status},
    "/api/sync-billing": {"POST": UserEndpoints.sync_billing},
    "/api/entitlement/{entitlementId}": {"GET": UserEndpoints.entitlement},
    "/api/my-entitlements": {"GET": UserEndpoints.my_entitlements},
    "/api/virtual-currencies": {"GET": UserEndpoints.virtual_currencies},
    "/api/experiments": {"GET": UserEndpoints.my_experiments},
    "/api/devices": {"GET": UserEndpoints.devices, "POST": UserEndpoints.register_device},
    "/api/devices/{player_id}": {"DELETE": UserEndpoints.forget_device},
    "/api/debug/subscription/{userId}": {"GET": UserEndpoints.debug},
}


def _not_known(view: View) -> RequestRefused:
    return RequestRefused(500, view.failure or UNKNOWN)


def _access(view: View) -> dict[str, Any]:
    held = {id: row.as_written(view.at) for id, row in view.held.items()}
    return {"isActive": bool(held), "entitlements": held}


def _synced_at(view: View) -> str | None:
    return iso_or_none(view.copy.subscription.last_updated) if view.copy is not None else None


def _record(copy: LocalCopy | None) -> Any:
    if copy is None:
        return None
    return {**to_builtins(copy.subscription), "entitlement_records": to_builtins(list(copy.entitlements.values()))}


def _active_in_v1(answer: Any, now: Ms) -> bool | None:
    if answer is not None and "error" in answer:
        return None
    held = answer["subscriber"]["entitlements"].values() if answer is not None else ()
    ends = [from_iso_or_none(entitlement.get("expires_date")) for entitlement in held]
    return any(end is None or end > now for end in ends)


def _active_in_v2(answer: Any, now: Ms) -> bool | None:
    if answer is not None and "error" in answer:
        return None
    held = answer["active_entitlements"]["items"] if answer is not None else ()
    return any(entitlement["expires_at"] is None or entitlement["expires_at"] > now for entitlement in held)


def _device(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "player_id": row["player_id"],
        "platform": row["platform"],
        "language": row["language"],
        "last_seen_at": to_iso(row["last_seen_at"]),
    }
