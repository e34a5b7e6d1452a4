"""The API of Stripe: Stripe's own library over `StoreHttp`, so that our time limits, bounded answers and errors hold.

    client = api.client(app)
    with asking():
        session = await client.v1.checkout.sessions.create_async({...}, options)

The library is loaded when the first app asks: it takes a third of a second.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown, StoreError
from latchkey.stores.http import StoreHttp

if TYPE_CHECKING:
    from stripe import StripeClient

# Answers have the form of this version, whatever version the account or a webhook endpoint uses.
API_VERSION = "2026-10-28.endive"
# How many apps' clients are kept.
_MOST_CLIENTS = 1000


class UnknownObject(StoreError):
    """Stripe is certain that it has no such object in this account and mode."""


class _Refused(msgspec.Struct):
    """Stripe's form of an error."""

    error: dict[str, Any]


class StripeApi:
    def __init__(self, http: StoreHttp) -> None:
        self._http = http
        self._clients: dict[tuple[str, int], StripeClient] = {}

    def client(self, app: ConnectedApp) -> StripeClient:
        """Stripe's client with the credentials of an app. Call it within `asking` or `acting`."""
        key = app.app_id, app.version
        if key not in self._clients:
            if len(self._clients) >= _MOST_CLIENTS:
                self._clients.clear()
            self._clients[key] = _build(app, self._http)
        return self._clients[key]

    async def close(self) -> None:
        self._clients.clear()
        await self._http.close()


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """A question. Raises Unknown, CredentialsRefused or StoreDown in place of the library's errors, whose messages may
    repeat what was sent."""
    import stripe

    try:
        yield
    except stripe.StripeError as error:
        raise refusal(error) from None


@contextlib.contextmanager
def acting() -> Iterator[None]:
    """A request for a change. What Stripe refuses in its own form was not done: ActionRefused."""
    import stripe

    try:
        yield
    except stripe.StripeError as error:
        refused = refusal(error)
        code = word(error.code)
        if isinstance(refused, UnknownObject):
            raise ActionRefused("Stripe has no such object in this account and mode.") from None
        if isinstance(error, stripe.InvalidRequestError | stripe.CardError):
            raise ActionRefused(f"Stripe does not do this as things stand ({code or error.http_status}).") from None
        raise refused from None


def refusal(error: Any) -> StoreError:
    """What an error of the library means."""
    import stripe

    status = error.http_status
    if isinstance(error, stripe.AuthenticationError):
        return CredentialsRefused("Stripe refuses the api_key (401).")
    if isinstance(error, stripe.PermissionError):
        return CredentialsRefused("Stripe refuses the api_key: it lacks a permission (403).")
    if isinstance(error, stripe.InvalidRequestError) and (status == 404 or error.code == "resource_missing"):
        return UnknownObject("Stripe knows no such object.")
    return StoreDown(f"Stripe answered {status} ({word(error.code) or 'without a code'}).")


def word(code: object) -> str:
    """A code that may be shown: one word, no text of a stranger."""
    fits = (
        isinstance(code, str)
        and len(code) <= 60
        and code.replace("_", "").isascii()
        and code.replace("_", "").isalnum()
    )
    return str(code) if fits else ""


def _build(app: ConnectedApp, http: StoreHttp) -> StripeClient:
    import stripe

    base_url = app.credentials.api_base_url

    class OverStoreHttp(stripe.HTTPClient):
        name = "latchkey"

        async def request_async(
            self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
        ) -> tuple[bytes, int, Mapping[str, str]]:
            if not _same_origin(url, base_url):
                raise StoreDown("Stripe's library asked for another address than the API's.")
            return await _send(http, method, url, headers, post_data)

        async def close_async(self) -> None:
            """`StoreHttp` is closed by its owner."""

    stripe.enable_telemetry = False
    # The library logs addresses, which hold the ids of subscriptions.
    logging.getLogger("stripe").setLevel(logging.ERROR)
    return stripe.StripeClient(
        app.credentials.api_key,
        stripe_version=API_VERSION,
        base_addresses={"api": base_url},
        max_network_retries=0,
        http_client=OverStoreHttp(),
    )


def _same_origin(url: str, base_url: str) -> bool:
    one, other = urlsplit(url), urlsplit(base_url)
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


async def _send(
    http: StoreHttp, method: str, url: str, headers: Mapping[str, str], body: Any
) -> tuple[bytes, int, Mapping[str, str]]:
    # What the library tells of this machine is nobody's business.
    sent = {
        name: value
        for name, value in headers.items()
        if name.lower() not in ("x-stripe-client-user-agent", "user-agent")
    }
    raw = body.encode() if isinstance(body, str) else body
    answer = await http.request(method.upper(), url, headers=sent, body=raw)
    if answer.status >= 400:
        # The library stumbles over an error in another form.
        answer.json(_Refused, "Stripe")
    return answer.body, answer.status, answer.headers
