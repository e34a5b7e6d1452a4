"""What a receiver can check: the configured Authorization value, and a signature as Standard Webhooks says."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache

from latchkey.delivery.webhook import SECRET_PREFIX

_HIDDEN = "••••"


def signature(secrets: Iterable[str], message_id: str, timestamp: int, body: bytes) -> str:
    """One signature for each secret, so that receivers verify with the old one while they learn the new."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode() for secret in secrets
    )


def masked(headers: dict[str, str]) -> dict[str, str]:
    """The headers as the log may show them: of the Authorization value the scheme stays, and nothing of the secret."""
    value = headers.get("Authorization")
    if value is None:
        return headers
    scheme, _, rest = value.partition(" ")
    return {**headers, "Authorization": f"{scheme} {_HIDDEN}" if rest else _HIDDEN}


@lru_cache(maxsize=4096)
def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX) + "==")
