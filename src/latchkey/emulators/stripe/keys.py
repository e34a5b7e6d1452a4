"""The pretend account's API keys and webhook secrets, and how Stripe signs with the latter."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeKeys:
    secret_key: str
    publishable_key: str
    webhook_secret: str
    # While the secret is rolled, Stripe signs with both.
    previous_webhook_secret: str | None = None


def make_keys(*, live: bool = False) -> StripeKeys:
    kind = "live" if live else "test"
    return StripeKeys(
        secret_key=f"sk_{kind}_{secrets.token_hex(32)}",
        publishable_key=f"pk_{kind}_{secrets.token_hex(32)}",
        webhook_secret=new_webhook_secret(),
    )


def new_webhook_secret() -> str:
    return f"whsec_{secrets.token_hex(24)}"


def signature(secret: str, at: int, body: bytes) -> str:
    return hmac.digest(secret.encode(), f"{at}.".encode() + body, "sha256").hex()


def header(at: int, *signatures: str, scheme: str = "v1") -> str:
    return ",".join((f"t={at}", *(f"{scheme}={one}" for one in signatures)))
