"""Testing a webhook: one test event sent the same way as real ones, and the receiver's response."""

from dataclasses import dataclass
from uuid import uuid4

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.subjects.webhooks.delivery.event_body import body_of
from latchkey.subjects.webhooks.delivery.sending.reply import AttemptResult
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.delivery.webhook import Webhook
from latchkey.subjects.webhooks.usecases.samples import event_for_test


@dataclass(frozen=True, slots=True)
class Tried:
    webhook: Webhook
    event_id: str
    event_type: str
    body: bytes
    answer: AttemptResult

    @property
    def request_headers(self) -> dict[str, str]:
        """As they may be shown."""
        return json.decode(self.answer.request_headers, type=dict[str, str])


async def send_test(sender: Sender, webhook: Webhook, type: str, now: Ms) -> Tried:
    """Nothing is stored, retried or counted. A header tells the receiver that this is a test and must change nothing.
    Environment and app of the event match the webhook's filters."""
    production = webhook.setup.environment == "production"
    event = event_for_test(
        type,
        now,
        str(uuid4()),
        environment=Environment.PRODUCTION if production else Environment.SANDBOX,
        app_id=webhook.setup.app_id,
    )
    body = body_of(json.encode(event), webhook.setup.dialect)
    return Tried(webhook, event.id, type, body, await sender.send(webhook, event.id, body, is_test=True))
