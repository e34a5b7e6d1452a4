"""The signature that a receiver can verify (Standard Webhooks), and the masked Authorization value for the log."""

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
    """One signature for each secret: during a rotation a receiver can verify with the old secret or the new one."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    if len(secrets) == 1:
        return _sign(secrets[0], signed)
    return " ".join([_sign(secret, signed) for secret in secrets])


@lru_cache(maxsize=4096)
def masked(authorization: str) -> str:
    """The Authorization value for the log: only the scheme remains."""
    scheme, _, rest = authorization.partition(" ")
    return f"{scheme} {_HIDDEN}" if rest else _HIDDEN


def _sign(secret: str, signed: bytes) -> str:
    # Copying a prepared state takes a third of the time of `hmac.digest`, which also releases the interpreter's lock.
    state = _prepared(secret).copy()
    state.update(signed)
    return "v1," + binascii.b2a_base64(state.digest(), newline=False).decode()


@lru_cache(maxsize=4096)
def _prepared(secret: str) -> hmac.HMAC:
    return hmac.new(base64.b64decode(secret.removeprefix(SECRET_PREFIX) + "=="), digestmod=hashlib.sha256)
