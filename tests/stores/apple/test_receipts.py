"""What phones send: a proof is taken, a forgery is not, and nothing is lost where Apple has to be asked."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options, PKCS7SignatureBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.emulators.apple.apple_keys import AppleChain, make_chain
from latchkey.stores.adapter import AppReceipt, ConnectedApp
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.apple.receipts import LARGEST_RECEIPT, _Message
from latchkey.stores.errors import CredentialsRefused, InvalidReceipt, NoAnswer, StoreDown, StoreError
from tests.stores.apple.app_receipt import make_receipt
from tests.stores.apple.app_store import ACCOUNT, BUNDLE_ID, START, connected, one_time, renewal, transaction
from tests.stores.loopback import Reply, Request, serving

NOWHERE = "http://127.0.0.1:9"


def storekit_1(chain: AppleChain, *, bundle_id: str = BUNDLE_ID, ids: tuple[str, ...] = ("1",)) -> str:
    return make_receipt(chain, bundle_id=bundle_id, created_at=START, transaction_ids=ids)


@pytest.fixture(scope="module")
def genuine(chain: AppleChain) -> bytes:
    """The same throughout: the length of a signature varies."""
    return base64.b64decode(storekit_1(chain))


@asynccontextmanager
async def apple(adapter: AppleAdapter, chain: AppleChain, answers: dict[str, Any]) -> AsyncIterator[ConnectedApp]:
    async def handler(request: Request) -> Reply:
        answer = answers.get(request.path)
        if answer is None:
            return Reply.json({"errorCode": 4040010, "errorMessage": "Transaction id not found."}, status=404)
        return answer if isinstance(answer, Reply) else Reply.json(answer)

    async with serving(handler) as address:
        yield connected(adapter, chain, api_base_url=address)


async def test_a_signed_transaction_is_the_purchase_itself(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    [seen] = (await adapter.read_receipt(app, AppReceipt(token=chain.sign(transaction())))).seen
    assert isinstance(seen.snapshot, Subscription)
    assert (seen.snapshot.id, seen.handle, seen.account_token, seen.complete) == ("1", "1", ACCOUNT, True)
    assert seen.snapshot.current.cause is Cause.PURCHASE
    assert seen.snapshot.app_id == "app_1"


async def test_a_later_transaction_says_that_others_came_before_it(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    [seen] = (await adapter.read_receipt(app, AppReceipt(token=chain.sign(transaction("5", day=90))))).seen
    assert not seen.complete


async def test_a_transaction_posted_later_does_not_turn_renewal_on(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    token = chain.sign(transaction(told_on=20))
    [seen] = (await adapter.read_receipt(app, AppReceipt(token=token))).seen
    assert isinstance(seen.snapshot, Subscription)
    assert seen.snapshot.status.as_of.at == START, "of renewal it says only how it was when it was bought"
    assert seen.snapshot.current.as_of.at > START


@pytest.mark.parametrize("kind", ["Consumable", "Non-Consumable", "Non-Renewing Subscription"])
async def test_a_one_time_purchase(adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, kind: str) -> None:
    [seen] = (await adapter.read_receipt(app, AppReceipt(token=chain.sign(one_time(type=kind))))).seen
    assert isinstance(seen.snapshot, Purchase)
    assert (seen.snapshot.id, seen.handle, seen.snapshot.price.micros) == ("900", "900", 4_990_000)


async def test_an_app_transaction_alone_is_no_purchase(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    told = {
        "receiptType": "Production",
        "appAppleId": 1_234_567_890,
        "bundleId": BUNDLE_ID,
        "receiptCreationDate": START,
        "originalApplicationVersion": "1.2",
    }
    reading = await adapter.read_receipt(app, AppReceipt(token=None, app_transaction=chain.sign(told)))
    assert (reading.seen, reading.note) == ((), "The app was downloaded; nothing has been bought.")
    assert reading.app_version == "1.2"
    token = chain.sign(one_time())
    beside = await adapter.read_receipt(app, AppReceipt(token=token, app_transaction=chain.sign(told)))
    assert (len(beside.seen), beside.app_version) == (1, "1.2")
    for wrong in ({"bundleId": "com.example.other"}, {"appAppleId": 1}, {"receiptType": "Xcode"}):
        forged = chain.sign(told | wrong)
        with pytest.raises(InvalidReceipt):
            await adapter.read_receipt(app, AppReceipt(token="", app_transaction=forged))
        # Beside a purchase it proves nothing, and takes nothing away.
        beside = await adapter.read_receipt(app, AppReceipt(token=token, app_transaction=forged))
        assert (len(beside.seen), beside.app_version) == (1, None)


XCODE = base64.b64encode(msgspec.json.encode({"environment": "Xcode", "transactions": [], "bundle_id": BUNDLE_ID}))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "test_1_2",
        "....",
        "a.b.c",
        XCODE.decode(),
        base64.b64encode(b"\x30\x80" * 50).decode(),
        base64.b64encode(b"0" * 100).decode(),
        "é" * 10,
        "A" * (LARGEST_RECEIPT + 4),
    ],
    ids=range(10),
)
async def test_what_is_no_receipt_at_all(adapter: AppleAdapter, app: ConnectedApp, token: str) -> None:
    with pytest.raises(InvalidReceipt):
        await adapter.read_receipt(app, AppReceipt(token=token))
    assert not adapter.looks_real(AppReceipt(token=token), START)


async def test_a_transaction_that_apple_did_not_sign_for_this_app(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    good = chain.sign(transaction())
    for token in (
        make_chain().sign(transaction()),
        good[:-30],
        good + "A" * 30,
        chain.sign(transaction(bundleId="com.example.other")),
        chain.sign(transaction(bundleId="com.example.other", productId=None)),
        chain.sign(transaction(environment="Xcode")),
        make_chain().sign(transaction(signedDate=None)),
    ):
        with pytest.raises(InvalidReceipt) as raised:
            await adapter.read_receipt(app, AppReceipt(token=token))
        assert "eyJ" not in raised.value.message
        assert not adapter.looks_real(AppReceipt(token=token), START), "a signature can be checked without Apple"


@pytest.mark.parametrize(
    "odd",
    [
        {"productId": None},
        {"expiresDate": None},
        {"purchaseDate": "2026-11-15T00:19:44Z"},
        {"signedDate": None},
        {"signedDate": "2026-11-15T00:19:44Z"},
        {"environment": "Preview"},
        {"environment": None},
        {"bundleId": None},
        {"price": 9.99},
    ],
    ids=str,
)
async def test_what_apple_signed_in_an_unexpected_form_is_never_called_invalid(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, odd: dict[str, Any]
) -> None:
    with pytest.raises(StoreDown) as raised:
        await adapter.read_receipt(app, AppReceipt(token=chain.sign(transaction() | odd)))
    assert not isinstance(raised.value, NoAnswer), "that gives no access either"


async def test_a_storekit_1_receipt_is_looked_up_at_apple(adapter: AppleAdapter, chain: AppleChain) -> None:
    first, second = transaction(told_on=40), transaction("2", day=30, told_on=40, transactionReason="RENEWAL")
    coins = one_time(told_on=40)
    answers: dict[str, Any] = {
        "/inApps/v2/history/1": {
            "signedTransactions": [chain.sign(transaction) for transaction in (first, coins)],
            "hasMore": False,
        },
        "/inApps/v1/subscriptions/1": {
            "data": [
                {
                    "lastTransactions": [
                        {
                            "originalTransactionId": "1",
                            "status": 1,
                            "signedTransactionInfo": chain.sign(second),
                            "signedRenewalInfo": chain.sign(renewal(told_on=40, autoRenewStatus=0)),
                        }
                    ]
                }
            ]
        },
    }
    async with apple(adapter, chain, answers) as app:
        subscription, purchase = (await adapter.read_receipt(app, AppReceipt(token=storekit_1(chain)))).seen
    assert isinstance(subscription.snapshot, Subscription)
    assert [period.id for period in subscription.snapshot.periods] == ["1", "2"]
    assert not subscription.snapshot.status.auto_renew
    assert subscription.complete
    assert purchase.snapshot.id == "900"


async def test_a_receipt_without_purchases_buys_nothing(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain
) -> None:
    token = storekit_1(chain, ids=())
    assert (await adapter.read_receipt(app, AppReceipt(token=token))).seen == ()
    assert not adapter.looks_real(AppReceipt(token=token), START)


def signed_by(chain: AppleChain, **more: Any) -> Reply:
    return Reply.json({"signedTransactions": [chain.sign(transaction(**more))]})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(503), NoAnswer),
        (Reply.json({"errorCode": 4290000}, status=429), NoAnswer),
        (Reply.json({"errorCode": 4040010}, status=404), StoreDown),
        (Reply.json({"errorCode": 4000006}, status=400), StoreDown),
        (Reply(302), StoreDown),
        (Reply(200), StoreDown),
        (Reply(200, b"<html>"), StoreDown),
        (Reply(401), CredentialsRefused),
        (Reply.json({"signedTransactions": ["a.b.c"]}), StoreDown),
        (lambda chain: signed_by(chain, bundleId="com.example.other"), StoreDown),
        (lambda _: signed_by(make_chain()), CredentialsRefused),
    ],
    ids=["503", "429", "unknown", "declined", "302", "empty", "html", "401", "no transaction", "bundle", "other root"],
)
async def test_no_answer_of_apples_makes_a_phone_drop_a_purchase(
    adapter: AppleAdapter, chain: AppleChain, reply: Reply | Callable[[AppleChain], Reply], error: type[StoreError]
) -> None:
    answer = reply if isinstance(reply, Reply) else reply(chain)
    async with apple(adapter, chain, {"/inApps/v2/history/1": answer}) as app:
        with pytest.raises(error) as raised:
            await adapter.read_receipt(app, AppReceipt(token=storekit_1(chain)))
        assert type(raised.value) is error, "only NoAnswer gives temporary access"


async def test_a_forged_receipt_does_not_reach_apple(adapter: AppleAdapter, chain: AppleChain) -> None:
    """Anybody can write a receipt with somebody else's transaction id."""
    other = make_chain()
    mixed = AppleChain(chain.root, chain.intermediate, chain.leaf, other.key)
    genuine = base64.b64decode(storekit_1(chain, ids=("123456789",)))
    renamed = base64.b64encode(genuine.replace(b"123456789", b"987654321")).decode()
    app = connected(adapter, chain, api_base_url=NOWHERE)
    for token in (storekit_1(other), storekit_1(mixed), renamed, storekit_1(chain, bundle_id="com.example.other")):
        with pytest.raises(InvalidReceipt):
            await adapter.read_receipt(app, AppReceipt(token=token))


