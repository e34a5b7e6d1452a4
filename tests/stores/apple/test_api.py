"""The App Store Server API, played by a server on this machine."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.emulators.apple.apple_keys import AppleChain, make_chain
from latchkey.stores.adapter import AppReceipt, ConnectedApp
from latchkey.stores.apple import api
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.errors import CredentialsRefused, StoreDown
from tests.stores.apple.app_receipt import make_receipt
from tests.stores.apple.app_store import (
    BUNDLE_ID,
    PUBLIC_KEY,
    START,
    connected,
    incoming,
    notification,
    one_time,
    renewal,
    transaction,
)
from tests.stores.loopback import Reply, Request, serving

HISTORY, STATUSES = "/inApps/v2/history/1", "/inApps/v1/subscriptions/1"
NOTIFICATIONS, TEST = "/inApps/v1/notifications/history", "/inApps/v1/notifications/test"
NOT_FOUND = Reply.json({"errorCode": 4040010, "errorMessage": "Transaction id not found."}, status=404)


def receipt(chain: AppleChain) -> str:
    return make_receipt(chain, bundle_id=BUNDLE_ID, created_at=START, transaction_ids=["1"])


class Apple:
    """Answers by path, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Reply | Callable[[Request], Reply]] = {}
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        answer = self.answers.get(request.path, NOT_FOUND)
        return answer if isinstance(answer, Reply) else answer(request)

    def paths(self) -> list[str]:
        return [request.path for request in self.asked]


@pytest.fixture
async def apple() -> Apple:
    return Apple()


@pytest.fixture
async def app(adapter: AppleAdapter, chain: AppleChain, apple: Apple) -> AsyncIterator[ConnectedApp]:
    async with serving(apple) as address:
        yield connected(adapter, chain, api_base_url=address)


@asynccontextmanager
async def two_servers(monkeypatch: pytest.MonkeyPatch, production: Apple, sandbox: Apple) -> AsyncIterator[None]:
    """Apple's own addresses lead here: one for each environment."""
    async with serving(production) as one, serving(sandbox) as other:
        monkeypatch.setattr(api, "_HOSTS", {Environment.PRODUCTION: one, Environment.SANDBOX: other})
        yield


def last(chain: AppleChain, about: dict[str, Any], renews: dict[str, Any], status: int = 1) -> dict[str, Any]:
    return {
        "originalTransactionId": about["originalTransactionId"],
        "status": status,
        "signedTransactionInfo": chain.sign(about),
        "signedRenewalInfo": chain.sign(renews),
    }


def history(chain: AppleChain, *told: dict[str, Any], more: str | None = None) -> Reply:
    return Reply.json(
        {
            "signedTransactions": [chain.sign(event) for event in told],
            "hasMore": more is not None,
            "revision": more or "end",
            "bundleId": BUNDLE_ID,
        }
    )


async def test_a_subscription_is_read_again_with_all_pages_and_its_status(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, apple: Apple
) -> None:
    pages = {
        "": history(chain, transaction(told_on=70), one_time(told_on=70), more="b"),
        "b": history(chain, transaction("2", day=30, told_on=70, transactionReason="RENEWAL")),
    }
    apple.answers[HISTORY] = lambda request: pages[request.query.get("revision", [""])[0]]
    third = transaction("3", day=60, told_on=70, transactionReason="RENEWAL")
    other = transaction("8", originalTransactionId="8", told_on=70)
    apple.answers[STATUSES] = Reply.json(
        {
            "data": [
                {"lastTransactions": [last(chain, third, renewal(told_on=70, autoRenewStatus=0))]},
                {"lastTransactions": [last(chain, other, renewal(told_on=70, originalTransactionId="8"))]},
            ]
        }
    )
    [seen] = (await adapter.read_again(app, "1", Environment.PRODUCTION)).seen
    assert isinstance(seen.snapshot, Subscription)
    assert [period.id for period in seen.snapshot.periods] == ["1", "2", "3"]
    assert (seen.snapshot.status.auto_renew, seen.complete, seen.unordered) == (False, True, False)
    assert apple.paths() == [HISTORY, HISTORY, STATUSES]


async def test_a_one_time_purchase_is_read_again_without_asking_for_subscriptions(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, apple: Apple
) -> None:
    apple.answers["/inApps/v2/history/900"] = history(chain, one_time("900"), one_time("901"))
    [seen] = (await adapter.read_again(app, "900", Environment.PRODUCTION)).seen
    assert seen.handle == "900"
    assert len(apple.asked) == 1


