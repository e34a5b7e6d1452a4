"""The headers and the signature of a webhook's requests (Standard Webhooks). What is the same for all is prepared once.
Also removes secrets from responses: a receiver that echoes its request must not bring them into the log."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version

from msgspec import Struct, json

from latchkey.domain.instants import Ms
from latchkey.http_client import HeaderMap, StreamedResponse, header_pairs
from latchkey.subjects.webhooks.delivery.destination import HIDDEN, Outgoing, compiled, hidden_in, masked
from latchkey.subjects.webhooks.rules import SECRET_PREFIX, Webhook
from latchkey.wire.event import TEST_EVENT

# A shorter secret would match ordinary words.
_SHORTEST = 4


def secrets_of(webhook: Webhook) -> Sequence[str]:
    """In `Bearer abc` only the part after the scheme is secret."""
    scheme, _, rest = (webhook.authorization or "").partition(" ")
    found = (webhook.secret, webhook.previous_secret or "", rest or scheme)
    shown = [text.removeprefix(SECRET_PREFIX) for text in found]
    if webhook.destination is not None:
        shown += compiled(webhook.destination).secrets
    return tuple(text for text in shown if len(text) >= _SHORTEST)


def hidden_in_bytes(body: bytes, secrets: Sequence[str]) -> bytes:
    for secret in secrets:
        body = body.replace(secret.encode(), HIDDEN.encode())
    return body


def signature(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """One signature for each secret: during a rotation a receiver can verify with the old secret or the new one."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    if len(secrets) == 1:
        return _sign(secrets[0], signed)
    return " ".join([_sign(secret, signed) for secret in secrets])


def _sign(secret: str, signed: bytes) -> str:
    # Copying a prepared state takes a third of the time of `hmac.digest`, which also releases the interpreter's lock.
    state = _prepared(secret).copy()
    state.update(signed)
    return "v1," + binascii.b2a_base64(state.digest(), newline=False).decode()


@lru_cache(maxsize=4096)
def _prepared(secret: str) -> hmac.HMAC:
    return hmac.new(base64.b64decode(secret.removeprefix(SECRET_PREFIX) + "=="), digestmod=hashlib.sha256)


USER_AGENT = f"latchkey/{version('latchkey')}"
# Of every request. The client adds them; with each request they would take its time again.
FIXED = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
# How many headers of a response the log keeps, how many characters of them, and how many bytes to remember.
HEADERS_LIMIT = 64
CHARACTERS_LIMIT = 16 * 1024
_REMEMBERED = 4096
# Python refuses to read a number of more than 4,300 digits, and zeros may come first.
_LENGTH_DIGITS = 18
_encode = json.Encoder().encode


class ResponseHeaders(Struct, frozen=True):
    """The headers of a response."""

    headers: HeaderMap
    # JSON, with secrets masked.
    logged: bytes
    # The length of the body, if the receiver has declared it.
    length: int | None


class Letterhead:
    __slots__ = ("_last", "_log_begins", "_log_ends", "_own", "secrets", "webhook")

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.secrets = secrets_of(webhook)
        # Most responses of a receiver have the same headers as the one before.
        self._last: ResponseHeaders | None = None
        self._log_begins = _encode(FIXED)[:-1] + b',"webhook-id":'
        self._log_ends = b'"}'
        self._own: list[tuple[str, str]] = []
        authorization = webhook.authorization
        if authorization is not None:
            self._own.append(("Authorization", authorization))
            self._log_ends = b'",' + _encode({"Authorization": masked(authorization)})[1:]

    def accepts(self, status: int) -> bool:
        """Whether this status means that it is delivered. Services that are destinations answer with any 2xx."""
        return status == 200 or (self.webhook.destination is not None and 200 <= status < 300)

    def headers(
        self, message_id: str, outgoing: Outgoing, at: Ms, *, is_test: bool = False, traceparent: str | None = None
    ) -> tuple[Sequence[tuple[str, str]], bytes]:
        """The headers to send besides the fixed ones, and all headers as the log may show them, in JSON."""
        if outgoing.headers is not None:
            shown_as = compiled(self.webhook.destination or "").masked_header
            return outgoing.headers, _encode(FIXED | {name: shown_as(name, value) for name, value in outgoing.headers})
        timestamp = at // 1000
        signed = signature(self.webhook.secrets_at(at), message_id, timestamp, outgoing.body)
        # Pairs: the client takes two µs more for a dict.
        sent = [
            *self._own,
            ("webhook-id", message_id),
            ("webhook-timestamp", str(timestamp)),
            ("webhook-signature", signed),
        ]
        shown = b'%b%b,"webhook-timestamp":"%d","webhook-signature":"%b%b' % (
            self._log_begins,
            _encode(message_id),
            timestamp,
            signed.encode(),
            self._log_ends,
        )
        if is_test or traceparent is not None:
            named = {TEST_EVENT: "true" if is_test else None, "traceparent": traceparent}
            others = {name: value for name, value in named.items() if value is not None}
            sent += others.items()
            shown = shown[:-1] + b"," + _encode(others)[1:]
        return sent, shown

    def received(self, response: StreamedResponse) -> ResponseHeaders:
        headers = response.headers
        last = self._last
        if last is not None and last.headers == headers:
            return last
        pairs = header_pairs(response)
        logged = _encode(_shortened([(name, hidden_in(value, self.secrets)) for name, value in pairs[:HEADERS_LIMIT]]))
        length = next((value for name, value in pairs if name == "content-length"), "")
        # A copy: the library compares under a lock of each side, and would wait forever for that of the same headers.
        is_length = length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS
        received = ResponseHeaders(headers.copy(), logged, int(length) if is_length else None)
        if len(logged) <= _REMEMBERED and len(pairs) <= HEADERS_LIMIT:
            self._last = received
        return received


def _shortened(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers as far as the log keeps them: the first characters of all values together."""
    kept: list[tuple[str, str]] = []
    left = CHARACTERS_LIMIT
    for name, value in pairs:
        kept.append((name, value[:left]))
        left = max(0, left - len(value))
    return kept
