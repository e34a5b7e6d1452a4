"""The API of Stripe: Stripe's own library over `StoreHttp`, so that our time limits, bounded answers and errors hold.

The library is loaded when the first app asks: it takes a third of a second.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown, StoreError
from latchkey.stores.http import StoreHttp

if TYPE_CHECKING:
    from stripe import StripeClient, StripeError

T = TypeVar("T")

# Answers have the form of this version, whatever version the account or a webhook endpoint uses.
API_VERSION = "2026-10-28.endive"
# How many apps' clients are kept.
_MOST_CLIENTS = 1000
_WORD = re.compile(r"\w{1,60}", re.ASCII)


class UnknownObject(StoreError):
    """Stripe is certain that it has no such object in this account and mode."""


class _Refused(msgspec.Struct):
    error: dict[str, Any]


class StripeApi:
    def __init__(self, http: StoreHttp) -> None:
        self._http = http
        self._clients: dict[tuple[str, int], StripeClient] = {}

    async def get(self, app: ConnectedApp, path: str, type: type[T], **query: Any) -> T:
        """Raises UnknownObject, CredentialsRefused or StoreDown in place of the library's errors, whose messages may
        repeat what was sent."""
        return decoded(await self._ask(app, refusal, "get", path, query), type)

    async def act(self, app: ConnectedApp, method: str, path: str, **given: Any) -> Any:
        """A request for a change. What Stripe refuses in its own form was not done: ActionRefused."""
        return await self._ask(app, refusal_of_action, method, path, given)

    async def _ask(
        self,
        app: ConnectedApp,
        refused: Callable[[StripeError], StoreError],
        method: str,
        path: str,
        given: Mapping[str, Any],
    ) -> Any:
        import stripe

        key = app.app_id, app.version
        if key not in self._clients:
            if len(self._clients) >= _MOST_CLIENTS:
                self._clients.clear()
            self._clients[key] = _build(app, self._http)
        try:
            return (await self._clients[key].raw_request_async(method, f"/v1/{path}", **given)).data
        except stripe.StripeError as error:
            raise refused(error) from None

    async def close(self) -> None:
        self._clients.clear()
        await self._http.close()


def refusal(error: StripeError) -> StoreError:
    import stripe

    status = error.http_status
    if isinstance(error, stripe.AuthenticationError):
        return CredentialsRefused("Stripe refuses the api_key (401).")
    if isinstance(error, stripe.PermissionError):
        return CredentialsRefused("Stripe refuses the api_key: it lacks a permission (403).")
    if isinstance(error, stripe.InvalidRequestError) and (status == 404 or error.code == "resource_missing"):
        return UnknownObject("Stripe knows no such object.")
    return StoreDown(f"Stripe answered {status} ({_word(error.code) or 'without a code'}).")


def refusal_of_action(error: StripeError) -> StoreError:
    import stripe

    refused = refusal(error)
    if isinstance(refused, UnknownObject):
        return ActionRefused("Stripe has no such object in this account and mode.")
    if isinstance(error, stripe.InvalidRequestError | stripe.CardError):
        return ActionRefused(f"Stripe does not do this as things stand ({_word(error.code) or error.http_status}).")
    return refused


def decoded(given: Any, type: type[T]) -> T:
    try:
        return msgspec.convert(given, type)
    except msgspec.MsgspecError:
        raise StoreDown("Stripe answered with an object of an unexpected form.") from None


def _word(code: object) -> str:
    """A code that may be shown: one word, no text of a stranger."""
    return code if isinstance(code, str) and _WORD.fullmatch(code) else ""


def _build(app: ConnectedApp, http: StoreHttp) -> StripeClient:
    import stripe

    base_url = app.credentials.api_base_url

    class OverStoreHttp(stripe.HTTPClient):
        name = "latchkey"

        async def request_async(
            self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
        ) -> tuple[bytes, int, Mapping[str, str]]:
            if urlsplit(url)[:2] != urlsplit(base_url)[:2]:
                raise StoreDown("Stripe's library asked for another address than the API's.")
            # What the library tells of this machine is nobody's business.
            private = ("x-stripe-client-user-agent", "user-agent")
            sent = {name: value for name, value in headers.items() if name.lower() not in private}
            raw = post_data.encode() if isinstance(post_data, str) else post_data
            answer = await http.request(method.upper(), url, headers=sent, body=raw)
            if answer.status >= 400:
                # The library stumbles over an error in another form.
                answer.json(_Refused, "Stripe")
            return answer.body, answer.status, answer.headers

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
