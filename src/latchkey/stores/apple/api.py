"""The App Store Server API: what Apple knows of a customer's purchases, and of notifications that it has sent.

Apple has two servers, for production and for the sandbox, and a transaction is known to one of them. `api_base_url` is
one address for both.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar
from uuid import UUID

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.apple.credentials import AppleCredentials, signing_key
from latchkey.stores.errors import CredentialsRefused, StoreDown
from latchkey.stores.http import StoreHttp, StoreResponse, in_path

_HOSTS = {
    Environment.PRODUCTION: "https://api.storekit.apple.com",
    Environment.SANDBOX: "https://api.storekit-sandbox.apple.com",
}
_TOKEN_LASTS: Ms = 20 * MINUTE
_TOKEN_REUSED: Ms = 10 * MINUTE
# How far back Apple's notification history goes: 180 days, and a request takes a moment to arrive.
HISTORY: Ms = 180 * DAY - 10 * MINUTE
# A page has 20 entries. Nobody has renewed so often, so beyond this Apple's pages do not end.
_MOST_PAGES = 1000
# The same of notifications: an hour has 55 a second before this.
_MOST_NOTIFICATION_PAGES = 10_000

_NO_NOTIFICATION_URL = 4040007
# Not a code of Apple's: a reply that says so in its body.
_NOT_EXTENDED = -1
_TRY_AGAIN = {4040002, 4040004, 4040006}

T = TypeVar("T")


# Both are a StoreDown for whoever does not look closer: it is visible, tried again, and loses nothing.
class UnknownTransaction(StoreDown):
    """Apple does not know this transaction in this environment."""


class Declined(StoreDown):
    """Apple understood the request and does not do it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Refusal(_Body, frozen=True):
    error_code: int = 0


class _History(_Body, frozen=True):
    signed_transactions: list[str] = []
    revision: str | None = None
    has_more: bool = False


class LastTransaction(_Body, frozen=True):
    original_transaction_id: str
    status: int
    signed_transaction_info: str
    signed_renewal_info: str


class _Group(_Body, frozen=True):
    last_transactions: list[LastTransaction] = []


class _Statuses(_Body, frozen=True):
    data: list[_Group] = []


class _Sent(_Body, frozen=True):
    signed_payload: str


class _NotificationHistory(_Body, frozen=True):
    notification_history: list[_Sent] = []
    pagination_token: str | None = None
    has_more: bool = False


class _Extended(_Body, frozen=True):
    success: bool = False


class _TestRequested(_Body, frozen=True):
    test_notification_token: str


