"""Webhooks: where events are sent, and sending a test event."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Id, Name, Paging, not_null
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.rendering.v2 import page
from latchkey.usecases.webhooks import registry as rules
from latchkey.usecases.webhooks import rendering as render
from latchkey.usecases.webhooks.trial_send import send_test
from latchkey.wire import webhooks as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/integrations/webhooks", tags=["V2 webhooks"])

EventType = Literal[
    "INITIAL_PURCHASE",
    "RENEWAL",
    "NON_RENEWING_PURCHASE",
    "CANCELLATION",
    "UNCANCELLATION",
    "TRIAL_STARTED",
    "TRIAL_CANCELLED",
    "BILLING_ISSUE",
    "EXPIRATION",
    "REFUND",
    "REFUND_REVERSED",
    "PRODUCT_CHANGE",
    "SUBSCRIPTION_PAUSED",
    "SUBSCRIPTION_EXTENDED",
    "TRANSFER",
    "INVOICE_ISSUANCE",
    "TEMPORARY_ENTITLEMENT_GRANT",
    "VIRTUAL_CURRENCY_TRANSACTION",
    "EXPERIMENT_ENROLLMENT",
    "SUBSCRIBER_ALIAS",
    "TEST",
]
Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=rules.LONGEST_URL,
        description="https:// only, and not to a private address.",
        examples=["https://app.example.com/webhooks/billing"],
        json_schema_extra={"pattern": r"^https://[!-~]+$"},
    ),
]
Secret = Annotated[
    str,
    Field(
        min_length=1,
        max_length=rules.LONGEST_HEADER,
        description="The whole value of the Authorization header that is sent. Never shown again.",
        examples=["Bearer <WEBHOOK_SECRET>"],
        json_schema_extra={"writeOnly": True, "pattern": r"^[!-~]([ -~]*[!-~])?$"},
    ),
]
Environment = Annotated[Literal["production", "sandbox"] | None, Field(description="Null is both.")]
_TYPES = frozenset(get_args(EventType))


def _known_type(text: str) -> str:
    if text.upper() not in _TYPES or text not in (text.upper(), text.lower()):
        raise PydanticCustomError("invalid", "There is no such event type.")
    return text.upper()


# In capitals as in events, or in small letters as the vendor's clients send them.
_AnyCase = Annotated[
    str,
    AfterValidator(_known_type),
    Field(json_schema_extra={"enum": sorted(_TYPES) + sorted(type.lower() for type in _TYPES)}),
]
EventTypes = Annotated[
    list[_AnyCase], Field(max_length=100, description="Empty is all. In capitals, or in small letters.")
]
Wait = Annotated[int, Field(ge=1, le=rules.LONGEST_WAIT_SECONDS)]
Schedule = Annotated[
    list[Wait],
    Field(max_length=rules.MOST_RETRIES, description="Seconds to wait after each failure. Null is the default."),
]
InFlight = Annotated[
    int, Field(ge=1, le=rules.LARGEST_IN_FLIGHT, description="Deliveries under way at once. Null is the default.")
]


Dialect = Annotated[
    Literal["latchkey", "revenuecat", "LATCHKEY", "REVENUECAT"],
    Field(description="The form of the bodies. `revenuecat` is for receivers written for that service."),
]


class NewWebhook(Body):
    name: Name
    url: Url
    authorization_header: Secret | None = Field(default=None, repr=False)
    environment: Environment = None
    event_types: EventTypes | None = Field(default_factory=list)
    app_id: Id | None = None
    retry_schedule_seconds: Schedule | None = None
    in_flight_limit: InFlight | None = None
    enabled: bool = True
    dialect: Dialect = "latchkey"


class WebhookChanges(Body):
    name: Name = not_null()
    url: Url = not_null()
    authorization_header: Secret | None = Field(default=None, repr=False)
    environment: Environment = None
    event_types: EventTypes | None = Field(default=None, description="Null is all, too.")
    app_id: Id | None = None
    retry_schedule_seconds: Schedule | None = None
    in_flight_limit: InFlight | None = None
    enabled: bool = not_null()
    dialect: Dialect = not_null()


class Rotation(Body):
    overlap_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=rules.LONGEST_OVERLAP_SECONDS,
            description="How long deliveries are also signed with the old secret. Defaults to one day.",
        ),
    ] = rules.OVERLAP_SECONDS


class Trial(Body):
    type: EventType


@router.post("", responses=shows(wire.Webhook, 201), status_code=201)
@audited("webhook.created")
async def create_webhook(services: Provided, caller: WriteKey, new: NewWebhook) -> Response:
    """Send events to a URL from now on. Only this response shows the signing secret."""
    made = await services.webhooks.create(caller.project_id, _given(new), services.now())
    return reply(render.webhook(made, with_secret=True), 201)


@router.get("", responses=shows(Page[wire.Webhook]))
async def list_webhooks(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The project's webhooks, oldest first, with their health."""
    found = await services.webhooks.page(caller.project_id, paging.after, paging.limit + 1)
    path = project_path(caller.project_id, "integrations", "webhooks")
    return reply(page([render.webhook(one) for one in found], lambda item: item.id, path, paging.limit, None))


@router.get("/{webhook_id}", responses=shows(wire.Webhook))
async def read_webhook(services: Provided, caller: ReadKey, webhook_id: str) -> Response:
    """One webhook and its health."""
    return reply(render.webhook(await services.webhooks.load(caller.project_id, webhook_id)))


@router.patch("/{webhook_id}", responses=shows(wire.Webhook))
@router.post("/{webhook_id}", responses=shows(wire.Webhook))
@audited("webhook.changed")
async def update_webhook(services: Provided, caller: WriteKey, webhook_id: str, changes: WebhookChanges) -> Response:
    """Change the given fields. `enabled: false` pauses: events are queued, and sent in order once it is true again."""
    changed = await services.webhooks.update(caller.project_id, webhook_id, _given(changes), services.now())
    return reply(render.webhook(changed))


@router.delete("/{webhook_id}", responses=shows(Deleted))
@audited("webhook.deleted")
async def delete_webhook(services: Provided, caller: WriteKey, webhook_id: str) -> Response:
    """Nothing more is sent; pending deliveries are not sent either."""
    now = services.now()
    await services.webhooks.delete(caller.project_id, webhook_id, now)
    return reply(Deleted(object="webhook", id=webhook_id, deleted_at=now))


@router.post("/{webhook_id}/rotate_signing_secret", responses=shows(wire.Webhook))
@audited("webhook.secret_rotated")
async def rotate_signing_secret(
    services: Provided, caller: WriteKey, webhook_id: str, new: Rotation | None = None
) -> Response:
    """Create a new signing secret, shown only in this response. During the overlap both signatures are sent."""
    overlap = (new or Rotation()).overlap_seconds
    rotated = await services.webhooks.rotate(caller.project_id, webhook_id, overlap, services.now())
    return reply(render.webhook(rotated, with_secret=True))


@router.post("/{webhook_id}/test", responses=shows(wire.WebhookTest))
@audited("webhook.tested")
async def test_webhook(services: Provided, caller: WriteKey, webhook_id: str, new: Trial) -> Response:
    """Send a test event at once and return the receiver's response. Its id begins with `test_`; nothing is stored."""
    shown = await services.webhooks.load(caller.project_id, webhook_id)
    return reply(render.tried(await send_test(services.sender, shown.webhook, new.type, services.now())))


def _given(body: NewWebhook | WebhookChanges) -> dict[str, Any]:
    """The fields that were sent, including nulls."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    if "event_types" in given:
        given["event_types"] = given["event_types"] or []
    return given
