"""What an operator gives for an app in Stripe, checked before it is kept."""

import hashlib
import re

import msgspec

from latchkey.stores.credential_form import CredentialForm, declared, text

API_BASE_URL = "https://api.stripe.com"
USER_ID_METADATA_KEY = "app_user_id"


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


_secret = text(
    re.compile(r"whsec_[A-Za-z0-9+/=_-]{8,300}"), "must be the signing secret of the webhook endpoint: whsec_…"
)
FIELDS = declared(
    __package__,
    {
        "api_key": {
            "show": lambda key: f"{'restricted' if key.startswith('rk_') else 'secret'} key, {_fingerprint(key)}"
        },
        "webhook_secret": {
            "json": str | list[str],
            "check": lambda given: [_secret(one) for one in (given if isinstance(given, list) else [given])],
            "show": _fingerprint,
        },
        "previous_webhook_secret": {"check": _secret, "show": _fingerprint},
        "api_base_url": {"address": API_BASE_URL},
    },
)
FORM = CredentialForm("Stripe", FIELDS, _made, lambda saved: {"mode": "live" if saved.livemode else "test"})
