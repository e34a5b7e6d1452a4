"""The claims that an identity token must have. Its signature has been verified before."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.refusal import Refusal

# How far the provider's clock and ours may be apart.
SKEW: Ms = 1 * MINUTE
# From the redirect to the provider until the return.
LASTS: Ms = 10 * MINUTE


class NotBelieved(Refusal):
    """The provider's response does not match our request, or cannot be trusted."""


class NotKnown(Refusal):
    """The provider knows the user, but we have no account for them, or the e-mail address is not verified."""


@dataclass(frozen=True, slots=True)
class Identity:
    issuer: str
    subject: str
    # None if the provider did not verify it.
    email: str | None

    @property
    def key(self) -> str:
        """How an account stores it."""
        return f"{self.issuer} {self.subject}"


def identity_of(claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, now: Ms) -> Identity:
    """The identity in the claims of a verified token."""
    if claims.get("iss") != issuer:
        raise NotBelieved("The token was issued by somebody else.")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences:
        raise NotBelieved("The token was issued for another application.")
    # A token for several applications must name the one that requested it.
    if claims.get("azp", None if len(audiences) > 1 else client_id) != client_id:
        raise NotBelieved("The token was issued for another application.")
    if _instant(claims, "exp") + SKEW <= now:
        raise NotBelieved("The token has expired.")
    if max(_instant(claims, "iat"), _instant(claims, "nbf", 0)) - SKEW > now:
        raise NotBelieved("The token is from the future. Is the clock of this machine right?")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
        raise NotBelieved("The token belongs to another sign-in.")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= 255:
        raise NotBelieved("The token names nobody.")
    email, verified = claims.get("email"), claims.get("email_verified")
    # Some providers send "true" as text.
    vouched = verified is True or verified == "true"
    return Identity(issuer, subject, email if vouched and isinstance(email, str) else None)


def _instant(claims: Mapping[str, Any], name: str, default: int | None = None) -> Ms:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        raise NotBelieved("The token does not say from when to when it holds.")
    return int(value * 1000)
