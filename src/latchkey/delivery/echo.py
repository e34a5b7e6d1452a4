"""Receivers that echo what they were sent, as debugging ones do, must not bring the secret into the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from latchkey.delivery.webhook import SECRET_PREFIX, Webhook

if TYPE_CHECKING:
    from latchkey.delivery.sender import Answer

HIDDEN = "••••"
# Shorter ones would be found inside innocent words.
_SHORTEST = 4


def without_secrets(answer: Answer, webhook: Webhook) -> Answer:
    """The answer as it may be kept and shown."""
    hidden = [text for text in _secrets(webhook) if len(text) >= _SHORTEST]
    if not any(_contains(answer, text) for text in hidden):
        return answer
    body, headers, error = answer.response_body, answer.response_headers, answer.error
    for text in hidden:
        body = body.replace(text.encode(), HIDDEN.encode())
        headers = tuple((name, value.replace(text, HIDDEN)) for name, value in headers)
        error = error.replace(text, HIDDEN) if error is not None else None
    return replace(answer, response_body=body, response_headers=headers, error=error)


def _contains(answer: Answer, text: str) -> bool:
    return (
        text.encode() in answer.response_body
        or any(text in value for _, value in answer.response_headers)
        or (answer.error is not None and text in answer.error)
    )


def _secrets(webhook: Webhook) -> list[str]:
    """Of `Bearer abc` only what follows the scheme is secret."""
    found = [webhook.secret.removeprefix(SECRET_PREFIX)]
    if webhook.previous_secret is not None:
        found.append(webhook.previous_secret.removeprefix(SECRET_PREFIX))
    if webhook.setup.authorization is not None:
        scheme, _, rest = webhook.setup.authorization.partition(" ")
        found.append(rest or scheme)
    return found