class AppStoreApi:
    """Raises StoreDown, CredentialsRefused, Unknown or Declined."""

    def __init__(self, http: StoreHttp, credentials: AppleCredentials, now: Callable[[], Ms]) -> None:
        self._http = http
        self._credentials = credentials
        self._key = signing_key(credentials.private_key)
        self._now = now
        self._token = ("", 0)

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Which servers there are to ask, in this order. One address stands for both, so it is asked once."""
        if self._credentials.api_base_url:
            return (Environment.PRODUCTION,)
        return (Environment.PRODUCTION, Environment.SANDBOX)

    async def history(self, transaction_id: str, environment: Environment) -> list[str]:
        """All signed transactions of the customer who made this one."""
        found: list[str] = []
        query: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            page = await self._get(environment, f"/inApps/v2/history/{in_path(transaction_id)}", _History, query)
            found += page.signed_transactions
            if not page.has_more or page.revision is None:
                return found
            query = {"revision": page.revision}
        raise StoreDown("Apple's transaction history does not end.")

    async def statuses(self, transaction_id: str, environment: Environment) -> list[LastTransaction]:
        """How each subscription of the customer who made this transaction stands."""
        path = f"/inApps/v1/subscriptions/{in_path(transaction_id)}"
        found = await self._get(environment, path, _Statuses)
        return [last_transaction for group in found.data for last_transaction in group.last_transactions]

    async def notifications(self, since: Ms, until: Ms, environment: Environment) -> AsyncIterator[str]:
        """The signed notifications that Apple has sent, or tried to send, in this time."""
        since = max(since, self._now() - HISTORY)
        if since >= until:
            return
        query: dict[str, str] = {}
        for _ in range(_MOST_NOTIFICATION_PAGES):
            answer = await self._call(
                "POST",
                environment,
                "/inApps/v1/notifications/history",
                query=query,
                body={"startDate": since, "endDate": until},
            )
            page = answer.json(_NotificationHistory, "Apple")
            for sent in page.notification_history:
                yield sent.signed_payload
            if not page.has_more or page.pagination_token is None:
                return
            query = {"paginationToken": page.pagination_token}
        raise StoreDown("Apple's notification history does not end.")

    async def request_test(self, environment: Environment) -> str | None:
        """Have Apple send a test notification. None where no address for notifications is set up at Apple yet: then
        Apple has accepted the credentials all the same."""
        try:
            answer = await self._call("POST", environment, "/inApps/v1/notifications/test")
        except Declined as declined:
            if declined.code == _NO_NOTIFICATION_URL:
                return None
            raise
        return answer.json(_TestRequested, "Apple").test_notification_token

    async def test_sent(self, token: str, environment: Environment) -> str | None:
        """The signed test notification, once Apple has sent it."""
        try:
            found = await self._get(environment, f"/inApps/v1/notifications/test/{in_path(token)}", _Sent)
        except (Declined, UnknownTransaction):
            return None
        return found.signed_payload

    async def answer_consumption(self, transaction_id: str, body: dict[str, Any], environment: Environment) -> None:
        path = f"/inApps/v2/transactions/consumption/{in_path(transaction_id)}"
        await self._call("PUT", environment, path, body=body)

    async def extend(self, original_transaction_id: str, body: dict[str, Any], environment: Environment) -> None:
        path = f"/inApps/v1/subscriptions/extend/{in_path(original_transaction_id)}"
        answer = await self._call("PUT", environment, path, body=body)
        if not answer.json(_Extended, "Apple").success:
            raise Declined("Apple did not extend the subscription.", _NOT_EXTENDED)

    async def _get(self, environment: Environment, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        return (await self._call("GET", environment, path, query=query)).json(type, "Apple")

    async def _call(
        self,
        method: str,
        environment: Environment,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> StoreResponse:
        base = self._credentials.api_base_url or _HOSTS[environment]
        headers = {"Authorization": f"Bearer {self._bearer()}"}
        answer = await self._http.request(method, base + path, headers=headers, query=query, json=body)
        if answer.status < 300:
            return answer
        try:
            code = msgspec.json.decode(answer.body, type=_Refusal).error_code
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            code = 0
        if answer.status == 401:
            raise CredentialsRefused("Apple refuses the key: check issuer_id, key_id, private_key and bundle_id.")
        if code in _TRY_AGAIN:
            raise StoreDown(f"Apple asks to try again ({code}).")
        if answer.status == 404 and code in (4040001, 4040005, 4040010):
            raise UnknownTransaction(f"Apple does not know the transaction ({code}).")
        raise Declined(f"Apple answered {answer.status} ({code or 'no code'}).", code)

    def _bearer(self) -> str:
        token, made_at = self._token
        now = self._now()
        if not token or not 0 <= now - made_at < _TOKEN_REUSED:
            own = self._credentials
            token = signed_token(own.issuer_id, own.key_id, self._key, now, bid=own.bundle_id)
            self._token = (token, now)
        return token


def signed_token(issuer_id: str, key_id: str, key: EllipticCurvePrivateKey, now: Ms, **more: str) -> str:
    """What shows Apple who asks, for a while."""
    lasts = {"iat": now // 1000, "exp": (now + _TOKEN_LASTS) // 1000}
    claims = {"iss": issuer_id, "aud": "appstoreconnect-v1", **lasts, **more}
    return jwt.encode(claims, key, algorithm="ES256", headers={"kid": key_id})


def sign_offer(
    credentials: AppleCredentials, *, product_id: str, offer_id: str, account_token: str, nonce: UUID, now: Ms
) -> str:
    """The signature of a promotional offer, as StoreKit takes it: for 24 hours and one purchase. Apple lets a customer
    redeem one only with it. `account_token` is what the app passes to StoreKit with the purchase: an
    `appAccountToken`, or nothing ("")."""
    # Imported when needed, as in `certificate_chains.py`.
    from appstoreserverlibrary.promotional_offer import PromotionalOfferSignatureCreator

    creator = PromotionalOfferSignatureCreator(
        credentials.private_key.encode(), credentials.key_id, credentials.bundle_id
    )
    signature: str = creator.create_signature(product_id, offer_id, account_token, nonce, now)
    return signature
