"""What an operator gives for an app in Stripe, checked before it is kept."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from latchkey.stores.http import allowed_address

API_BASE_URL = "https://api.stripe.com"
USER_ID_METADATA_KEY = "app_user_id"

_REQUIRED = ("api_key", "webhook_secret")
_OPTIONAL = ("previous_webhook_secret", "publishable_key", "user_id_metadata_key", "api_base_url")
_API_KEY = re.compile(r"(sk|rk)_(test|live)_[A-Za-z0-9_]{8,300}", re.ASCII)
_PUBLISHABLE_KEY = re.compile(r"pk_(test|live)_[A-Za-z0-9_]{8,300}", re.ASCII)
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]{8,300}", re.ASCII)
_METADATA_KEY = re.compile(r"[^\[\]\x00-\x1f\x7f]{1,40}")


class StripeCredentials(msgspec.Struct, frozen=True, kw_only=True):
    api_key: str
    # The secret of the webhook endpoint first, then the one before it, while the endpoint rolls from one to the other.
    webhook_secrets: tuple[str, ...]
    # The key in the metadata of subscriptions, checkout sessions and customers that holds the app user id.
    user_id_metadata_key: str = USER_ID_METADATA_KEY
    # For pages that take a payment.
    publishable_key: str | None = None
    api_base_url: str = API_BASE_URL

    @property
    def livemode(self) -> bool:
        return self.api_key.startswith(("sk_live_", "rk_live_"))

    def __repr__(self) -> str:
        return f"StripeCredentials(livemode={self.livemode})"


def parse(given: Mapping[str, Any], allowed_hosts: frozenset[str]) -> StripeCredentials:
    """ValueError names the field and says what is wrong with it. No message repeats a key or a secret."""
    for name in _REQUIRED:
        if given.get(name) in (None, "", []):
            raise ValueError(f"{name} is missing")
    unknown = sorted(str(name)[:50] for name in given.keys() - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise ValueError(f"unknown field: {unknown[0]}")
    api_key = given["api_key"]
    if not isinstance(api_key, str) or _API_KEY.fullmatch(api_key) is None:
        raise ValueError("api_key must be a secret or restricted key of Stripe: sk_live_…, sk_test_…, rk_live_…, …")
    publishable_key = given.get("publishable_key") or None
    if publishable_key is not None:
        if not isinstance(publishable_key, str) or _PUBLISHABLE_KEY.fullmatch(publishable_key) is None:
            raise ValueError("publishable_key must be a publishable key of Stripe: pk_live_… or pk_test_…")
        if publishable_key[3:8] != api_key[3:8]:
            raise ValueError("publishable_key and api_key must both be live keys or both be test keys")
    metadata_key = given.get("user_id_metadata_key") or USER_ID_METADATA_KEY
    if not isinstance(metadata_key, str) or _METADATA_KEY.fullmatch(metadata_key) is None:
        raise ValueError("user_id_metadata_key must have 1 to 40 characters, without brackets")
    address = given.get("api_base_url")
    return StripeCredentials(
        api_key=api_key,
        webhook_secrets=_secrets(given),
        user_id_metadata_key=metadata_key,
        publishable_key=publishable_key,
        api_base_url=API_BASE_URL if address in (None, "") else allowed_address("api_base_url", address, allowed_hosts),
    )


def describe(credentials: StripeCredentials) -> dict[str, str]:
    kind = "restricted" if credentials.api_key.startswith("rk_") else "secret"
    mode = "live" if credentials.livemode else "test"
    shown = {
        "mode": mode,
        "api_key": f"{kind} key, SHA-256 {_fingerprint(credentials.api_key)}",
        "webhook_secret": f"SHA-256 {_fingerprint(credentials.webhook_secrets[0])}",
        "user_id_metadata_key": credentials.user_id_metadata_key,
    }
    if len(credentials.webhook_secrets) > 1:
        shown["previous_webhook_secret"] = f"SHA-256 {_fingerprint(credentials.webhook_secrets[1])}"
    if credentials.publishable_key is not None:
        shown["publishable_key"] = credentials.publishable_key
    if credentials.api_base_url != API_BASE_URL:
        shown["api_base_url"] = credentials.api_base_url
    return shown


def _secrets(given: Mapping[str, Any]) -> tuple[str, ...]:
    """One, or two while the endpoint rolls its secret: as a list, or the older one in a field of its own."""
    current = given["webhook_secret"]
    found = [*current] if isinstance(current, list) else [current]
    previous = given.get("previous_webhook_secret")
    if previous not in (None, ""):
        found.append(previous)
    if len(found) > 2:
        raise ValueError("webhook_secret: there can be two at most, the current one and the one before it")
    for one in found:
        if not isinstance(one, str) or _SECRET.fullmatch(one) is None:
            name = "previous_webhook_secret" if one is previous else "webhook_secret"
            raise ValueError(f"{name} must be the signing secret of the webhook endpoint: whsec_…")
    return tuple(dict.fromkeys(found))


def _fingerprint(secret: str) -> str:
    return f"{hashlib.sha256(secret.encode()).hexdigest()[:16]}…"
