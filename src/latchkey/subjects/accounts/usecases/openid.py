"""Sign-in with an OpenID provider: its metadata and keys, the sign-in itself, and the account it leads to.

The authorization code flow with PKCE. A token is accepted only if it is signed with a key that the provider publishes
now. The person it names gets in only if an owner has made an account for them before.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import jwt
import msgspec
from msgspec import Struct

from latchkey.database.pool import Database
from latchkey.domain.instants import HOUR, MINUTE, Ms
from latchkey.domain.refusal import Refusal
from latchkey.http_client import HttpClient, HttpError
from latchkey.subjects.accounts import storage
from latchkey.subjects.accounts.rules import Account, Identity, NotBelieved, NotKnown, identity_of
from latchkey.subjects.accounts.usecases.accounts import find_account

# Asymmetric signatures only: never "none", never one with a shared secret.
ALGORITHMS = ("RS256", "ES256")
DESCRIPTION_KEPT: Ms = 1 * HOUR
# An unknown key id may be a new key, so the keys are fetched again, but not more often than this.
KEYS_ASKED_EVERY: Ms = 1 * MINUTE
PATIENCE = 10.0
LARGEST_ANSWER = 512 * 1024


class ProviderAway(Refusal):
    """The provider does not respond, or its response is invalid."""


class SignInAttempt(msgspec.Struct, frozen=True):
    """One sign-in under way: what the browser must send back. Kept only in an encrypted cookie."""

    state: str
    nonce: str
    verifier: str
    next: str
    began_at: Ms


class Description(Struct, frozen=True):
    """The provider's metadata (its discovery document)."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    # Some providers accept the client secret only in the form body.
    secret_in_form: bool
    read_at: Ms


