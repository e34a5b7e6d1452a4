"""Webhooks: where events are sent, what was sent and answered, sending again, and operational events."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query
from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.models import AppUserId, Body, Id, Instant, Name, Paging, in_order, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.webhooks import render, wire
from latchkey.subjects.webhooks.delivery.destination import DestinationSetup, presets
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.rules import Chosen, Delivery, DeliveryFilter, Replay, ReplayRange
from latchkey.subjects.webhooks.usecases import destination_settings, registry
from latchkey.subjects.webhooks.usecases.samples import TYPES, send_test
from latchkey.wire.paging import next_path, project_path
from latchkey.wire.v2 import Page

webhooks_router = Router(prefix="/v2/projects/{project_id}/integrations/webhooks", tags=["V2 webhooks"])
destinations_router = Router(prefix="/v2/projects/{project_id}/integrations/destinations", tags=["V2 webhooks"])

if TYPE_CHECKING:
    EventType = str
else:
    EventType = Literal[TYPES]
Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=registry.LONGEST_URL,
        description="https:// only, and not to a private address.",
        examples=["https://app.example.com/webhooks/billing"],
        json_schema_extra={"pattern": r"^https://[!-~]+$"},
    ),
]
Secret = Annotated[
    str,
    Field(
        min_length=1,
        max_length=registry.LONGEST_HEADER,
        description="The whole value of the Authorization header that is sent. Never shown again.",
        examples=["Bearer <WEBHOOK_SECRET>"],
        json_schema_extra={"writeOnly": True, "pattern": r"^[!-~]([ -~]*[!-~])?$"},
    ),
]
Environment = Annotated[Literal["production", "sandbox"] | None, Field(description="Null is both.")]


def _known_type(text: str) -> str:
    if text.upper() not in TYPES or text not in (text.upper(), text.lower()):
        raise PydanticCustomError("invalid", "There is no such event type.")
    return text.upper()


# In capitals as in events, or in small letters as the vendor's clients send them.
_AnyCase = Annotated[
    str,
    AfterValidator(_known_type),
    Field(json_schema_extra={"enum": sorted(TYPES) + sorted(type.lower() for type in TYPES)}),
]
EventTypes = Annotated[
    list[_AnyCase], Field(max_length=100, description="Empty is all. In capitals, or in small letters.")
]
Wait = Annotated[int, Field(ge=1, le=registry.LONGEST_WAIT_SECONDS)]
Schedule = Annotated[
    list[Wait],
    Field(max_length=registry.MOST_RETRIES, description="Seconds to wait after each failure. Null is the default."),
]
InFlight = Annotated[
    int, Field(ge=1, le=registry.LARGEST_IN_FLIGHT, description="Deliveries under way at once. Null is the default.")
]

Dialect = Annotated[
    Literal["latchkey", "revenuecat", "LATCHKEY", "REVENUECAT"],
    Field(description="The form of the bodies. `revenuecat` is for receivers written for that service."),
]


class NewDestination(Body):
    preset: Annotated[str, Field(min_length=1, max_length=50, examples=["slack"])]
    settings: Annotated[
        dict[str, str], Field(max_length=20, description="What the preset asks for. What is left out stays as it is.")
    ] = Field(default_factory=dict, repr=False)
    template: Annotated[
        dict[str, Any] | list[Any],
        Field(description="Of the preset `custom`: the JSON to send. Its texts may contain `{{ expressions }}`."),
    ] = not_null()


class NewWebhook(Body):
    """With a `url`, or with a `destination`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["url"]}, {"required": ["destination"]}]})

    name: Name
    url: Url = not_null()
    destination: NewDestination = Field(default_factory=lambda: None, repr=False)  # type: ignore[assignment]  # as `not_null`
    authorization_header: Secret | None = Field(default=None, repr=False)
    environment: Environment = None
    event_types: EventTypes | None = Field(default_factory=list)
    app_id: Id | None = None
    retry_schedule_seconds: Schedule | None = None
    in_flight_limit: InFlight | None = None
    enabled: bool = True
    dialect: Dialect = "latchkey"


