"""What an operator gives for an app in Stripe, checked before it is kept."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from latchkey.stores import credential_form

API_BASE_URL = "https://api.stripe.com"
USER_ID_METADATA_KEY = "app_user_id"

_API_KEY = re.compile(r"(sk|rk)_(test|live)_[A-Za-z0-9_]{8,300}", re.ASCII)
_PUBLISHABLE_KEY = re.compile(r"pk_(test|live)_[A-Za-z0-9_]{8,300}", re.ASCII)
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]{8,300}", re.ASCII)
_METADATA_KEY = re.compile(r"[^\[\]\x00-\x1f\x7f]{1,40}")


FIELDS = (
    credential_form.CredentialField(
        "api_key",
        "API key",
        "a secret or restricted key.",
        "A restricted key, rk_live_… or rk_test_….",
        secret=True,
        required=True,
    ),
    credential_form.CredentialField(
        "webhook_secret",
        "Signing secret of the webhook endpoint",
        "the signing secret of the webhook endpoint. While it is rolled, both in a list.",
        "whsec_…",
        json=str | list[str],
        secret=True,
        required=True,
    ),
    credential_form.CredentialField(
        "previous_webhook_secret",
        "Previous signing secret",
        "the old signing secret, while it is rolled.",
        "Only while the endpoint's secret is rolled.",
        secret=True,
    ),
    credential_form.CredentialField(
        "publishable_key", "Publishable key", "for pages that take a payment.", "pk_…, for pages that take a payment."
    ),
    credential_form.CredentialField(
        "user_id_metadata_key",
        "Metadata key of the app user id",
        "the metadata key that holds the app user id; `app_user_id` by default.",
        "In subscriptions, checkout sessions and customers. app_user_id if empty.",
    ),
    credential_form.api_address_field("Address of Stripe's API"),
)


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
    credential_form.check_required(given, FIELDS)
    credential_form.check_known(given, FIELDS)
    wrong = "must be a secret or restricted key of Stripe: sk_live_…, sk_test_…, rk_live_…, …"
    api_key = credential_form.text_of(given, "api_key", _API_KEY, wrong)
    publishable_key, metadata_key = None, USER_ID_METADATA_KEY
    if given.get("publishable_key"):
        wrong = "must be a publishable key of Stripe: pk_live_… or pk_test_…"
        publishable_key = credential_form.text_of(given, "publishable_key", _PUBLISHABLE_KEY, wrong)
        if publishable_key[3:8] != api_key[3:8]:
            raise ValueError("publishable_key and api_key must both be live keys or both be test keys")
    if given.get("user_id_metadata_key"):
        wrong = "must have 1 to 40 characters, without brackets"
        metadata_key = credential_form.text_of(given, "user_id_metadata_key", _METADATA_KEY, wrong)
    return StripeCredentials(
        api_key=api_key,
        webhook_secrets=_secrets(given),
        user_id_metadata_key=metadata_key,
        publishable_key=publishable_key,
        api_base_url=credential_form.address_of(given, "api_base_url", allowed_hosts) or API_BASE_URL,
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


FORM = credential_form.CredentialForm("Stripe", FIELDS, parse, describe)
