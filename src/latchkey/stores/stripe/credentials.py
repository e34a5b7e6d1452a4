"""What an operator gives for an app in Stripe, checked before it is kept."""

import hashlib
import re

import msgspec

from latchkey.stores.credential_form import CredentialField, CredentialForm, api_address_field, text

API_BASE_URL = "https://api.stripe.com"
USER_ID_METADATA_KEY = "app_user_id"

_API_KEY = re.compile(r"(?:sk|rk)_(?:test|live)_[A-Za-z0-9_]{8,300}", re.ASCII)
_PUBLISHABLE_KEY = re.compile(r"pk_(?:test|live)_[A-Za-z0-9_]{8,300}", re.ASCII)
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]{8,300}", re.ASCII)
_METADATA_KEY = re.compile(r"[^\[\]\x00-\x1f\x7f]{1,40}")


class StripeCredentials(msgspec.Struct, frozen=True, kw_only=True):
    api_key: str
    webhook_secret: str
    # While the endpoint rolls from one to the other.
    previous_webhook_secret: str | None = None
    # For pages that take a payment.
    publishable_key: str | None = None
    # The key in the metadata of subscriptions, checkout sessions and customers that holds the app user id.
    user_id_metadata_key: str = USER_ID_METADATA_KEY
    api_base_url: str = API_BASE_URL

    @property
    def livemode(self) -> bool:
        return self.api_key.startswith(("sk_live_", "rk_live_"))

    @property
    def webhook_secrets(self) -> tuple[str, ...]:
        """The current one first."""
        return tuple(one for one in (self.webhook_secret, self.previous_webhook_secret) if one is not None)

    def __repr__(self) -> str:
        return f"StripeCredentials(livemode={self.livemode})"


def _made(webhook_secret: list[str], previous_webhook_secret: str | None = None, **others: str) -> StripeCredentials:
    """Of secrets there may be two: as a list, or the older one in a field of its own."""
    secrets = dict.fromkeys(one for one in (*webhook_secret, previous_webhook_secret) if one is not None)
    if len(secrets) > 2:
        raise ValueError("webhook_secret: there can be two at most, the current one and the one before it")
    if "publishable_key" in others and others["publishable_key"][3:8] != others["api_key"][3:8]:
        raise ValueError("publishable_key and api_key must both be live keys or both be test keys")
    fields = ("webhook_secret", "previous_webhook_secret")
    return StripeCredentials(**dict(zip(fields, secrets, strict=False)), **others)


def _fingerprint(secret: str) -> str:
    return f"SHA-256 {hashlib.sha256(secret.encode()).hexdigest()[:16]}…"


_secret = text(_SECRET, "must be the signing secret of the webhook endpoint: whsec_…")
FIELDS = (
    CredentialField(
        "api_key",
        "API key",
        "a secret or restricted key.",
        "A restricted key, rk_live_… or rk_test_….",
        secret=True,
        required=True,
        check=text(_API_KEY, "must be a secret or restricted key of Stripe: sk_live_…, sk_test_…, rk_live_…, …"),
        show=lambda key: f"{'restricted' if key.startswith('rk_') else 'secret'} key, {_fingerprint(key)}",
    ),
    CredentialField(
        "webhook_secret",
        "Signing secret of the webhook endpoint",
        "the signing secret of the webhook endpoint. While it is rolled, both in a list.",
        "whsec_…",
        json=str | list[str],
        secret=True,
        required=True,
        check=lambda given: [_secret(one) for one in (given if isinstance(given, list) else [given])],
        show=_fingerprint,
    ),
    CredentialField(
        "previous_webhook_secret",
        "Previous signing secret",
        "the old signing secret, while it is rolled.",
        "Only while the endpoint's secret is rolled.",
        secret=True,
        check=_secret,
        show=_fingerprint,
    ),
    CredentialField(
        "publishable_key",
        "Publishable key",
        "for pages that take a payment.",
        "pk_…, for pages that take a payment.",
        check=text(_PUBLISHABLE_KEY, "must be a publishable key of Stripe: pk_live_… or pk_test_…"),
    ),
    CredentialField(
        "user_id_metadata_key",
        "Metadata key of the app user id",
        "the metadata key that holds the app user id; `app_user_id` by default.",
        "In subscriptions, checkout sessions and customers. app_user_id if empty.",
        check=text(_METADATA_KEY, "must have 1 to 40 characters, without brackets"),
    ),
    api_address_field("Address of Stripe's API", API_BASE_URL),
)
FORM = CredentialForm("Stripe", FIELDS, _made, lambda saved: {"mode": "live" if saved.livemode else "test"})
