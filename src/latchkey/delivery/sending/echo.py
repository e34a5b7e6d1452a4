"""Removes secrets from responses: a receiver that echoes its request must not bring them into the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from latchkey.delivery.webhook import SECRET_PREFIX, Webhook

HIDDEN = "••••"
# A shorter secret would match ordinary words.
_SHORTEST = 4

# Each secret as text and as bytes.
Secrets = Sequence[tuple[str, bytes]]


def secrets_of(webhook: Webhook) -> Secrets:
    return _secrets(webhook.secret, webhook.previous_secret, webhook.setup.authorization)


def hidden_in(text: str, secrets: Secrets) -> str:
    """The text as it may be stored and shown."""
    for secret, _ in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def hidden_in_bytes(body: bytes, secrets: Secrets) -> bytes:
    for _, secret in secrets:
        body = body.replace(secret, HIDDEN.encode())
    return body


@lru_cache(maxsize=4096)
def _secrets(secret: str, previous: str | None, authorization: str | None) -> Secrets:
    """In `Bearer abc` only the part after the scheme is secret."""
    found = [secret.removeprefix(SECRET_PREFIX)]
    if previous is not None:
        found.append(previous.removeprefix(SECRET_PREFIX))
    if authorization is not None:
        scheme, _, rest = authorization.partition(" ")
        found.append(rest or scheme)
    return tuple((text, text.encode()) for text in found if len(text) >= _SHORTEST)
