"""Receivers that echo what they were sent, as debugging ones do, must not bring the secret into the log."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from latchkey.delivery.webhook import SECRET_PREFIX, Webhook

if TYPE_CHECKING:
    from latchkey.delivery.sender import Answer

HIDDEN = "••••"
# Shorter ones would be found inside innocent words.
_SHORTEST = 4


def without_secrets(answer: Answer, webhook: Webhook) -> Answer:
    """The answer as it may be kept and shown."""
    hidden = _secrets(webhook.secret, webhook.previous_secret, webhook.setup.authorization)
    for text in hidden:
        if _contains(answer, text):
            break
    else:
        return answer
    body, headers, error = answer.response_body, answer.response_headers, answer.error
    for text in hidden:
        body = body.replace(text.encode(), HIDDEN.encode())
        headers = tuple((name, value.replace(text, HIDDEN)) for name, value in headers)
        error = error.replace(text, HIDDEN) if error is not None else None
    return replace(answer, response_body=body, response_headers=headers, error=error)


def _contains(answer: Answer, text: str) -> bool:
    if text.encode() in answer.response_body or (answer.error is not None and text in answer.error):
        return True
    for _, value in answer.response_headers:  # noqa: SIM110 - asked with every delivery, and half the price of any()
        if text in value:
            return True
    return False


@lru_cache(maxsize=4096)
def _secrets(secret: str, previous: str | None, authorization: str | None) -> tuple[str, ...]:
    """Of `Bearer abc` only what follows the scheme is secret."""
    found = [secret.removeprefix(SECRET_PREFIX)]
    if previous is not None:
        found.append(previous.removeprefix(SECRET_PREFIX))
    if authorization is not None:
        scheme, _, rest = authorization.partition(" ")
        found.append(rest or scheme)
    return tuple(text for text in found if len(text) >= _SHORTEST)
