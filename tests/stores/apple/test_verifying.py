"""What comes to the notification URL: believed only with Apple's signature, and only for this app."""

import base64
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.emulators.apple.apple_keys import AppleChain, make_chain
from latchkey.stores.adapter import ConnectedApp, Incoming, Notification
from latchkey.stores.apple.adapter import LARGEST_BODY, AppleAdapter
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic, StoreError
from tests.stores.apple.app_store import (
    APP_APPLE_ID,
    BUNDLE_ID,
    START,
    connected,
    incoming,
    notification,
    one_time,
    renewal,
    transaction,
)

WRONG_APP = "com.example.other"


@pytest.fixture(scope="module")
def stranger() -> AppleChain:
    return make_chain()


def told(chain: AppleChain, **more: Any) -> dict[str, Any]:
    return notification(
        chain, "DID_RENEW", about=transaction("2", day=30), renews=renewal(told_on=30), status=1, **more
    )


async def test_an_authentic_notification_is_kept_with_what_was_checked(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    payload = notification(
        chain, "DID_RENEW", "BILLING_RECOVERY", about=transaction("2", day=30), renews=renewal(told_on=30), status=1
    )
    signed = chain.sign(payload)
    assert await adapter.verify(app, incoming(signed)) == Notification(
        external_id=payload["notificationUUID"],
        kind="DID_RENEW/BILLING_RECOVERY",
        environment=Environment.PRODUCTION,
        occurred_at=payload["signedDate"],
        subject="1",
        payload=signed,
        checked={
            "signature": "valid, under a root certificate of the credentials",
            "bundle_id": BUNDLE_ID,
            "app_apple_id": str(APP_APPLE_ID),
            "environment": "PRODUCTION",
        },
    )


async def test_the_subject_of_a_one_time_purchase_is_its_transaction(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    signed = chain.sign(notification(chain, "ONE_TIME_CHARGE", about=one_time("77", originalTransactionId="70")))
    assert (await adapter.verify(app, incoming(signed))).subject == "77"


async def test_the_sandbox_is_known_by_what_apple_signed(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    sandbox: dict[str, Any] = {"environment": "Sandbox"}
    payload = notification(
        chain,
        "SUBSCRIBED",
        about=transaction(**sandbox),
        renews=renewal(**sandbox),
        status=1,
        data={"environment": "Sandbox", "appAppleId": None},
    )
    kept = await adapter.verify(app, incoming(chain.sign(payload)))
    assert kept.environment is Environment.SANDBOX
    [seen] = (await adapter.read(app, kept.payload)).seen
    assert seen.snapshot.environment is Environment.SANDBOX


def unsigned(payload: dict[str, Any], header: dict[str, Any], signature: bytes = b"") -> str:
    parts = (msgspec.json.encode(header), msgspec.json.encode(payload), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def signed_by(
    chain: AppleChain, payload: dict[str, Any], key: Any = None, algorithm: str = "ES256", **header: Any
) -> str:
    return jwt.encode(payload, key or chain.key, algorithm=algorithm, headers={"x5c": chain.x5c, **header})


def swapped(chain: AppleChain) -> str:
    """The header and the signature of one payload around another."""
    header, _, signature = chain.sign(told(chain)).split(".")
    return ".".join((header, chain.sign(told(chain)).split(".")[1], signature))


FORGERIES: dict[str, Callable[[AppleChain, AppleChain], str]] = {
    "another root": lambda chain, other: other.sign(told(chain)),
    "alg none": lambda chain, _: unsigned(told(chain), {"alg": "none", "x5c": chain.x5c}),
    "alg None": lambda chain, _: unsigned(told(chain), {"alg": "None", "x5c": chain.x5c}),
    "HS256 with the public key": lambda chain, _: signed_by(chain, told(chain), "x" * 64, "HS256"),
    "ES256 by another key": lambda chain, other: signed_by(chain, told(chain), other.key),
    "ES384": lambda chain, _: signed_by(chain, told(chain), generate_private_key(SECP384R1()), "ES384"),
    "no chain": lambda chain, _: jwt.encode(told(chain), chain.key, algorithm="ES256"),
    "an empty chain": lambda chain, _: signed_by(chain, told(chain), x5c=[]),
    "a short chain": lambda chain, _: signed_by(chain, told(chain), x5c=chain.x5c[:2]),
    "a long chain": lambda chain, _: signed_by(chain, told(chain), x5c=[*chain.x5c, chain.x5c[2]]),
    "the chain upside down": lambda chain, _: signed_by(chain, told(chain), x5c=chain.x5c[::-1]),
    "no certificates": lambda chain, _: signed_by(chain, told(chain), x5c=["a", "b", "c"]),
    "own leaf under Apple's intermediate": lambda chain, other: signed_by(
        chain, told(chain), other.key, x5c=[other.x5c[0], *chain.x5c[1:]]
    ),
    "Apple's root beside an own chain": lambda chain, other: signed_by(
        chain, told(chain), other.key, x5c=[*other.x5c[:2], chain.x5c[2]]
    ),
    "another payload": lambda chain, _: swapped(chain),
    "no signature": lambda chain, _: chain.sign(told(chain)).rsplit(".", 1)[0] + ".",
    "half a signature": lambda chain, _: chain.sign(told(chain))[:-20],
    "a jwk of its own": lambda chain, other: signed_by(
        chain,
        told(chain),
        other.key,
        jwk=msgspec.json.decode(jwt.algorithms.ECAlgorithm.to_jwk(other.key.public_key())),
    ),
    "a critical extension": lambda chain, _: signed_by(chain, told(chain), crit=["b64"]),
    "too deep": lambda *_: f"eyJhbGciOiJFUzI1NiJ9.{base64.urlsafe_b64encode(b'[' * 100_000).decode().rstrip('=')}.aaaa",
    "no date": lambda _, other: other.sign({k: v for k, v in told(other).items() if k != "signedDate"}),
    "before the chain was valid": lambda chain, _: chain.sign(told(chain) | {"signedDate": 1_000}),
    "another nested root": lambda chain, other: chain.sign(
        told(chain) | {"data": {**told(chain)["data"], "signedTransactionInfo": other.sign(transaction("2"))}}
    ),
    "another nested root for renewal": lambda chain, other: chain.sign(
        told(chain) | {"data": {**told(chain)["data"], "signedRenewalInfo": other.sign(renewal())}}
    ),
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
async def test_what_apple_has_not_signed_is_not_believed(
    adapter: AppleAdapter,
    app: ConnectedApp,
    chain: AppleChain,
    stranger: AppleChain,
    forged: Callable[[AppleChain, AppleChain], str],
) -> None:
    # The good chain is known by now, so that nothing passes because of that.
    await adapter.verify(app, incoming(chain.sign(told(chain))))
    with pytest.raises(NotAuthentic) as raised:
        await adapter.verify(app, incoming(forged(chain, stranger)))
    assert "eyJ" not in raised.value.message


@pytest.mark.parametrize(
    "wrong",
    [
        {"leaf_mark": False},
        {"intermediate_mark": False},
        {"not_after": datetime(2020, 1, 1, tzinfo=UTC)},
        {"not_before": datetime(2100, 1, 1, tzinfo=UTC)},
    ],
    ids=["leaf without mark", "intermediate without mark", "expired", "not valid yet"],
)
async def test_a_chain_under_the_root_that_does_not_sign_for_the_app_store(
    adapter: AppleAdapter, wrong: dict[str, Any]
) -> None:
    chain = make_chain(**wrong)
    with pytest.raises(NotAuthentic):
        await adapter.verify(connected(adapter, chain), incoming(chain.sign(told(chain))))


MISDIRECTED: dict[str, dict[str, Any]] = {
    "bundle": {"data": {"bundleId": WRONG_APP}},
    "app id": {"data": {"appAppleId": 1}},
    "no app id in production": {"data": {"appAppleId": None}},
    "Xcode": {"data": {"environment": "Xcode"}},
    "LocalTesting": {"data": {"environment": "LocalTesting"}},
    "sandbox around production": {"data": {"environment": "Sandbox"}},
    "wrong app id in the sandbox": {"data": {"environment": "Sandbox", "appAppleId": 1}},
}


@pytest.mark.parametrize("more", MISDIRECTED.values(), ids=MISDIRECTED)
async def test_what_apple_signed_for_somebody_else_is_refused(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, more: dict[str, Any]
) -> None:
    with pytest.raises(Misdirected):
        await adapter.verify(app, incoming(chain.sign(told(chain, **more))))


@pytest.mark.parametrize(
    ("about", "renews"),
    [
        (transaction(bundleId=WRONG_APP), renewal()),
        (transaction(environment="Sandbox"), renewal()),
        (transaction(environment="Xcode"), renewal()),
        (transaction(), renewal(environment="Sandbox")),
        (transaction(), renewal(environment="LocalTesting")),
    ],
)
async def test_what_is_nested_must_be_for_this_app_too(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, about: dict[str, Any], renews: dict[str, Any]
) -> None:
    payload = notification(chain, "DID_RENEW", about=about, renews=renews, status=1)
    with pytest.raises(Misdirected):
        await adapter.verify(app, incoming(chain.sign(payload)))


async def test_a_notification_about_no_app_is_refused(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    payload = told(chain)
    del payload["data"]
    with pytest.raises(Misdirected):
        await adapter.verify(app, incoming(chain.sign(payload)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        b'{"signedPayload": 5}',
        b'{"signedPayload": "not a jws"}',
        b'{"signedPayload": "a.b"}',
        b'{"signedPayload": "aaaa.bbbb.cccc.dddd.eeee"}',
        b'{"signedPayload": "\xff"}',
        b'{"signedPayload": "\\u0000"}',
        b'{"signedPayload": "\\ud800"}',
        b'{"notification_type": "DID_RENEW", "unified_receipt": {}}',
        b"[" * 100_000,
        b'{"signedPayload":' * 20_000,
        b'{"signedPayload": "' + b"a" * (LARGEST_BODY // 2 + 100) + b'.bb.cc"}',
        b'{"signedPayload": "' + b"a" * LARGEST_BODY + b'"}',
    ],
    ids=range(17),
)
async def test_what_is_no_notification_is_malformed(adapter: AppleAdapter, app: ConnectedApp, body: bytes) -> None:
    with pytest.raises(Malformed):
        await adapter.verify(app, Incoming(body=body, headers={}, received_at=START))


@pytest.mark.parametrize(
    "wrong",
    [
        {"notificationUUID": None},
        {"notificationUUID": ""},
        {"notificationUUID": "a\u0000b"},
        {"notificationType": 5},
        {"data": []},
        {"data": {"bundleId": BUNDLE_ID, "environment": None}},
        {"data": {"bundleId": BUNDLE_ID, "environment": "production"}},
        {"signedDate": None},
        {"signedDate": "2026-11-15T00:19:44Z"},
    ],
)
async def test_a_signed_notification_of_another_form_is_malformed(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, wrong: dict[str, Any]
) -> None:
    with pytest.raises(Malformed):
        await adapter.verify(app, incoming(chain.sign(told(chain) | wrong)))


@pytest.mark.parametrize(
    "wrong",
    [{"expiresDate": None}, {"productId": ""}, {"productId": "a\u0000"}, {"purchaseDate": "x"}, {"price": -1}],
)
async def test_an_authentic_transaction_of_another_form_is_kept_and_fails_in_processing(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, wrong: dict[str, Any]
) -> None:
    payload = notification(chain, "DID_RENEW", about=transaction() | wrong, renews=renewal(), status=1)
    kept = await adapter.verify(app, incoming(chain.sign(payload)))
    with pytest.raises(Malformed):
        await adapter.read(app, kept.payload)


async def test_a_renewal_of_another_subscription_is_not_taken_for_this_one(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    payload = notification(
        chain, "DID_RENEW", about=transaction(), renews=renewal(told_on=5, originalTransactionId="8"), status=1
    )
    kept = await adapter.verify(app, incoming(chain.sign(payload)))
    [seen] = (await adapter.read(app, kept.payload)).seen
    assert isinstance(seen.snapshot, Subscription)
    assert seen.snapshot.status.as_of.at == START, "only what the purchase itself says"


async def test_new_credentials_are_used_at_once(adapter: AppleAdapter, chain: AppleChain, stranger: AppleChain) -> None:
    signed = incoming(chain.sign(told(chain)))
    await adapter.verify(connected(adapter, chain), signed)
    with pytest.raises(NotAuthentic):
        await adapter.verify(connected(adapter, stranger, version=2), signed)


async def test_a_good_chain_is_checked_once_and_only_while_it_is_valid(adapter: AppleAdapter) -> None:
    chain = make_chain(not_before=datetime(2026, 1, 1, tzinfo=UTC), not_after=datetime(2027, 1, 1, tzinfo=UTC))
    app = connected(adapter, chain)
    await adapter.verify(app, incoming(chain.sign(told(chain))))
    for signed_at in (datetime(2025, 12, 31, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)):
        payload = told(chain) | {"signedDate": int(signed_at.timestamp() * 1000)}
        with pytest.raises(NotAuthentic):
            await adapter.verify(app, incoming(chain.sign(payload)))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=400))
async def test_random_bytes_are_refused(adapter: AppleAdapter, app: ConnectedApp, body: bytes) -> None:
    with pytest.raises(StoreError):
        await adapter.verify(app, Incoming(body=body, headers={}, received_at=START))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_signed_notification_with_any_change_is_refused(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, data: st.DataObject
) -> None:
    signed = chain.sign(told(chain))
    at = data.draw(st.integers(0, len(signed) - 1))
    instead = data.draw(st.sampled_from(["", "A", "b", "_", ".", "=", "é", "\x00", "AAAA", signed[:50]]))
    changed = signed[:at] + instead + signed[at + data.draw(st.integers(0, 40)) :]
    if _same_bytes(changed, signed):
        return
    with pytest.raises(StoreError):
        await adapter.verify(app, incoming(changed))


def _same_bytes(one: str, other: str) -> bool:
    """The last character of a signature has bits that mean nothing."""
    return one[:-1] == other[:-1] and len(one) == len(other)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    [*transaction(), *renewal(), "data", "notificationType", "notificationUUID", "subtype", "status"]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changed=st.dictionaries(names, json_values, max_size=4), where=st.sampled_from(["outer", "data", "about", "renews"])
)
async def test_whatever_is_signed_ends_in_a_snapshot_or_a_known_error(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, changed: dict[str, Any], where: str
) -> None:
    about = transaction() | (changed if where == "about" else {})
    renews = renewal() | (changed if where == "renews" else {})
    payload = notification(chain, "DID_RENEW", about=transaction(), renews=renewal(), status=1)
    payload["data"] |= {"signedTransactionInfo": chain.sign(about), "signedRenewalInfo": chain.sign(renews)}
    if where == "data":
        payload["data"] |= changed
    if where == "outer":
        payload |= changed
    with contextlib.suppress(StoreError):
        kept = await adapter.verify(app, incoming(chain.sign(payload)))
        await adapter.read(app, kept.payload)