async def test_an_expired_chain_signs_no_receipt(adapter: AppleAdapter) -> None:
    chain = make_chain(not_after=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidReceipt):
        await adapter.read_receipt(connected(adapter, chain), AppReceipt(token=storekit_1(chain)))


async def test_a_missing_root_for_receipts_is_the_operators_business(adapter: AppleAdapter, chain: AppleChain) -> None:
    apples = make_chain(name="Apple")
    with pytest.raises(StoreDown, match="Apple Root CA"):
        await adapter.read_receipt(connected(adapter, chain), AppReceipt(token=storekit_1(apples)))
    roots = [chain.root_pem, apples.root_pem]
    both = connected(adapter, chain, version=2, root_certificates=roots, api_base_url=NOWHERE)
    with pytest.raises(StoreDown):
        await adapter.read_receipt(both, AppReceipt(token=storekit_1(apples)))


@pytest.mark.parametrize("options", [[], [PKCS7Options.NoCapabilities]], ids=["attributes", "fewer attributes"])
async def test_a_receipt_with_signed_attributes(
    adapter: AppleAdapter, chain: AppleChain, options: list[PKCS7Options]
) -> None:
    content = _content_of(base64.b64decode(storekit_1(chain)))
    builder = PKCS7SignatureBuilder().set_data(content).add_signer(chain.leaf, chain.key, hashes.SHA256())
    signed = builder.add_certificate(chain.intermediate).sign(Encoding.DER, [PKCS7Options.Binary, *options])
    app = connected(adapter, chain, api_base_url=NOWHERE)
    with pytest.raises(StoreDown):
        await adapter.read_receipt(app, AppReceipt(token=base64.b64encode(signed).decode()))
    broken = signed.replace(BUNDLE_ID.encode(), b"com.example.mine")
    assert len(broken) == len(signed)
    with pytest.raises(InvalidReceipt):
        await adapter.read_receipt(app, AppReceipt(token=base64.b64encode(broken).decode()))


def _content_of(signed: bytes) -> bytes:
    return _Message.parse(signed).content


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_receipt_with_any_change_is_invalid_or_still_the_same(
    adapter: AppleAdapter, chain: AppleChain, genuine: bytes, data: st.DataObject
) -> None:
    app = connected(adapter, chain, api_base_url=NOWHERE)
    signed = bytearray(genuine)
    for _ in range(data.draw(st.integers(1, 3))):
        signed[data.draw(st.integers(0, len(signed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(signed))))
    token = base64.b64encode(bytes(signed[:cut])).decode()
    # StoreDown: the bytes that were changed are none that count, and the next thing is to ask Apple.
    with pytest.raises((InvalidReceipt, StoreDown)):
        await adapter.read_receipt(app, AppReceipt(token=token))
    adapter.looks_real(AppReceipt(token=token), START)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: base64.b64encode(raw).decode()))
async def test_random_text_is_no_receipt(adapter: AppleAdapter, app: ConnectedApp, token: str) -> None:
    with pytest.raises(InvalidReceipt):
        await adapter.read_receipt(app, AppReceipt(token=token))
    assert not adapter.looks_real(AppReceipt(token=token), START)
