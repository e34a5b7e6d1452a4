"""The Android Publisher API: the calls that the adapter makes, their access tokens, and what a refusal means."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from google.auth import jwt

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.stores.adapter import MOST_PRODUCTS, TOO_MANY_PRODUCTS, ConnectedApp
from latchkey.stores.errors import ActionRefused, CredentialsRefused, NoAnswer, StoreDown, StoreError
from latchkey.stores.google import resources
from latchkey.stores.google.credentials import GoogleCredentials
from latchkey.stores.http import StoreHttp, StoreResponse, in_path

_WORD = re.compile(r"[A-Za-z_]{1,60}")
_QUOTA = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded", "RESOURCE_EXHAUSTED"}
)
_UNKNOWN_APP = frozenset({"applicationNotFound", "packageNotFound", "androidPackageNotFound"})


class Gone(StoreError):
    """Google had this purchase or order, and no longer tells of it."""


class UnknownPurchase(StoreError):
    """Google is certain that there is no such purchase or order."""


class _Error(msgspec.Struct):
    reason: str = ""


class _Detail(msgspec.Struct):
    status: str = ""
    errors: list[_Error] = []


class _Body(msgspec.Struct):
    error: _Detail


def reason_word(text: str) -> str:
    """A reason that may be shown: one word, no text of a stranger."""
    return text if _WORD.fullmatch(text) else ""


def refusal(answer: StoreResponse) -> StoreError:
    """What an answer that is not 200 means. Only an error in Google's own format counts as Google's."""
    said, status = _said(answer), answer.status
    if status == 401:
        return CredentialsRefused("Google refuses the access token of the service account (401).")
    if said is None:
        return StoreDown(f"Google answered {status} in a form that the Android Publisher API does not use.")
    words, reason = _words(said), _reason(said)
    if words & _QUOTA:
        return NoAnswer(f"Google's quota is used up ({reason}).")
    if status == 403:
        return CredentialsRefused(f"Google refuses the service account: it lacks a permission ({reason}).")
    if status == 404 and words & _UNKNOWN_APP:
        return CredentialsRefused("Google knows no app with this package_name.")
    if status == 410:
        return Gone("Google no longer tells of this purchase.")
    if status == 404 or (status == 400 and words & {"invalid", "badRequest", "INVALID_ARGUMENT"}):
        return UnknownPurchase("Google knows no such purchase.")
    return StoreDown(f"Google answered {status} ({reason}).")


def refusal_of_action(answer: StoreResponse) -> StoreError:
    """The same for something that Google was asked to do: whatever Google refuses in its own form was not done."""
    refused, said = refusal(answer), _said(answer)
    if isinstance(refused, CredentialsRefused) or said is None or _words(said) & _QUOTA:
        return refused
    if isinstance(refused, Gone):
        return ActionRefused("Google no longer keeps this purchase: it ended more than 60 days ago.")
    return ActionRefused(f"Google does not do this for the purchase as it stands ({_reason(said) or answer.status}).")


def _said(answer: StoreResponse) -> _Detail | None:
    try:
        return msgspec.json.decode(answer.body, type=_Body).error
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _words(said: _Detail) -> set[str]:
    return {said.status, *(error.reason for error in said.errors)} - {""}


def _reason(said: _Detail) -> str:
    return next((word for error in said.errors if (word := reason_word(error.reason))), reason_word(said.status))


SCOPE = "https://www.googleapis.com/auth/androidpublisher"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Google's clock and ours differ, and a request takes a while.
RENEW_BEFORE: Ms = 2 * MINUTE
# A refused key stays refused for this long, so that a backlog of notifications does not hammer the token address.
REFUSED_FOR: Ms = 30 * SECOND
_ASSERTION_LIFETIME_S = 3600
_MOST_APPS = 1_000


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: int = 3600


class _Refused(msgspec.Struct):
    error: str = ""


@dataclass(slots=True)
class _Kept:
    token: str | None = field(default=None, repr=False)
    good_until: Ms = 0
    refused: CredentialsRefused | None = None
    refused_until: Ms = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class AccessTokens(msgspec.Struct):
    """One token for each app and version of its credentials. However many ask at once, Google is asked once."""

    _http: StoreHttp
    _now: Callable[[], Ms]
    _kept: OrderedDict[tuple[str, str, int], _Kept] = msgspec.field(default_factory=OrderedDict)

    async def get(self, app: ConnectedApp, *, instead_of: str | None = None) -> str:
        """`instead_of`: the token that the API has just refused. It is replaced unless somebody else has done it."""
        kept = self._of(app)
        if (token := self._usable(kept, instead_of)) is not None:
            return token
        async with kept.lock:
            if (token := self._usable(kept, instead_of)) is not None:
                return token
            if kept.refused is not None and self._now() < kept.refused_until:
                raise CredentialsRefused(kept.refused.message)
            try:
                granted = await self._grant(app.credentials)
            except CredentialsRefused as refused:
                kept.refused, kept.refused_until = refused, self._now() + REFUSED_FOR
                raise
            kept.token, kept.refused = granted.access_token, None
            kept.good_until = self._now() + granted.expires_in * SECOND - RENEW_BEFORE
            return granted.access_token

    def forget(self, app: ConnectedApp) -> None:
        self._kept.pop((app.project_id, app.app_id, app.version), None)

    def _of(self, app: ConnectedApp) -> _Kept:
        key = (app.project_id, app.app_id, app.version)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_APPS:
            self._kept.popitem(last=False)
        return kept

    def _usable(self, kept: _Kept, instead_of: str | None) -> str | None:
        if kept.token is None or kept.token == instead_of or self._now() >= kept.good_until:
            return None
        return kept.token

    async def _grant(self, credentials: GoogleCredentials) -> _Granted:
        form = {"grant_type": GRANT_TYPE, "assertion": assertion(credentials, self._now())}
        answer = await self._http.request("POST", credentials.token_url, form=form)
        if answer.status == 200:
            granted = answer.json(_Granted, "Google")
            if not granted.access_token.isascii() or not granted.access_token.isprintable():
                raise StoreDown("Google answered with an access token of an unexpected form.")
            return granted
        if answer.status in (400, 401, 403):
            said = reason_word(answer.json(_Refused, "Google").error)
            raise CredentialsRefused(f"Google refuses the service account's key ({said or answer.status}).")
        raise StoreDown(f"Google answered {answer.status} instead of an access token.")


def assertion(credentials: GoogleCredentials, now: Ms) -> str:
    claims = {
        "iss": credentials.service_account.email,
        "scope": SCOPE,
        "aud": credentials.token_url,
        "iat": now // 1000,
        "exp": now // 1000 + _ASSERTION_LIFETIME_S,
    }
    account = credentials.service_account
    signed: bytes = jwt.encode(account.signer, claims, key_id=account.key_id)
    return signed.decode()


T = TypeVar("T")

# Google takes 1,000, but an address has its limits too.
_ORDERS_AT_ONCE = 100
# More renewals than this are not read back: 20 years of months.
_MOST_ORDERS = 240
_MOST_ONE_BY_ONE = 12
_VOIDED_AT_ONCE = 1000
# Each may have some hundred regions in several base plans, and an answer has its limit.
_PRODUCTS_AT_ONCE = 25
# How long readings wait for orders that cannot be read while Google answers about purchases.
_PATIENCE: Ms = 2 * MINUTE


class Publisher(msgspec.Struct):
    """Raises Unknown and Gone for a purchase or order that Google does not tell of; StoreDown and CredentialsRefused as
    everywhere."""

    _http: StoreHttp
    _tokens: AccessTokens
    _now: Callable[[], Ms]
    # By app: since when its orders cannot be read.
    _without_orders: dict[str, Ms] = {}

    async def subscription(self, app: ConnectedApp, token: str) -> resources.SubscriptionPurchase:
        return await self._get(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}", resources.SubscriptionPurchase)

    async def product(self, app: ConnectedApp, token: str) -> resources.ProductPurchase:
        return await self._get(app, f"/purchases/productsv2/tokens/{_part(token)}", resources.ProductPurchase)

    async def orders(
        self, app: ConnectedApp, needed: Iterable[str], welcome: Iterable[str] = ()
    ) -> dict[str, resources.GoogleOrder]:
        """Those that can be read; of the `welcome` ones the last come first. An order that cannot be read leaves a gap.
        Where Google cannot be asked now, the reading waits a while: with its order a period is told more exactly."""
        try:
            found = await self._orders(app, list(dict.fromkeys(needed)), list(dict.fromkeys(welcome)))
        except StoreDown:
            now = self._now()
            if now - self._without_orders.setdefault(app.app_id, now) < _PATIENCE:
                raise
            return {}
        self._without_orders.pop(app.app_id, None)
        return found

    async def _orders(self, app: ConnectedApp, must: list[str], welcome: list[str]) -> dict[str, resources.GoogleOrder]:
        also = [one for one in welcome if one not in must][-_MOST_ORDERS:]
        if len(must) + len(also) > 1:
            try:
                return await self._many_orders(app, [*must, *also])
            except StoreDown:
                raise
            except CredentialsRefused:
                return {}
            except StoreError:
                # One that Google does not know fails the call for all.
                also = also[-_MOST_ONE_BY_ONE:]
        found: dict[str, resources.GoogleOrder] = {}
        for order_id in (*must, *also):
            if (order := await self.order(app, order_id)) is not None:
                found[order_id] = order
        return found

    async def order(self, app: ConnectedApp, order_id: str) -> resources.GoogleOrder | None:
        """None where Google does not tell of it."""
        try:
            return await self._get(app, f"/orders/{_part(order_id)}", resources.GoogleOrder)
        except StoreDown:
            raise
        except StoreError:
            return None

    async def _many_orders(self, app: ConnectedApp, asked: list[str]) -> dict[str, resources.GoogleOrder]:
        found: dict[str, resources.GoogleOrder] = {}
        for first in range(0, len(asked), _ORDERS_AT_ONCE):
            query = urlencode([("orderIds", one) for one in asked[first : first + _ORDERS_AT_ONCE]])
            page = await self._get(app, f"/orders:batchGet?{query}", resources.GoogleOrders)
            found |= {order.order_id: order for order in page.orders}
        return found

    async def planned_pause(self, app: ConnectedApp, product_id: str, token: str) -> tuple[bool, Ms | None]:
        """Whether Google tells of pauses that have not begun, and when this one ends. Only the old form of the resource
        does, until Google ends it on 2027-08-31. Where it cannot be read, the pause is told when it begins."""
        path = f"/purchases/subscriptions/{_part(product_id)}/tokens/{_part(token)}"
        try:
            old = await self._get(app, path, resources.OldSubscription)
            return True, resources.millis(old.auto_resume_time_millis)
        except StoreError:
            return False, None

    async def acknowledge(self, app: ConnectedApp, token: str, product_id: str, *, subscription: bool) -> None:
        room = "subscriptions" if subscription else "products"
        await self._call(app, "POST", f"/purchases/{room}/{_part(product_id)}/tokens/{_part(token)}:acknowledge", {})

    async def cancel(self, app: ConnectedApp, token: str) -> None:
        body = {"cancellationContext": {"cancellationType": "DEVELOPER_REQUESTED_STOP_PAYMENTS"}}
        await self._act(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}:cancel", body)

    async def revoke(self, app: ConnectedApp, token: str) -> None:
        body: dict[str, Any] = {"revocationContext": {"fullRefund": {}}}
        await self._act(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}:revoke", body)

    async def refund(self, app: ConnectedApp, order_id: str, *, revoke: bool) -> None:
        await self._act(app, f"/orders/{_part(order_id)}:refund?revoke={'true' if revoke else 'false'}")

    async def defer(self, app: ConnectedApp, token: str, *, etag: str, by: Ms) -> None:
        """Only while the subscription stands as its `etag` says: the same request twice defers once."""
        context = {"etag": etag, "deferDuration": f"{by // 1000}.{by % 1000:03}s"}
        await self._act(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}:defer", {"deferralContext": context})

    async def voided(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[resources.VoidedPurchase]:
        query = {"startTime": str(since), "endTime": str(until), "type": "1", "maxResults": str(_VOIDED_AT_ONCE)}
        while True:
            page = await self._get(app, f"/purchases/voidedpurchases?{urlencode(query)}", resources.VoidedPurchases)
            for voided_purchase in page.voided_purchases:
                yield voided_purchase
            if not page.token_pagination.next_page_token or not page.voided_purchases:
                return
            query["token"] = page.token_pagination.next_page_token

    async def everything(self, app: ConnectedApp, path: str, type: type[T], **query: str) -> list[T]:
        """The pages of a list, which have `next_page_token`."""
        asked, found = {"pageSize": str(_PRODUCTS_AT_ONCE), **query}, list[T]()
        for _ in range(-(-MOST_PRODUCTS // _PRODUCTS_AT_ONCE)):
            page: Any = await self._get(app, f"{path}?{urlencode(asked)}", type)
            found.append(page)
            if not page.next_page_token:
                return found
            asked["pageToken"] = page.next_page_token
        raise ActionRefused(TOO_MANY_PRODUCTS)

    async def check(self, app: ConnectedApp) -> None:
        """A call that needs the right package, a key that works, and the right to see orders."""
        try:
            await self._get(app, "/purchases/voidedpurchases?maxResults=1&type=1", resources.VoidedPurchases)
        except (UnknownPurchase, Gone):
            raise CredentialsRefused("Google knows no app with this package_name.") from None

    async def _get(self, app: ConnectedApp, path: str, type: type[T]) -> T:
        return (await self._call(app, "GET", path)).json(type, "Google")

    async def _act(self, app: ConnectedApp, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Raises ActionRefused for what Google does not do."""
        await self._call(app, "POST", path, body, refusal_of_action)

    async def _call(
        self,
        app: ConnectedApp,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        refused: Callable[[StoreResponse], StoreError] = refusal,
    ) -> StoreResponse:
        credentials = app.credentials
        package = _part(credentials.package_name)
        url = f"{credentials.api_base_url}/androidpublisher/v3/applications/{package}{path}"
        token = await self._tokens.get(app)
        answer = await self._send(method, url, token, body)
        if answer.status == 401:
            # The token may have been revoked before its time.
            token = await self._tokens.get(app, instead_of=token)
            answer = await self._send(method, url, token, body)
        if answer.status == 401:
            self._tokens.forget(app)
        if not 200 <= answer.status < 300:
            raise refused(answer)
        return answer

    async def _send(self, method: str, url: str, token: str, body: Mapping[str, Any] | None) -> StoreResponse:
        headers = {"Authorization": f"Bearer {token}"}
        return await self._http.request(method, url, headers=headers, json=body)


def _part(text: str) -> str:
    """One part of a path. Dots alone would lead upwards, in whatever way they are written: nothing has such a name."""
    if not text.strip("."):
        raise UnknownPurchase("Google knows no such purchase.")
    return in_path(text)
