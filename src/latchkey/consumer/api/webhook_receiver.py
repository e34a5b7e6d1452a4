"""`POST /webhooks/billing`: the specification's nine steps, in order, with the check of the Standard Webhooks
signature."""

import base64
import hmac
import time
from collections.abc import Iterable, Mapping

import structlog
from starlette.requests import Request
from starlette.responses import Response

from latchkey.consumer.api import http_endpoint
from latchkey.consumer.api.operator_endpoints import ConsumerMetrics
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.event_intake import EventOutcome, Intake, is_about_one_event
from latchkey.consumer.rules.received_event import MalformedEvent, ReceivedEvent, read
from latchkey.wire.event import TEST_EVENT

PREFIX = "whsec_"
TOLERANCE_SECONDS = 5 * 60
_VERSION = b"v1,"


class WebhookSignatures:
    """The signing secrets; several during a rotation."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._keys = [_key(secret) for secret in secrets]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def verify(self, headers: Mapping[bytes, bytes], body: bytes) -> bool:
        """Whether the body was signed with one of the secrets, within the last minutes. `headers` are in lower case."""
        id, timestamp = headers.get(b"webhook-id"), headers.get(b"webhook-timestamp")
        given = headers.get(b"webhook-signature")
        # Digits only, as the standard has it, and no more than a year needs: int() takes much else.
        if not id or not given or not timestamp or not timestamp.isdigit() or len(timestamp) > len("99999999999"):
            return False
        if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
            return False
        content = b"%b.%b.%b" % (id, timestamp, body)
        listed = given.split(b" ")
        for key in self._keys:
            expected = _VERSION + base64.b64encode(hmac.digest(key, content, "sha256"))
            if any(hmac.compare_digest(expected, signature) for signature in listed):
                return True
        return False


def _key(secret: str) -> bytes:
    # The padding may be missing; more of it than needed does no harm.
    key = base64.b64decode(secret.removeprefix(PREFIX) + "==")
    if not key:
        raise ValueError("A signing secret is empty.")
    return key


log = structlog.get_logger()

_TEST_EVENT = TEST_EVENT.lower().encode()

MESSAGES = {
    EventOutcome.PROCESSED: "Event processed",
    EventOutcome.DUPLICATE: "Event already processed",
    EventOutcome.LATE: "Event recorded",
}
INTERNAL_ERROR = "Internal processing error"
# Every event gets one of three responses. A response that is sent is not changed, so these are built once.
_REPLIES = {outcome: http_endpoint.reply({"message": message}) for outcome, message in MESSAGES.items()}


class WebhookReceiver:
    def __init__(self, intake: Intake, settings: Settings, metrics: ConsumerMetrics) -> None:
        self._intake = intake
        self._settings = settings
        self._metrics = metrics
        self._signatures = WebhookSignatures(settings.signing_secrets)

    async def receive(self, request: Request) -> Response:
        with self._metrics.webhook_seconds.time():
            return await self._receive(request)

    async def _receive(self, request: Request) -> Response:
        headers = http_endpoint.headers_of(request)
        if not http_endpoint.matches(http_endpoint.bearer(headers), self._settings.webhook_secret):
            self._metrics.refused.labels("unauthorized").inc()
            raise http_endpoint.RequestRefused(401, "Unauthorized")
        try:
            body = await http_endpoint.body_of(request, self._settings.body_limit_bytes)
        except http_endpoint.TooLargeError:
            self._metrics.refused.labels("too_large").inc()
            raise
        if self._signatures and not self._signatures.verify(headers, body):
            self._metrics.refused.labels("unauthorized").inc()
            raise http_endpoint.RequestRefused(401, "Unauthorized")
        try:
            event = read(body)
        except MalformedEvent as malformed:
            self._metrics.refused.labels("malformed").inc()
            log.warning("malformed webhook", error=str(malformed), bytes=len(body))
            raise http_endpoint.RequestRefused(400, str(malformed)) from None
        if headers.get(_TEST_EVENT) == b"true":
            # Only a sender with the secret gets here, and real deliveries never have the header. If one were marked by
            # mistake, the sweep would find it in the service's feed.
            log.info("test event", event_id=event.id, type=event.type)
            self._metrics.received(event.type, "test")
            return http_endpoint.reply({"message": "Test event received"})
        return await self._process(event)

    async def _process(self, event: ReceivedEvent) -> Response:
        try:
            outcome = await self._intake.receive(event)
        except Exception as error:
            log.exception("event failed", event_id=event.id, type=event.type)
            self._metrics.received(event.type, "failed")
            # An outage of the database has nothing to do with this event: it is sent again.
            if self._settings.on_error == "retry" or not is_about_one_event(error):
                raise http_endpoint.RequestRefused(500, INTERNAL_ERROR) from error
            # If this fails too, the response is 500: a 200 never means that an event is lost.
            await self._intake.set_aside(event, error)
            return http_endpoint.reply({"message": "Event set aside", "error": INTERNAL_ERROR})
        self._metrics.received(event.type, outcome.value)
        return _REPLIES[outcome]
