"""What Apple would sign about one app: transactions, renewal infos and notifications, and an app that trusts them."""

import itertools
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from latchkey.domain.instants import DAY, Ms
from latchkey.emulators.apple.apple_books import AppleNotice
from latchkey.emulators.apple.apple_emulator import AppleApp, notification_payload
from latchkey.emulators.apple.apple_keys import AppleChain
from latchkey.stores.adapter import ConnectedApp, Incoming
from latchkey.stores.apple.adapter import AppleAdapter

BUNDLE_ID = "com.example.shop"
APP_APPLE_ID = 1_234_567_890
START: Ms = 1_790_000_000_000
MONTH = 30 * DAY
ACCOUNT = "6f0f1c5e-95f7-4c1b-a8a3-1b6a2f2b8d10"

_private_key = generate_private_key(SECP256R1())
PRIVATE_KEY = _private_key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC_KEY = _private_key.public_key()

APP = AppleApp(bundle_id=BUNDLE_ID, app_apple_id=APP_APPLE_ID, environment="Production")

Payload = dict[str, Any]
_numbers = itertools.count(1)


def given_credentials(chain: AppleChain, **changed: Any) -> Payload:
    return {
        "bundle_id": BUNDLE_ID,
        "app_apple_id": APP_APPLE_ID,
        "issuer_id": "57246542-96fe-1a63-e053-0824d011072a",
        "key_id": "2X9R4HXF34",
        "private_key": PRIVATE_KEY,
        "root_certificates": [chain.root_pem],
        **changed,
    }


def connected(adapter: AppleAdapter, chain: AppleChain, *, version: int = 1, **changed: Any) -> ConnectedApp:
    credentials = adapter.credential_form.parse(given_credentials(chain, **changed), frozenset({"127.0.0.1"}))
    return ConnectedApp(
        project_id="proj_1", app_id="app_1", store="app_store", credentials=credentials, version=version
    )


def transaction(
    id: str = "1", *, day: float = 0, days: float = 30, told_on: float | None = None, **more: Any
) -> Payload:
    bought = START + round(day * DAY)
    return {
        "transactionId": id,
        "originalTransactionId": "1",
        "bundleId": BUNDLE_ID,
        "productId": "monthly",
        "subscriptionGroupIdentifier": "20900376",
        "purchaseDate": bought,
        "originalPurchaseDate": START,
        "expiresDate": bought + round(days * DAY),
        "quantity": 1,
        "type": "Auto-Renewable Subscription",
        "inAppOwnershipType": "PURCHASED",
        "signedDate": START + round((day if told_on is None else told_on) * DAY),
        "environment": "Production",
        "transactionReason": "PURCHASE",
        "storefront": "USA",
        "price": 4990,
        "currency": "USD",
        "appAccountToken": ACCOUNT,
    } | more


def one_time(id: str = "900", *, day: float = 0, told_on: float | None = None, **more: Any) -> Payload:
    """A consumable, or with `type` another purchase that does not renew."""
    told = transaction(id, day=day, told_on=told_on, originalTransactionId=id, productId="coins", type="Consumable")
    del told["expiresDate"], told["subscriptionGroupIdentifier"]
    return told | more


def renewal(*, told_on: float = 0, **more: Any) -> Payload:
    return {
        "originalTransactionId": "1",
        "productId": "monthly",
        "autoRenewProductId": "monthly",
        "autoRenewStatus": 1,
        "isInBillingRetryPeriod": False,
        "signedDate": START + round(told_on * DAY),
        "environment": "Production",
    } | more


def notification(
    chain: AppleChain,
    kind: str,
    subtype: str | None = None,
    *,
    about: Payload | None = None,
    renews: Payload | None = None,
    status: int | None = None,
    told_on: float | None = None,
    data: Mapping[str, Any] | None = None,
    **more: Any,
) -> Payload:
    """Not yet signed. `about` and `renews` are the transaction and the renewal info that it carries."""
    told_at = START if told_on is None else START + round(told_on * DAY)
    if told_on is None and about is not None:
        told_at = about["signedDate"]
    signed = [chain.sign(payload) if payload is not None else None for payload in (about, renews)]
    notice = AppleNotice(type=kind, subtype=subtype, at=told_at)
    told = notification_payload(APP, notice, str(uuid.UUID(int=next(_numbers))), told_at, *signed)
    told["data"] |= {**({"status": status} if status is not None else {}), **(data or {})}
    return told | more


def incoming(signed: str, received_at: Ms = START) -> Incoming:
    return Incoming(body=msgspec.json.encode({"signedPayload": signed}), headers={}, received_at=received_at)
