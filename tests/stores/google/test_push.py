"""Whether a push comes from Google, for this app; everything else is refused with the right error and never a crash."""

import hashlib
import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import jwt
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.emulators.google.google_keys import SigningKey, make_signing_key
from latchkey.stores.adapter import Incoming
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic, StoreDown, StoreError
from latchkey.stores.google.push import LARGEST_BODY
from latchkey.stores.http import StoreResponse
from tests.stores.google.play import (
    AUDIENCE,
    PACKAGE,
    PUSHER,
    START,
    TOKEN,
    Play,
    connected,
    notice,
    one_time_notice,
    pushed,
    voided_notice,
)


@pytest.fixture(scope="session")
def stranger() -> SigningKey:
    return make_signing_key()


def bearer(keys: SigningKey, **claims: Any) -> str:
    return "Bearer " + keys.push_token(AUDIENCE, PUSHER, int(time.time()), **claims)


async def test_a_push_of_google_is_taken(play: Play) -> None:
    taken = await play.verify(pushed(notice(2), bearer(play.keys), "42"))
    assert (taken.external_id, taken.kind, taken.occurred_at) == ("42", "SUBSCRIPTION_RENEWED", START)
    assert taken.subject == TOKEN
    assert taken.checked["sender"] == PUSHER
    assert msgspec.json.decode(taken.payload)["subscriptionNotification"]["purchaseToken"] == TOKEN


@pytest.mark.parametrize(
    ("told", "kind", "subject"),
    [
        (one_time_notice(1), "ONE_TIME_PRODUCT_PURCHASED", TOKEN),
        (voided_notice(), "VOIDED_PURCHASE", TOKEN),
        ({"packageName": PACKAGE, "eventTimeMillis": 1, "testNotification": {"version": "1.0"}}, "TEST", None),
        ({"packageName": PACKAGE, "somethingNew": {"a": 1}}, "UNKNOWN", None),
        (notice(77), "SUBSCRIPTION/77", TOKEN),
    ],
)
async def test_every_kind_has_a_name_for_the_journal(
    play: Play, told: dict[str, Any], kind: str, subject: str | None
) -> None:
    taken = await play.verify(pushed(told, bearer(play.keys)))
    assert (taken.kind, taken.subject) == (kind, subject)
    assert taken.occurred_at == START


async def test_what_latchkey_does_not_read_does_not_reach_the_journal(play: Play) -> None:
    told = notice(2) | {"secret": "hunter2", "testNotification": {"more": "hunter2"}}
    taken = await play.verify(pushed(told, bearer(play.keys)))
    assert "hunter2" not in taken.payload


NOW = int(time.time())
CLAIMS = {
    "iss": "https://accounts.google.com",
    "aud": AUDIENCE,
    "email": PUSHER,
    "email_verified": True,
    "iat": NOW,
    "exp": NOW + 3600,
}
FORGED: dict[str, Callable[[SigningKey, SigningKey], str]] = {
    "no header": lambda keys, stranger: "",
    "another scheme": lambda keys, stranger: "Basic dXNlcjpwYXNz",
    "no token": lambda keys, stranger: "Bearer ",
    "not a token": lambda keys, stranger: "Bearer abc",
    "signed by somebody else": lambda keys, stranger: bearer(stranger),
    "somebody else with our key id": lambda keys, stranger: (
        "Bearer " + stranger.sign(jwt.decode(bearer(keys)[7:], options={"verify_signature": False}), kid=keys.kid)
    ),
    "alg none": lambda keys, stranger: "Bearer " + unsigned(keys),
    "alg HS256 with the certificate": lambda keys, stranger: "Bearer " + hs256(keys),
    "alg ES256 claimed": lambda keys, stranger: relabelled(bearer(keys), "ES256", keys.kid),
    "key id is a number": lambda keys, stranger: relabelled(bearer(keys), "RS256", 5),
    "no key id": lambda keys, stranger: relabelled(bearer(keys), "RS256", None),
    "expired": lambda keys, stranger: bearer(keys, iat=NOW - 7200, exp=NOW - 3600),
    "from the future": lambda keys, stranger: bearer(keys, iat=NOW + 3600, exp=NOW + 7200),
    "without an end": lambda keys, stranger: bearer(keys, exp=None),
    "an end of another type": lambda keys, stranger: bearer(keys, exp=[1]),
    "another issuer": lambda keys, stranger: bearer(keys, iss="https://evil.example.com"),
    "another sender": lambda keys, stranger: bearer(keys, email="other@project.iam.gserviceaccount.com"),
    "sender not verified": lambda keys, stranger: bearer(keys, email_verified=False),
    "sender verified by a text": lambda keys, stranger: bearer(keys, email_verified="true"),
    "no sender": lambda keys, stranger: bearer(keys, email=None),
    "cut off": lambda keys, stranger: bearer(keys)[:-20],
    "one bit changed": lambda keys, stranger: flipped(bearer(keys)),
    "huge": lambda keys, stranger: "Bearer " + "a" * 100_000,
    "not ASCII": lambda keys, stranger: "Bearer é.é.é",
    "deep": lambda keys, stranger: "Bearer " + part(b"[" * 5000) + "." + part(b"{}") + "." + part(b"x"),
}