@dataclass(slots=True)
class Provider:
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = "single sign-on"
    extra_ca: Path | None = None
    _description: Description | None = None
    _keys: list[dict[str, Any]] = field(default_factory=list)
    _keys_asked_at: Ms | None = None

    async def begin(self, return_to: str, next: str, now: Ms) -> tuple[str, SignInAttempt]:
        """Where to redirect the browser, and the attempt it must present on return."""
        description = await self._describe(now)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": return_to,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        glue = "&" if "?" in description.authorization_endpoint else "?"
        return description.authorization_endpoint + glue + urlencode(asked), SignInAttempt(
            state, nonce, verifier, next, now
        )

    async def finish(self, code: str, attempt: SignInAttempt, return_to: str, now: Ms) -> Identity:
        """The identity of the person who returned with this code."""
        token = await self._exchange(code, attempt, return_to, now)
        claims = await self._checked(token, now)
        return identity_of(claims, issuer=self.issuer, client_id=self.client_id, nonce=attempt.nonce, now=now)

    async def _describe(self, now: Ms) -> Description:
        known = self._description
        if known is not None and now - known.read_at < DESCRIPTION_KEPT:
            return known
        said = await self._ask("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if said.get("issuer") != self.issuer:
            raise ProviderAway(f"{self.name} calls itself by another name than the one in LATCHKEY_OPENID_ISSUER.")
        where = [said.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        authorization, token, keys = (one if is_secure(one) else "" for one in where)
        if not (authorization and token and keys):
            raise ProviderAway(f"{self.name} does not say where to sign in over https.")
        methods = said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        in_form = "client_secret_basic" not in methods and "client_secret_post" in methods
        self._description = Description(authorization, token, keys, in_form, now)
        return self._description

    async def _exchange(self, code: str, attempt: SignInAttempt, return_to: str, now: Ms) -> str:
        description = await self._describe(now)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": return_to,
            "code_verifier": attempt.verifier,
        }
        authorization = None
        if description.secret_in_form:
            form |= {"client_id": self.client_id, "client_secret": self.client_secret}
        else:
            pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
            authorization = "Basic " + base64.b64encode(pair.encode()).decode()
        said = await self._ask(
            "POST", description.token_endpoint, form, authorization, refused="did not accept this sign-in"
        )
        token = said.get("id_token")
        if not isinstance(token, str):
            raise ProviderAway(f"{self.name} did not say who you are.")
        return token

    async def _checked(self, token: str, now: Ms) -> Mapping[str, Any]:
        """The claims, if the provider's signature is valid."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if algorithm not in ALGORITHMS:
                raise NotBelieved(f"The token is signed with {str(algorithm)[:20]}, which we do not take.")
            key = await self._key(kid, algorithm, now)
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                # `identity_of` checks issuer, audience and times against the given `now`.
                options={f"verify_{what}": False for what in ("exp", "iat", "nbf", "aud", "iss", "sub", "jti")},  # type: ignore[arg-type]  # the keys are of the typed dict
            )
        except jwt.PyJWTError:
            raise NotBelieved("The token's signature is not the provider's.") from None
        return claims

    async def _key(self, kid: str | None, algorithm: str, now: Ms) -> jwt.PyJWK:
        found = self._found(kid, algorithm)
        if found is None and (self._keys_asked_at is None or abs(now - self._keys_asked_at) >= KEYS_ASKED_EVERY):
            description = await self._describe(now)
            said = await self._ask("GET", description.jwks_uri)
            keys = said.get("keys")
            self._keys = [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
            self._keys_asked_at = now
            found = self._found(kid, algorithm)
        if found is None:
            raise NotBelieved("The token is signed with a key that the provider does not publish.")
        return found

    def _found(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        kind = {"R": "RSA", "E": "EC"}[algorithm[0]]
        fitting = [
            key
            for key in self._keys
            if key.get("kty") == kind and key.get("use", "sig") == "sig" and key.get("alg", algorithm) == algorithm
            if kid is None or key.get("kid") == kid
        ]
        # A token that names no key is accepted only if there is just one.
        return jwt.PyJWK(fitting[0], algorithm) if len(fitting) == 1 else None

    async def _ask(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        authorization: str | None = None,
        *,
        refused: str = "",
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form).encode() if form is not None else None
        try:
            extra_ca = self.extra_ca.read_bytes() if self.extra_ca is not None else None
            async with HttpClient(timeout=PATIENCE, extra_ca=extra_ca) as http:
                response = await http.ask(
                    method, url, headers=headers, authorization=authorization, body=body, most_bytes=LARGEST_ANSWER
                )
        except (HttpError, TimeoutError, OSError):
            raise ProviderAway(f"{self.name} does not answer. Try again in a moment.") from None
        if refused and 400 <= response.status < 500:
            raise NotBelieved(f"{self.name} {refused}. Start again.")
        if response.status != 200:
            raise ProviderAway(f"{self.name} answered {response.status}. Try again in a moment.")
        try:
            return msgspec.json.decode(response.body[:LARGEST_ANSWER], type=dict[str, Any])
        except (ValueError, RecursionError):
            raise ProviderAway(f"{self.name} answered something that is not JSON.") from None


async def account_for(database: Database, identity: Identity) -> Account:
    """The account of this identity: linked before, or linked now by an e-mail address that the provider verified."""
    linked = await storage.find_account(database, openid=identity.key)
    if linked is not None:
        return linked
    if identity.email is None:
        raise NotKnown("Your e-mail address is not verified there, so we cannot know which account is yours.")
    try:
        account = await find_account(database, identity.email)
    except Refusal:
        account = None
    if account is None:
        raise NotKnown(f"There is no account for {identity.email[:200]}. An owner makes one on the team page.")
    if not await storage.link_openid(database, account.id, identity.key):
        raise NotKnown(f"The account {account.email} belongs to somebody else there.")
    return account


def is_secure(address: object) -> bool:
    """Whether this is an https address."""
    with suppress(ValueError):
        parts = urlsplit(address if isinstance(address, str) else "")
        return parts.scheme == "https" and bool(parts.hostname)
    return False
