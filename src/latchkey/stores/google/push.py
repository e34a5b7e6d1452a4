"""A push of Cloud Pub/Sub: who sent it, and the real-time developer notification in it, which carries no state."""

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from google.auth import jwt

from latchkey.domain.instants import DAY, EARLIEST, HOUR, LATEST, MINUTE, SECOND, Ms
from latchkey.stores.adapter import Incoming, Notification
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic, StoreDown, read_json
from latchkey.stores.google.credentials import GoogleCredentials
from latchkey.stores.http import StoreHttp

# A name for people and filters. What is unknown is kept as its number.
_TYPES = """
    1:RECOVERED 2:RENEWED 3:CANCELED 4:PURCHASED 5:ON_HOLD 6:IN_GRACE_PERIOD 7:RESTARTED 8:PRICE_CHANGE_CONFIRMED
    9:DEFERRED 10:PAUSED 11:PAUSE_SCHEDULE_CHANGED 12:REVOKED 13:EXPIRED 17:ITEMS_CHANGED 18:CANCELLATION_SCHEDULED
    19:PRICE_CHANGE_UPDATED 20:PENDING_PURCHASE_CANCELED 22:PRICE_STEP_UP_CONSENT_UPDATED
"""
SUBSCRIPTION_TYPES = {int(code): f"SUBSCRIPTION_{name}" for code, name in (one.split(":") for one in _TYPES.split())}
ONE_TIME_TYPES = {1: "ONE_TIME_PRODUCT_PURCHASED", 2: "ONE_TIME_PRODUCT_CANCELED"}
PAUSE_SCHEDULE_CHANGED = 11
# Of voided purchases.
SUBSCRIPTION, ONE_TIME = 1, 2
FULL_REFUND, PARTIAL_REFUND = 1, 2

Token = Annotated[str, msgspec.Meta(min_length=1, max_length=2000, pattern=r"^[!-~]+\Z")]
OrderId = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[!-~]*\Z")]


class PurchaseTold(msgspec.Struct, rename="camel", omit_defaults=True):
    notification_type: int
    purchase_token: Token


class VoidedTold(msgspec.Struct, rename="camel", omit_defaults=True):
    purchase_token: Token
    order_id: OrderId = ""
    product_type: int = 0
    refund_type: int = FULL_REFUND


class TestTold(msgspec.Struct):
    pass


class GoogleNotification(msgspec.Struct, rename="camel", omit_defaults=True):
    package_name: str
    # Google writes a text.
    event_time_millis: int = 0
    subscription_notification: PurchaseTold | None = None
    one_time_product_notification: PurchaseTold | None = None
    voided_purchase_notification: VoidedTold | None = None
    test_notification: TestTold | None = None


def decode(data: bytes | str) -> GoogleNotification:
    try:
        # Not strict: numbers may be written as texts.
        return msgspec.convert(msgspec.json.decode(data), GoogleNotification, strict=False)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError):
        raise Malformed("The data of the push is not a notification of Google Play.") from None


def encode(told: GoogleNotification) -> str:
    """Only what Latchkey reads: nothing else that a sender put in reaches the journal."""
    return msgspec.json.encode(told).decode()


def kind_of(told: GoogleNotification) -> str:
    if told.subscription_notification is not None:
        number = told.subscription_notification.notification_type
        return SUBSCRIPTION_TYPES.get(number, f"SUBSCRIPTION/{number}")
    if told.one_time_product_notification is not None:
        number = told.one_time_product_notification.notification_type
        return ONE_TIME_TYPES.get(number, f"ONE_TIME_PRODUCT/{number}")
    if told.voided_purchase_notification is not None:
        return "VOIDED_PURCHASE"
    return "TEST" if told.test_notification is not None else "UNKNOWN"


def subject_of(told: GoogleNotification) -> str | None:
    about = told.subscription_notification or told.one_time_product_notification or told.voided_purchase_notification
    return about.purchase_token if about is not None else None


# Google says about 6 hours. Whatever an answer says, it is asked again within a day and not at every push.
SHORTEST: Ms = 5 * MINUTE
LONGEST: Ms = DAY
UNSAID: Ms = HOUR
# An unknown key id, which anybody can invent, leads to at most one request in this time.
PAUSE: Ms = MINUTE
PAUSE_AFTER_FAILURE: Ms = 5 * SECOND
# How long certificates past their time still count when Google cannot be asked.
STALE: Ms = DAY

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_MOST_CERTIFICATES = 50