def part(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def relabelled(token: str, alg: str, kid: object) -> str:
    header = {"alg": alg, "typ": "JWT"} | ({} if kid is None else {"kid": kid})
    return "Bearer " + ".".join([part(msgspec.json.encode(header)), *token[7:].split(".")[1:]])


def unsigned(keys: SigningKey) -> str:
    return f"{part(msgspec.json.encode({'alg': 'none', 'kid': keys.kid}))}.{part(msgspec.json.encode(CLAIMS))}."


def hs256(keys: SigningKey) -> str:
    signed = f"{part(msgspec.json.encode({'alg': 'HS256', 'kid': keys.kid}))}.{part(msgspec.json.encode(CLAIMS))}"
    secret = keys.certificates()[keys.kid].encode()
    return f"{signed}.{part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def flipped(token: str) -> str:
    head, payload, signature = token.split(".")
    return ".".join([head, payload[:-2] + ("A" if payload[-2] != "A" else "B") + payload[-1], signature])


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_a_sender_who_is_not_google_is_refused(
    play: Play,
    stranger: SigningKey,
    forge: Callable[[SigningKey, SigningKey], str],
) -> None:
    authorization = forge(play.keys, stranger)
    with pytest.raises(NotAuthentic) as refused:
        await play.verify(pushed(notice(2), authorization))
    assert authorization[7:60] not in refused.value.message or not authorization[7:60]


@pytest.mark.parametrize("audience", ["https://other.example.com", [AUDIENCE], None, AUDIENCE + "/"])
async def test_a_push_for_another_audience_is_misdirected(play: Play, audience: object) -> None:
    with pytest.raises(Misdirected):
        await play.verify(pushed(notice(2), bearer(play.keys, aud=audience)))


async def test_a_push_about_another_package_is_misdirected(play: Play) -> None:
    with pytest.raises(Misdirected):
        await play.verify(pushed(notice(2) | {"packageName": "com.example.other"}, bearer(play.keys)))


BODIES: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"<html>",
    "another JSON": b"[1, 2]",
    "no message": b"{}",
    "no id": b'{"message": {"data": "e30="}}',
    "id of another type": b'{"message": {"data": "e30=", "messageId": 5}}',
    "id with a NUL": b'{"message": {"data": "e30=", "messageId": "a\\u0000"}}',
    "data not base64": b'{"message": {"data": "%%%", "messageId": "1"}}',
    "data not JSON": b'{"message": {"data": "aGVsbG8=", "messageId": "1"}}',
    "data without a package": b'{"message": {"data": "e30=", "messageId": "1"}}',
    "huge": b" " * (LARGEST_BODY + 1),
    "deep": b"[" * 50_000,
    "not UTF-8": b'{"message": {"data": "\xff\xfe", "messageId": "1"}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_that_google_does_not_send_is_malformed(play: Play, body: bytes) -> None:
    incoming = Incoming(body=body, headers={"authorization": bearer(play.keys)}, received_at=START)
    with pytest.raises(Malformed):
        await play.verify(incoming)


@pytest.mark.parametrize(
    "told",
    [
        notice(2) | {"subscriptionNotification": {"notificationType": 2}},
        notice(2) | {"subscriptionNotification": {"notificationType": 2, "purchaseToken": ""}},
        notice(2) | {"subscriptionNotification": {"notificationType": 2, "purchaseToken": "a b"}},
        notice(2) | {"subscriptionNotification": {"notificationType": 2, "purchaseToken": "a" * 3000}},
        notice(2) | {"subscriptionNotification": {"notificationType": "two", "purchaseToken": "a"}},
        notice(2) | {"subscriptionNotification": [1]},
        notice(2) | {"packageName": 5},
    ],
)
async def test_a_notification_in_another_form_is_malformed(play: Play, told: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        await play.verify(pushed(told, bearer(play.keys)))


@pytest.mark.parametrize("moment", ["", 0, -5, 10**15, "99999999999999999999", None])
async def test_an_odd_moment_is_the_moment_of_arrival_or_malformed(play: Play, moment: object) -> None:
    try:
        taken = await play.verify(pushed(notice(2) | {"eventTimeMillis": moment}, bearer(play.keys)))
    except Malformed:
        return
    assert taken.occurred_at == START


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=300) | st.binary(max_size=100).map(lambda data: pushed(data, "").body),
    token=st.binary(max_size=200).map(lambda data: data.decode("latin-1"))
    | st.lists(st.binary(max_size=60).map(part), min_size=3, max_size=3).map(".".join),
    good=st.booleans(),
)
async def test_bytes_from_outside_never_lead_to_another_error(play: Play, body: bytes, token: str, good: bool) -> None:
    authorization = bearer(play.keys) if good else f"Bearer {token}"
    with pytest.raises(StoreError) as refused:
        await play.verify(Incoming(body=body, headers={"authorization": authorization}, received_at=START))
    assert isinstance(refused.value, Malformed if good else NotAuthentic)


async def test_without_certificates_nobody_can_be_checked_and_google_sends_again(play: Play) -> None:
    play.refuse = lambda path: StoreResponse(503, {}, b"") if path == "/certs" else None
    with pytest.raises(StoreDown):
        await play.verify(pushed(notice(2), bearer(play.keys)))


async def test_certificates_are_fetched_once_for_many_pushes(play: Play) -> None:
    for number in range(20):
        await play.verify(pushed(notice(2), bearer(play.keys), str(number)))
    assert play.calls == ["GET /certs"]


async def test_invented_key_ids_do_not_make_latchkey_ask_google_again_and_again(play: Play) -> None:
    await play.verify(pushed(notice(2), bearer(play.keys)))
    for number in range(20):
        with pytest.raises(NotAuthentic):
            await play.verify(pushed(notice(2), relabelled(bearer(play.keys), "RS256", f"invented-{number}")))
    assert len(play.calls) == 1, "within a minute of the last answer Google is not asked again"


async def test_each_app_has_its_own_sender(play: Play) -> None:
    other = connected(play.keys, push_service_account="another@project.iam.gserviceaccount.com")
    with pytest.raises(NotAuthentic):
        await play.adapter.verify(other, pushed(notice(2), bearer(play.keys)))