async def test_apple_is_asked_with_a_token_that_is_used_again(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, apple: Apple
) -> None:
    apple.answers[HISTORY] = history(chain, one_time("1", originalTransactionId="1"))
    for _ in range(2):
        await adapter.read_again(app, "1", Environment.PRODUCTION)
    first, second = (request.headers["authorization"].removeprefix("Bearer ") for request in apple.asked)
    assert first == second
    claims = jwt.decode(
        first,
        PUBLIC_KEY,
        algorithms=["ES256"],
        audience="appstoreconnect-v1",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert (claims["iss"], claims["bid"]) == ("57246542-96fe-1a63-e053-0824d011072a", BUNDLE_ID)
    assert 0 < claims["exp"] - claims["iat"] <= 3600
    assert jwt.get_unverified_header(first) == {"alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"}


async def test_pages_that_never_end_are_given_up(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, apple: Apple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_MOST_PAGES", 5)
    apple.answers[HISTORY] = history(chain, transaction(), more="again")
    apple.answers[NOTIFICATIONS] = Reply.json({"notificationHistory": [], "hasMore": True, "paginationToken": "x"})
    with pytest.raises(StoreDown, match="does not end"):
        await adapter.read_again(app, "1", Environment.PRODUCTION)
    with pytest.raises(StoreDown, match="does not end"):
        [missed async for missed in adapter.missed(app, START - DAY, START)]


@pytest.mark.parametrize("code", [4040002, 4040004, 4040006])
async def test_what_apple_asks_to_try_again_is_down(
    adapter: AppleAdapter, app: ConnectedApp, apple: Apple, code: int
) -> None:
    apple.answers[HISTORY] = Reply.json({"errorCode": code}, status=404)
    with pytest.raises(StoreDown):
        await adapter.read_again(app, "1", Environment.PRODUCTION)


async def test_a_handle_cannot_lead_to_another_path(adapter: AppleAdapter, app: ConnectedApp, apple: Apple) -> None:
    with pytest.raises(StoreDown):
        await adapter.read_again(app, "1/x?y=1#z", Environment.PRODUCTION)
    assert apple.paths() == ["/inApps/v2/history/1%2Fx%3Fy%3D1%23z"]


# Which environment.


async def test_a_receipt_is_looked_up_in_production_first_and_then_in_the_sandbox(
    adapter: AppleAdapter, chain: AppleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    production, sandbox = Apple(), Apple()
    told = transaction(environment="Sandbox")
    sandbox.answers[HISTORY] = history(chain, told)
    sandbox.answers[STATUSES] = Reply.json(
        {"data": [{"lastTransactions": [last(chain, told, renewal(environment="Sandbox"))]}]}
    )
    async with two_servers(monkeypatch, production, sandbox):
        app = connected(adapter, chain)
        [seen] = (await adapter.read_receipt(app, AppReceipt(token=receipt(chain)))).seen
        assert seen.snapshot.environment is Environment.SANDBOX
        assert (production.paths(), sandbox.paths()) == ([HISTORY], [HISTORY, STATUSES])
        # An app that is not in the App Store yet is unknown to production.
        production.answers[HISTORY] = Reply(401)
        assert (await adapter.read_receipt(app, AppReceipt(token=receipt(chain)))).seen
        # Production is down: the sandbox has nothing to say about that.
        production.answers[HISTORY] = Reply(503)
        with pytest.raises(StoreDown, match="503"):
            await adapter.read_receipt(app, AppReceipt(token=receipt(chain)))
        production.answers[HISTORY] = sandbox.answers[HISTORY] = Reply(401)
        with pytest.raises(CredentialsRefused):
            await adapter.read_receipt(app, AppReceipt(token=receipt(chain)))


async def test_a_restore_is_looked_up_once_and_where_its_transaction_was_made(
    adapter: AppleAdapter, chain: AppleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox: dict[str, Any] = {"environment": "Sandbox", "told_on": 70}
    first, second = transaction(**sandbox), transaction("2", day=30, transactionReason="RENEWAL", **sandbox)
    lifetime, coins = one_time("900", type="Non-Consumable", **sandbox), one_time("901", **sandbox)
    asked = ["/inApps/v2/history/2", "/inApps/v1/subscriptions/2"]
    nowhere, apple = Apple(), Apple()
    apple.answers[asked[0]] = history(chain, first, second, lifetime, coins)
    renews = renewal(environment="Sandbox", told_on=70)
    apple.answers[asked[1]] = Reply.json({"data": [{"lastTransactions": [last(chain, second, renews)]}]})
    # It was signed when it was bought.
    token = chain.sign(second | {"signedDate": second["purchaseDate"]})
    async with two_servers(monkeypatch, nowhere, apple):
        app = connected(adapter, chain)
        reading = await adapter.read_receipt(app, AppReceipt(token=token, whole=True))
        assert ([seen.handle for seen in reading.seen], reading.unread) == (["1", "900"], None)
        subscription = reading.seen[0].snapshot
        assert isinstance(subscription, Subscription)
        assert [period.id for period in subscription.periods] == ["1", "2"]
        assert subscription.current.as_of.at == second["signedDate"], "what Apple says now counts"
        assert (nowhere.paths(), apple.paths()) == ([], asked)
        for answer in (Reply(503), Reply(401), NOT_FOUND, history(chain, {"type": "odd"})):
            apple.answers[asked[0]] = answer
            reading = await adapter.read_receipt(app, AppReceipt(token=token, whole=True))
            assert [seen.handle for seen in reading.seen] == ["1"]
            assert isinstance(reading.unread, (StoreDown, CredentialsRefused))


async def test_a_known_purchase_is_read_again_where_it_was_made(
    adapter: AppleAdapter, chain: AppleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    production, sandbox = Apple(), Apple()
    sandbox.answers[HISTORY] = history(chain, one_time("1", environment="Sandbox"))
    async with two_servers(monkeypatch, production, sandbox):
        assert (await adapter.read_again(connected(adapter, chain), "1", Environment.SANDBOX)).seen
    assert production.asked == []


# Notifications that never arrived.


async def test_what_was_missed_comes_from_both_environments_and_all_pages(
    adapter: AppleAdapter, chain: AppleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    production, sandbox = Apple(), Apple()
    first, second = (chain.sign(notification(chain, "TEST")) for _ in range(2))
    stranger = chain.sign(notification(chain, "TEST", data={"bundleId": "com.example.other"}))
    third = chain.sign(notification(chain, "TEST", data={"environment": "Sandbox", "appAppleId": None}))
    pages = {
        "": {
            "notificationHistory": [{"signedPayload": first}, {"signedPayload": stranger}],
            "hasMore": True,
            "paginationToken": "p",
        },
        "p": {"notificationHistory": [{"signedPayload": second}], "hasMore": False},
    }
    production.answers[NOTIFICATIONS] = lambda request: Reply.json(pages[request.query.get("paginationToken", [""])[0]])
    sandbox.answers[NOTIFICATIONS] = Reply.json({"notificationHistory": [{"signedPayload": third}]})
    async with two_servers(monkeypatch, production, sandbox):
        found = [missed async for missed in adapter.missed(connected(adapter, chain), START - DAY, START)]
    assert [item.payload for item in found] == [first, second, third]
    assert found[0] == await adapter.verify(connected(adapter, chain), incoming(first))
    assert production.asked[0].json() == {"startDate": START - DAY, "endDate": START}


async def test_history_goes_back_no_further_than_apples(adapter: AppleAdapter, app: ConnectedApp, apple: Apple) -> None:
    apple.answers[NOTIFICATIONS] = Reply.json({"notificationHistory": []})
    assert [missed async for missed in adapter.missed(app, 0, START)] == []
    assert START - 180 * DAY < apple.asked[0].json()["startDate"] < START - 179 * DAY
    assert [missed async for missed in adapter.missed(app, START, START)] == []
    assert len(apple.asked) == 1


async def test_missed_needs_one_environment_that_knows_the_app(
    adapter: AppleAdapter, chain: AppleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    production, sandbox = Apple(), Apple()
    production.answers[NOTIFICATIONS] = Reply(401)
    sandbox.answers[NOTIFICATIONS] = Reply.json({"notificationHistory": []})
    async with two_servers(monkeypatch, production, sandbox):
        app = connected(adapter, chain)
        assert [missed async for missed in adapter.missed(app, START - DAY, START)] == []
        sandbox.answers[NOTIFICATIONS] = Reply(401)
        with pytest.raises(CredentialsRefused):
            [missed async for missed in adapter.missed(app, START - DAY, START)]


# Checking credentials.


async def test_credentials_are_checked_with_a_test_notification(
    adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, apple: Apple
) -> None:
    apple.answers[TEST] = Reply.json({"testNotificationToken": "t_1"})
    await adapter.check_credentials(app)
    apple.answers[f"{TEST}/t_1"] = Reply.json({"signedPayload": chain.sign(notification(chain, "TEST"))})
    await adapter.check_credentials(app)
    assert apple.asked[0].method == "POST"
    apple.answers[f"{TEST}/t_1"] = Reply.json({"signedPayload": make_chain().sign(notification(chain, "TEST"))})
    with pytest.raises(CredentialsRefused, match="root_certificates"):
        await adapter.check_credentials(app)
    wrong = notification(chain, "TEST", data={"appAppleId": 5})
    apple.answers[f"{TEST}/t_1"] = Reply.json({"signedPayload": chain.sign(wrong)})
    with pytest.raises(CredentialsRefused, match="Apple ID 5"):
        await adapter.check_credentials(app)


async def test_no_address_for_notifications_yet_is_fine(adapter: AppleAdapter, app: ConnectedApp, apple: Apple) -> None:
    apple.answers[TEST] = Reply.json({"errorCode": 4040007}, status=404)
    await adapter.check_credentials(app)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(401), CredentialsRefused),
        (Reply(500), StoreDown),
        (Reply(200, b"hello"), StoreDown),
        (Reply(403), StoreDown),
    ],
)
async def test_credentials_that_cannot_be_checked(
    adapter: AppleAdapter, app: ConnectedApp, apple: Apple, reply: Reply, error: type[Exception]
) -> None:
    apple.answers[TEST] = reply
    with pytest.raises(error):
        await adapter.check_credentials(app)


async def test_an_app_that_only_the_sandbox_knows_is_fine(
    adapter: AppleAdapter, chain: AppleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    production, sandbox = Apple(), Apple()
    production.answers[TEST] = Reply(401)
    sandbox.answers[TEST] = Reply.json({"testNotificationToken": "t"})
    async with two_servers(monkeypatch, production, sandbox):
        await adapter.check_credentials(connected(adapter, chain))
        sandbox.answers[TEST] = Reply(401)
        with pytest.raises(CredentialsRefused):
            await adapter.check_credentials(connected(adapter, chain))


# Consumption requests.

ANSWER = {"customer_consented": True, "sample_content_provided": True, "refund_preference": "DECLINE"}
CONSUMPTION = "/inApps/v2/transactions/consumption/900"


async def asked_for_consumption(adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain, ago: int = 0) -> str:
    payload = notification(chain, "CONSUMPTION_REQUEST", about=one_time()) | {"signedDate": START - ago}
    kept = await adapter.verify(app, incoming(chain.sign(payload)))
    reading = await adapter.read(app, kept.payload)
    assert [purchase.handle for purchase in reading.seen] == ["900"]
    return reading.note


async def test_a_consumption_request_is_answered_where_that_is_set_up(
    adapter: AppleAdapter, chain: AppleChain, apple: Apple
) -> None:
    apple.answers[CONSUMPTION] = Reply(202)
    async with serving(apple) as address:
        silent = connected(adapter, chain, api_base_url=address)
        assert "No answer is set up" in await asked_for_consumption(adapter, silent, chain)
        app = connected(adapter, chain, version=2, api_base_url=address, consumption=ANSWER)
        assert "too long ago" in await asked_for_consumption(adapter, app, chain, ago=13 * HOUR)
        assert apple.asked == []
        assert "was told" in await asked_for_consumption(adapter, app, chain)
        [request] = apple.asked
        assert (request.method, request.json()) == (
            "PUT",
            {
                "customerConsented": True,
                "sampleContentProvided": True,
                "deliveryStatus": "DELIVERED",
                "refundPreference": "DECLINE",
            },
        )
        apple.answers[CONSUMPTION] = Reply.json({"errorCode": 4000047}, status=400)
        assert "was not taken" in await asked_for_consumption(adapter, app, chain)
        apple.answers[CONSUMPTION] = Reply(500)
        with pytest.raises(StoreDown):
            await asked_for_consumption(adapter, app, chain)
