"""Receivers that echo what they were sent, as debugging ones do, must not bring the secret into the log."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from latchkey.delivery.webhook import SECRET_PREFIX, Webhook

if TYPE_CHECKING:
    from latchkey.delivery.sending.reply import Answer

HIDDEN = "••••"
# Shorter ones would be found inside innocent words.
_SHORTEST = 4


def without_secrets(answer: Answer, webhook: Webhook) -> Answer:
    """The answer as it may be kept and shown."""
    hidden = _secrets(webhook.secret, webhook.previous_secret, webhook.setup.authorization)
    said = "\n".join([value for _, value in answer.response_headers])
    if answer.error is not None:
        said += answer.error
    for text, raw in hidden:
        if raw in answer.response_body or text in said:
            break
    else:
        return answer
    body, headers, error = answer.response_body, answer.response_headers, answer.error
    for text, raw in hidden:
        body = body.replace(raw, HIDDEN.encode())
        headers = tuple((name, value.replace(text, HIDDEN)) for name, value in headers)
        error = error.replace(text, HIDDEN) if error is not None else None
    return replace(answer, response_body=body, response_headers=headers, error=error)


@lru_cache(maxsize=4096)
def _secrets(secret: str, previous: str | None, authorization: str | None) -> tuple[tuple[str, bytes], ...]:
    """Of `Bearer abc` only what follows the scheme is secret."""
    found = [secret.removeprefix(SECRET_PREFIX)]
    if previous is not None:
        found.append(previous.removeprefix(SECRET_PREFIX))
    if authorization is not None:
        scheme, _, rest = authorization.partition(" ")
        found.append(rest or scheme)
    return tuple((text, text.encode()) for text in found if len(text) >= _SHORTEST)
