"""What a receiver can check: the configured Authorization value, and a signature as Standard Webhooks says."""

from __future__ import annotations

import base64
import binascii
import hashlib
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
    # HMAC as RFC 2104 has it, from two prepared states: half the price of `hmac`, whose `digest` also lets go of the
    # interpreter's lock, and getting that back from the client's threads costs more than the signature.
    inner, outer = _prepared(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(signed)
    outer.update(inner.digest())
    return "v1," + binascii.b2a_base64(outer.digest(), newline=False).decode()


@lru_cache(maxsize=4096)
def _prepared(secret: str) -> tuple[hashlib._Hash, hashlib._Hash]:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX) + "==")
    if len(key) > 64:
        key = hashlib.sha256(key).digest()
    key = key.ljust(64, b"\0")
    return hashlib.sha256(bytes(one ^ 0x36 for one in key)), hashlib.sha256(bytes(one ^ 0x5C for one in key))