class WebhookChanges(NewWebhook):
    model_config = ConfigDict(json_schema_extra={})

    name: Name = not_null()
    url: Url = not_null()
    event_types: EventTypes | None = Field(default=None, description="Null is all, too.")
    enabled: bool = not_null()
    dialect: Dialect = not_null()


class SecretRotation(Body):
    overlap_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=registry.LONGEST_OVERLAP_SECONDS,
            description="How long deliveries are also signed with the old secret. Defaults to one day.",
        ),
    ] = registry.OVERLAP_SECONDS


class Trial(Body):
    type: EventType


@webhooks_router.creates("", wire.Webhook, "webhook.created")
async def create_webhook(call: WriteKey, new: NewWebhook) -> Response:
    """Send events to a URL from now on. Only this response shows the signing secret."""
    made = await call.services.webhooks.create(call.project_id, new.model_dump(exclude_unset=True), call.now())
    return reply(render.webhook(made, with_secret=True), 201)


@webhooks_router.get("", responses=shows(Page[wire.Webhook]))
async def list_webhooks(call: ReadKey, paging: Paging) -> Response:
    """The project's webhooks, oldest first, with their health."""
    found = await call.services.webhooks.page(call.project_id, *paging.window)
    return reply(paging.of([render.webhook(webhook) for webhook in found]))


@webhooks_router.get("/{webhook_id}", responses=shows(wire.Webhook))
async def read_webhook(call: ReadKey, webhook_id: str) -> Response:
    """One webhook and its health."""
    return reply(render.webhook(await call.services.webhooks.load(call.project_id, webhook_id)))


@webhooks_router.updates("/{webhook_id}", wire.Webhook, "webhook.changed")
async def update_webhook(call: WriteKey, webhook_id: str, changes: WebhookChanges) -> Response:
    """Change the given fields of a webhook. `enabled: false` pauses: events are queued, and sent in order once it is
    true again."""
    changed = await call.services.webhooks.update(
        call.project_id, webhook_id, changes.model_dump(exclude_unset=True), call.now()
    )
    return reply(render.webhook(changed))


@webhooks_router.deletes("/{webhook_id}", Deleted, "webhook.deleted")
async def delete_webhook(call: WriteKey, webhook_id: str) -> Response:
    """Nothing more is sent; pending deliveries are not sent either."""
    now = call.now()
    await call.services.webhooks.delete(call.project_id, webhook_id, now)
    return reply(Deleted(object="webhook", id=webhook_id, deleted_at=now))


@webhooks_router.acts("/{webhook_id}/rotate_signing_secret", wire.Webhook, "webhook.secret_rotated")
async def rotate_signing_secret(call: WriteKey, webhook_id: str, new: SecretRotation | None = None) -> Response:
    """Create a new signing secret, shown only in this response. During the overlap both signatures are sent."""
    overlap = (new or SecretRotation()).overlap_seconds
    rotated = await call.services.webhooks.rotate(call.project_id, webhook_id, overlap, call.now())
    return reply(render.webhook(rotated, with_secret=True))


@webhooks_router.acts("/{webhook_id}/test", wire.WebhookTest, "webhook.tested")
async def test_webhook(call: WriteKey, webhook_id: str, new: Trial) -> Response:
    """Send a test event at once and return the receiver's response. Its id begins with `test_`; nothing is stored."""
    webhook = await call.services.webhooks.load(call.project_id, webhook_id)
    return reply(await send_test(call.services.sender, webhook, new.type, call.now()))


@destinations_router.get("", responses=shows(Page[wire.DestinationPreset]))
async def list_destination_presets(call: ReadKey) -> Response:
    """Services that a webhook can send to in their own form, and the settings that each needs."""
    items = [render.preset(name, preset) for name, preset in presets().items()]
    return reply(Page(items=items, next_page=None, url=project_path(call.project_id, "integrations", "destinations")))


@destinations_router.acts("/preview", Page[wire.DestinationPreview], "webhook.previewed", about="a destination")
async def preview_destination(call: WriteKey, new: NewDestination) -> Response:
    """What would be sent for a sample event of every type. Nothing is stored or sent."""
    stored = destination_settings.checked(DestinationSetup(**new.model_dump()))
    items = destination_settings.preview(stored, call.now())
    url = project_path(call.project_id, "integrations", "destinations", "preview")
    return reply(Page(items=items, next_page=None, url=url))


