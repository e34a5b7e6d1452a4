"""Removes secrets from responses: a receiver that echoes its request must not bring them into the log."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from latchkey.delivery.webhook import SECRET_PREFIX, Webhook

if TYPE_CHECKING:
    from latchkey.delivery.sending.reply import Answer

HIDDEN = "••••"
# A shorter secret would match ordinary words.
_SHORTEST = 4


def without_secrets(answer: Answer, webhook: Webhook) -> Answer:
    """The response as it may be stored and shown."""
    hidden = _secrets(webhook.secret, webhook.previous_secret, webhook.setup.authorization)
    text_of_answer = "\n".join([value for _, value in answer.response_headers])
    if answer.error is not None:
        text_of_answer += answer.error
    for text, raw in hidden:
        if raw in answer.response_body or text in text_of_answer:
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
    """Each secret as text and as bytes. In `Bearer abc` only the part after the scheme is secret."""
    found = [secret.removeprefix(SECRET_PREFIX)]
    if previous is not None:
        found.append(previous.removeprefix(SECRET_PREFIX))
    if authorization is not None:
        scheme, _, rest = authorization.partition(" ")
        found.append(rest or scheme)
    return tuple((text, text.encode()) for text in found if len(text) >= _SHORTEST)
