"""The signature that a receiver can verify (Standard Webhooks), and the masked Authorization value for the log."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from latchkey.delivery.webhook import SECRET_PREFIX

if TYPE_CHECKING:
    from hashlib import _Hash

_HIDDEN = "••••"
# Of SHA-256, in bytes.
_BLOCK = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


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
    # HMAC of RFC 2104, from hashes that have taken in the secret already. The standard library's `hmac` gives the same,
    # but copies its state seven times where this needs four copies: a seventh of the worker's time went into it.
    inner, outer = _prepared(secret)
    first = inner.copy()
    first.update(signed)
    second = outer.copy()
    second.update(first.digest())
    return "v1," + binascii.b2a_base64(second.digest(), newline=False).decode()


@lru_cache(maxsize=4096)
def _prepared(secret: str) -> tuple[_Hash, _Hash]:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX) + "==")
    if len(key) > _BLOCK:
        key = hashlib.sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    return hashlib.sha256(key.translate(_INNER)), hashlib.sha256(key.translate(_OUTER))