deliveries_router = Router(
    prefix="/v2/projects/{project_id}/integrations/webhooks/{webhook_id}", tags=["V2 webhook deliveries"]
)

_Moment = Query(ge=EARLIEST, le=LATEST, description="Epoch milliseconds.")


@deliveries_router.get("/deliveries", responses=shows(Page[Delivery]))
async def list_deliveries(
    call: ReadKey,
    webhook_id: str,
    paging: Paging,
    status: Annotated[Chosen | None, Query()] = None,
    type: Annotated[EventType | None, Query()] = None,
    customer_id: Annotated[AppUserId | None, Query()] = None,
    since_ms: Annotated[int | None, _Moment] = None,
    until_ms: Annotated[int | None, _Moment] = None,
) -> Response:
    """What was sent, newest first. With a filter for something rare, a page may be short and still have a next one."""
    in_order(since_ms, until_ms)
    chosen = DeliveryFilter(status=status, type=type, customer_id=customer_id, since=since_ms, until=until_ms)
    found = await call.run(registry.page_of_deliveries, webhook_id, chosen, after=paging.after, limit=paging.limit)
    url = project_path(call.project_id, "integrations", "webhooks", webhook_id, "deliveries")
    asked = {"status": status, "type": type, "customer_id": customer_id, "since_ms": since_ms, "until_ms": until_ms}
    kept = {name: str(value) for name, value in asked.items() if value is not None}
    following = None if found.after is None else next_path(url, paging.limit, found.after, kept)
    return reply(Page(items=found.deliveries, next_page=following, url=url))


@deliveries_router.get("/deliveries/{delivery_id}", responses=shows(wire.DeliveryWithAttempts))
async def read_delivery(call: ReadKey, webhook_id: str, delivery_id: str) -> Response:
    """One delivery with all its attempts. It has the id of its event."""
    found = await call.run(registry.load_delivery, webhook_id, delivery_id)
    webhook = await call.services.webhooks.load(call.project_id, webhook_id)
    return reply(render.detail(webhook, found, call.services.sender.public_url))


class NewReplay(Body):
    since_ms: Instant
    until_ms: Annotated[Instant | None, Field(description="Defaults to now.")] = None
    status: Literal["failed", "all"]
    event_types: EventTypes = Field(default_factory=list)


@deliveries_router.acts("/deliveries/{delivery_id}/resend", wire.DeliveryWithAttempts, "delivery.resent", status=202)
async def resend_delivery(call: WriteKey, webhook_id: str, delivery_id: str) -> Response:
    """Send it again, at once, whatever its status. Event id and body stay the same."""
    sent = await call.run(registry.resend, webhook_id, delivery_id, call.now())
    webhook = await call.services.webhooks.load(call.project_id, webhook_id)
    return reply(render.detail(webhook, sent, call.services.sender.public_url), 202)


@deliveries_router.acts("/replay", Replay, "webhook.replayed", status=202)
async def start_replay(call: WriteKey, webhook_id: str, new: NewReplay) -> Response:
    """Send again what failed in a time range, or everything that happened in it, including events from before the
    webhook existed. Runs in the background."""
    in_order(new.since_ms, new.until_ms)
    chosen = ReplayRange(new.since_ms, new.until_ms, new.status, tuple(dict.fromkeys(new.event_types)))
    return reply(await call.run(requeue_runs.start_replay, webhook_id, chosen, call.now()), 202)


@deliveries_router.get("/replays/{replay_id}", responses=shows(Replay))
async def read_replay(call: ReadKey, webhook_id: str, replay_id: str) -> Response:
    """The progress of a replay."""
    return reply(await call.run(requeue_runs.load_replay, webhook_id, replay_id))


operational_events_router = Router(
    prefix="/v2/projects/{project_id}/operational_events", tags=["V2 operational events"]
)


@operational_events_router.get("", responses=shows(Page[wire.OperationalEvent]))
async def list_operational_events(call: ReadKey, paging: Paging) -> Response:
    """Webhooks that began to fail, were paused, or work again, and exports that failed or work again; newest first."""
    found = await call.run(registry.page_of_operational_events, *paging.window)
    return reply(paging.of([render.operational_event(event) for event in found]))
