"""A push of Cloud Pub/Sub: who sent it, for whom, and which purchase it is about."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any

import msgspec
from google.auth import jwt

from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.stores.adapter import Incoming, Notification
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic
from latchkey.stores.google.certificates import Certificates
from latchkey.stores.google.credentials import GoogleCredentials
from latchkey.stores.google.notification import Told, decode, encode, kind_of, subject_of

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


_ENVELOPE = msgspec.json.Decoder(_Envelope)


async def verify(credentials: GoogleCredentials, incoming: Incoming, certificates: Certificates) -> Notification:
    """The sender is checked before a byte of the body is read."""
    if len(incoming.body) > LARGEST_BODY:
        raise Malformed(f"A notification of Google Play has at most {LARGEST_BODY} bytes.")
    await check_sender(credentials, incoming.headers.get("authorization", ""), certificates)
    told, external_id = _unwrapped(incoming.body)
    if told.package_name != credentials.package_name:
        raise Misdirected("The notification is about another package.")
    occurred_at = told.event_time_millis
    return Notification(
        external_id=external_id,
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


async def check_sender(credentials: GoogleCredentials, authorization: str, certificates: Certificates) -> None:
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise NotAuthentic("The push has no bearer token. Turn on authentication for the push subscription.")
    if len(token) > LARGEST_TOKEN or not token.isascii():
        raise NotAuthentic("The push token is not a token of Google.")
    kid = _key_id(token)
    certificate = await certificates.find(credentials.certificates_url, kid)
    if certificate is None:
        raise NotAuthentic("The push token is signed with a key that is not Google's.")
    claims = _claims(token, {kid: certificate})
    if claims.get("iss") not in ISSUERS:
        raise NotAuthentic("The push token was not issued by Google.")
    if claims.get("email") != credentials.push_service_account or claims.get("email_verified") is not True:
        raise NotAuthentic("The push was not sent by the service account in push_service_account.")
    # A list of audiences is no form that Google uses: only the one text is right.
    if claims.get("aud") != credentials.push_audience:
        raise Misdirected("The push is addressed to another audience than push_audience.")


def _key_id(token: str) -> str:
    header = _guarded(lambda: jwt.decode_header(token))
    kid = header.get("kid")
    if header.get("alg") != "RS256" or not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_ID:
        raise NotAuthentic("The push token is not signed as Google signs.")
    return kid


def _claims(token: str, certificates: dict[str, str]) -> Any:
    return _guarded(lambda: jwt.decode(token, certs=certificates, clock_skew_in_seconds=_CLOCK_SKEW_S))


def _guarded(read: Any) -> Any:
    """Outside bytes lead the library into exceptions of many kinds; each of them means the same."""
    try:
        return read()
    except Exception:
        raise NotAuthentic("The push token is not valid: its signature, its form or its time is wrong.") from None


def _unwrapped(body: bytes) -> tuple[Told, str]:
    try:
        message = _ENVELOPE.decode(body).message
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise Malformed("The body is not a push of Cloud Pub/Sub.") from None
    if _MESSAGE_ID.fullmatch(message.message_id) is None:
        raise Malformed("The push has no messageId.")
    try:
        data = b64decode(message.data, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("The data of the push is not base64.") from None
    return decode(data), message.message_id