class _Kept(msgspec.Struct):
    # By key id, in PEM form.
    certificates: dict[str, str] = {}
    fresh_until: Ms = 0
    ask_after: Ms = 0
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class GoogleCertificates(msgspec.Struct):
    """Google's public certificates, fetched once and kept for as long as Google says."""

    _http: StoreHttp
    _now: Callable[[], Ms]
    _kept: dict[str, _Kept] = {}

    async def find(self, url: str, kid: str) -> str | None:
        """The certificate of a key id; None where Google has none. StoreDown where that cannot be found out now."""
        kept = self._kept.setdefault(url, _Kept())
        found = kept.certificates.get(kid)
        if found is not None and self._now() < kept.fresh_until:
            return found
        async with kept.lock:
            return await self._ask(kept, url, kid)

    async def _ask(self, kept: _Kept, url: str, kid: str) -> str | None:
        now = self._now()
        fresh = now < kept.fresh_until
        if now >= kept.ask_after and not (fresh and kid in kept.certificates):
            try:
                kept.certificates, kept.fresh_until = await self._fetch(url)
            except StoreDown:
                kept.ask_after = self._now() + PAUSE_AFTER_FAILURE
                if kid not in kept.certificates or now >= kept.fresh_until + STALE:
                    raise
            else:
                kept.ask_after = self._now() + PAUSE
        elif kid not in kept.certificates and not fresh:
            raise StoreDown("Google's certificates could not be fetched a moment ago.", kept.ask_after - now)
        return kept.certificates.get(kid)

    async def _fetch(self, url: str) -> tuple[dict[str, str], Ms]:
        answer = await self._http.request("GET", url)
        if answer.status != 200:
            raise StoreDown(f"Google answered {answer.status} for its certificates.")
        given = answer.json(dict[str, str], "Google")
        usable = {kid: pem for kid, pem in given.items() if _is_rsa(pem)}
        if not usable or len(given) > _MOST_CERTIFICATES:
            raise StoreDown("Google answered with something that is not its list of certificates.")
        return usable, self._now() + lifetime(answer.headers)


def lifetime(headers: Mapping[str, str]) -> Ms:
    """How long an answer may be kept, by its Cache-Control and Age, within our own bounds."""
    found = _MAX_AGE.search(headers.get("cache-control", ""))
    if found is None:
        return UNSAID
    age = headers.get("age", "").strip()
    passed = int(age) if age.isascii() and age.isdigit() and len(age) <= 9 else 0
    return min(max((int(found.group(1)) - passed) * SECOND, SHORTEST), LONGEST)


def _is_rsa(pem: str) -> bool:
    try:
        return isinstance(x509.load_pem_x509_certificate(pem.encode()).public_key(), RSAPublicKey)
    # Whatever is wrong with it, it is no certificate. The library's exceptions differ between its versions.
    except Exception:
        return False


ISSUERS = frozenset({"https://accounts.google.com", "accounts.google.com"})
# A notification has about 500 bytes. Pub/Sub itself would let 10 MB pass.
LARGEST_BODY = 64 * 1024
LARGEST_TOKEN = 8 * 1024
_CLOCK_SKEW_S = 30
_LONGEST_ID = 200
_MESSAGE_ID = re.compile(r"[!-~]{1,200}")


class _Message(msgspec.Struct, rename="camel"):
    data: str = ""
    message_id: str = ""


class _Envelope(msgspec.Struct):
    message: _Message


async def verify(credentials: GoogleCredentials, incoming: Incoming, certificates: GoogleCertificates) -> Notification:
    """The sender is checked before a byte of the body is read."""
    if len(incoming.body) > LARGEST_BODY:
        raise Malformed(f"A notification of Google Play has at most {LARGEST_BODY} bytes.")
    await check_sender(credentials, incoming.headers.get("authorization", ""), certificates)
    message = read_json(incoming.body, _Envelope, Malformed("The body is not a push of Cloud Pub/Sub.")).message
    if _MESSAGE_ID.fullmatch(message.message_id) is None:
        raise Malformed("The push has no messageId.")
    try:
        data = b64decode(message.data, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("The data of the push is not base64.") from None
    told = decode(data)
    if told.package_name != credentials.package_name:
        raise Misdirected("The notification is about another package.")
    occurred_at = told.event_time_millis
    return Notification(
        external_id=message.message_id,
        kind=kind_of(told),
        # Only the purchase itself says whether it is a test.
        environment=None,
        occurred_at=occurred_at if EARLIEST <= occurred_at <= LATEST else incoming.received_at,
        subject=subject_of(told),
        payload=encode(told),
        checked={
            "signature": "RS256, a certificate of Google",
            "audience": credentials.push_audience,
            "sender": credentials.push_service_account,
            "package_name": credentials.package_name,
        },
    )


async def check_sender(credentials: GoogleCredentials, authorization: str, certificates: GoogleCertificates) -> None:
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise NotAuthentic("The push has no bearer token. Turn on authentication for the push subscription.")
    if len(token) > LARGEST_TOKEN or not token.isascii():
        raise NotAuthentic("The push token is not a token of Google.")
    header = _guarded(lambda: jwt.decode_header(token))
    kid = header.get("kid")
    if header.get("alg") != "RS256" or not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_ID:
        raise NotAuthentic("The push token is not signed as Google signs.")
    certificate = await certificates.find(credentials.certificates_url, kid)
    if certificate is None:
        raise NotAuthentic("The push token is signed with a key that is not Google's.")
    certs = {kid: certificate}
    claims = _guarded(lambda: jwt.decode(token, certs=certs, clock_skew_in_seconds=_CLOCK_SKEW_S))
    if claims.get("iss") not in ISSUERS:
        raise NotAuthentic("The push token was not issued by Google.")
    if claims.get("email") != credentials.push_service_account or claims.get("email_verified") is not True:
        raise NotAuthentic("The push was not sent by the service account in push_service_account.")
    # A list of audiences is no form that Google uses: only the one text is right.
    if claims.get("aud") != credentials.push_audience:
        raise Misdirected("The push is addressed to another audience than push_audience.")


def _guarded(read: Any) -> Any:
    """Outside bytes lead the library into exceptions of many kinds; each of them means the same."""
    try:
        return read()
    except Exception:
        raise NotAuthentic("The push token is not valid: its signature, its form or its time is wrong.") from None
