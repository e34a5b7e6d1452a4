"""The headers of a webhook's requests. What is the same for each of them is prepared once."""

from __future__ import annotations

from importlib.metadata import version

from msgspec import json

from latchkey.delivery.sending.signing import masked, signature
from latchkey.delivery.webhook import Webhook
from latchkey.domain.instants import Ms
from latchkey.wire.headers import TEST_EVENT

USER_AGENT = f"latchkey/{version('latchkey')}"
_encode = json.Encoder().encode


class Letterhead:
    __slots__ = ("_fixed", "_log_begins", "_log_ends", "webhook")

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        fixed = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
        self._log_begins = _encode(fixed)[:-1] + b',"webhook-id":'
        self._log_ends = b'"}'
        authorization = webhook.setup.authorization
        if authorization is not None:
            fixed["Authorization"] = authorization
            self._log_ends = b'",' + _encode({"Authorization": masked(authorization)})[1:]
        self._fixed = fixed

    def headers(
        self, message_id: str, body: bytes, at: Ms, *, is_test: bool = False, traceparent: str | None = None
    ) -> tuple[dict[str, str], bytes]:
        """The headers as they are sent, and as the log may show them, in JSON."""
        timestamp = at // 1000
        signed = signature(self.webhook.secrets_at(at), message_id, timestamp, body)
        sent = {
            **self._fixed,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signed,
        }
        shown = b'%b%b,"webhook-timestamp":"%d","webhook-signature":"%b%b' % (
            self._log_begins,
            _encode(message_id),
            timestamp,
            signed.encode(),
            self._log_ends,
        )
        if is_test:
            sent[TEST_EVENT] = "true"
            shown = shown[:-1] + b"," + _encode({TEST_EVENT: "true"})[1:]
        if traceparent is not None:
            sent["traceparent"] = traceparent
            shown = shown[:-1] + b"," + _encode({"traceparent": traceparent})[1:]
        return sent, shown
