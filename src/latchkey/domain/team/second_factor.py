"""The rules of the second factor: time steps (RFC 6238), and the form of codes."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from latchkey.domain.instants import MINUTE, SECOND, Ms

# What every authenticator app can do: SHA-1, six digits, 30 seconds. Not all can do more.
DIGITS = 6
STEP: Ms = 30 * SECOND
# A clock that is wrong by one step still works.
DRIFT = 1
SECRET_BYTES = 20
RECOVERY_CODES = 10
# 16 letters of 32: 80 bits, so a fast hash of a code cannot be reversed.
RECOVERY_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
RECOVERY_LENGTH = 16
# How long somebody may take to enter the code after the password.
HALF_LASTS: Ms = 10 * MINUTE
ISSUER = "Latchkey"

_DIGITS = re.compile(rf"[0-9]{{{DIGITS}}}")
_RECOVERY = re.compile(rf"[{RECOVERY_LETTERS}]{{{RECOVERY_LENGTH}}}")


def steps_at(now: Ms) -> tuple[int, ...]:
    """The time steps whose codes count now."""
    step = now // STEP
    return tuple(range(max(step - DRIFT, 0), step + DRIFT + 1))


def as_code(text: str) -> str | None:
    """The digits of a code as somebody typed it, perhaps with spaces; None if it is none."""
    plain = re.sub(r"[\s-]", "", text[:100])
    return plain if _DIGITS.fullmatch(plain) else None


def as_recovery_code(text: str) -> str | None:
    """A recovery code as somebody typed it, without dashes and in lower case; None if it is none."""
    plain = re.sub(r"[\s-]", "", text[:100]).lower()
    return plain if _RECOVERY.fullmatch(plain) else None


def shown_recovery_code(code: str) -> str:
    return "-".join(code[start : start + 4] for start in range(0, len(code), 4))


def shown_secret(secret: str) -> str:
    return " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))


def app_address(secret: str, email: str) -> str:
    """What the QR code says, for authenticator apps. `secret` is in base32."""
    label = f"{ISSUER}:{email}"
    return f"otpauth://totp/{quote(label, safe='')}?{urlencode({'secret': secret, 'issuer': ISSUER})}"
