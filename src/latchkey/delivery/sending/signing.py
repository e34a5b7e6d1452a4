"""What a receiver can check: the configured Authorization value, and a signature as Standard Webhooks says."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from functools import lru_cache

from latchkey.delivery.webhook import SECRET_PREFIX

_HIDDEN = "••••"


def signature(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """One signature for each secret, so that receivers verify with the old one while they learn the new."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    if len(secrets) == 1:
        return _sign(secrets[0], signed)
    return " ".join([_sign(secret, signed) for secret in secrets])


@lru_cache(maxsize=4096)
def masked(authorization: str) -> str:
    """The Authorization value as the log may show it: the scheme stays, and nothing of the secret."""
    scheme, _, rest = authorization.partition(" ")
    return f"{scheme} {_HIDDEN}" if rest else _HIDDEN


def _sign(secret: str, signed: bytes) -> str:
    # A copy of a prepared state is a third of the price of `hmac.digest`, which also lets go of the interpreter's lock.
    state = _prepared(secret).copy()
    state.update(signed)
    return "v1," + binascii.b2a_base64(state.digest(), newline=False).decode()


@lru_cache(maxsize=4096)
def _prepared(secret: str) -> hmac.HMAC:
    return hmac.new(base64.b64decode(secret.removeprefix(SECRET_PREFIX) + "=="), digestmod=hashlib.sha256)
