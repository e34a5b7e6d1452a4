"""What the App Store emulator sends and answers is what Apple's own library accepts."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
import msgspec
import pytest
import requests
from appstoreserverlibrary.api_client import (
    APIError,
    APIException,
    AppStoreServerAPIClient,
    GetTransactionHistoryVersion,
)
from appstoreserverlibrary.models.ConsumptionRequest import ConsumptionRequest
from appstoreserverlibrary.models.DeliveryStatus import DeliveryStatus
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.models.NotificationHistoryRequest import NotificationHistoryRequest
from appstoreserverlibrary.models.NotificationTypeV2 import NotificationTypeV2
from appstoreserverlibrary.models.SendAttemptResult import SendAttemptResult
from appstoreserverlibrary.models.Status import Status
from appstoreserverlibrary.models.Subtype import Subtype
from appstoreserverlibrary.models.TransactionHistoryRequest import TransactionHistoryRequest
from appstoreserverlibrary.signed_data_verifier import VerificationException

from latchkey.domain.instants import DAY, add, parse_duration
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys, make_apple_keys
from latchkey.emulators.emulator_server import running
from tests.emulators.receiving import receiving
from tests.emulators.shops import APPLE_ID, BUNDLE, START, app_store, verifier

ACCOUNT = str(uuid.UUID(int=7))


def client(keys: AppleKeys, base_url: str, bundle: str = BUNDLE) -> AppStoreServerAPIClient:
    made = AppStoreServerAPIClient(keys.private_key.encode(), keys.key_id, keys.issuer_id, bundle, Environment.SANDBOX)
    made._base_url = base_url
    return made


Ask = Callable[..., Awaitable[Any]]


def asking(made: AppStoreServerAPIClient) -> Ask:
    async def ask(method: str, *given: Any) -> Any:
        return await asyncio.to_thread(getattr(made, method), *given)

    return ask


async def test_apples_library_accepts_every_notification_and_finds_the_purchase_in_it(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, receiving() as service:
        store.outbox.url = service.url
        id = store.sell(product_id="pro_monthly", buyer="ada", trial=True, account_token=ACCOUNT)
        store.act(id, "fail_billing", grace_days=16)
        await store.move(START + 8 * DAY)
        check = verifier(apple_keys)
        told = [check.verify_and_decode_notification(request.body["signedPayload"]) for request in service.taken]
        assert [(event.notificationType, event.subtype) for event in told] == [
            (NotificationTypeV2.SUBSCRIBED, Subtype.INITIAL_BUY),
            (NotificationTypeV2.DID_FAIL_TO_RENEW, Subtype.GRACE_PERIOD),
        ]
        data = told[1].data
        assert data is not None
        assert (data.bundleId, data.appAppleId, data.status) == (BUNDLE, APPLE_ID, Status.BILLING_GRACE_PERIOD)
        assert data.signedTransactionInfo is not None
        assert data.signedRenewalInfo is not None
        bought = check.verify_and_decode_signed_transaction(data.signedTransactionInfo)
        assert (bought.originalTransactionId, bought.productId, bought.price) == (id, "pro_monthly", 0)
        assert bought.appAccountToken == ACCOUNT
        assert bought.rawOfferDiscountType == "FREE_TRIAL"
        renewal = check.verify_and_decode_renewal_info(data.signedRenewalInfo)
        assert (renewal.rawAutoRenewStatus, renewal.isInBillingRetryPeriod) == (1, True)
        assert renewal.gracePeriodExpiresDate == (bought.expiresDate or 0) + 16 * DAY
        assert len({event.notificationUUID for event in told}) == 2
        assert told[0].signedDate is not None
        assert told[1].signedDate is not None
        assert told[0].signedDate < told[1].signedDate


async def test_production_is_signed_as_production(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys, environment="Production") as store, receiving() as service:
        store.outbox.url = service.url
        store.sell(product_id="coins_100")
        await store.deliver()
        payload = service.taken[0].body["signedPayload"]
        told = verifier(apple_keys, Environment.PRODUCTION).verify_and_decode_notification(payload)
        assert told.notificationType is NotificationTypeV2.ONE_TIME_CHARGE
        with pytest.raises(VerificationException):
            verifier(apple_keys).verify_and_decode_notification(payload)


@pytest.mark.parametrize("lie", sorted(AppleEmulator.lies - {"app_id"}))
async def test_apples_library_refuses_every_lie(apple_keys: AppleKeys, lie: str) -> None:
    async with app_store(apple_keys) as store, receiving() as service:
        store.outbox.url = service.url
        store.misbehave(lie=1.0, lies=[lie])
        store.sell(product_id="pro_monthly")
        await store.deliver()
        with pytest.raises(VerificationException):
            verifier(apple_keys).verify_and_decode_notification(service.taken[0].body["signedPayload"])


async def test_a_receipt_of_a_purchase_is_a_signed_transaction(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store:
        id = store.sell(product_id="pro_lifetime", buyer="ada")
        receipt = store.receipt(id)
        bought = verifier(apple_keys).verify_and_decode_signed_transaction(receipt["fetch_token"])
        assert (bought.transactionId, bought.rawType) == (id, "Non-Consumable")
        app = verifier(apple_keys).verify_and_decode_app_transaction(receipt["app_transaction"])
        assert app.bundleId == BUNDLE


async def test_the_history_has_every_transaction_of_the_customer_in_pages(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        id = store.sell(product_id="pro_monthly", buyer="ada")
        store.sell(product_id="pro_monthly", buyer="bob")
        await store.move(add(store.clock.now(), parse_duration("P25M")))
        ask = asking(client(apple_keys, served.base_url))
        seen, revision, more = [], None, True
        while more:
            page = await ask("get_transaction_history", id, revision, TransactionHistoryRequest(), V2)
            revision, more = page.revision, page.hasMore
            seen += [
                verifier(apple_keys).verify_and_decode_signed_transaction(signed) for signed in page.signedTransactions
            ]
        assert len(seen) == 26
        assert {purchase.originalTransactionId for purchase in seen} == {id}
        assert [purchase.purchaseDate for purchase in seen] == sorted(purchase.purchaseDate or 0 for purchase in seen)


V2 = GetTransactionHistoryVersion.V2


async def test_status_and_single_transactions_are_answered(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        id = store.sell(product_id="pro_monthly", buyer="ada")
        store.sell(product_id="coins_100", buyer="ada")
        await store.move(add(START, parse_duration("P2M")))
        store.act(id, "cancel")
        ask = asking(client(apple_keys, served.base_url))
        status = await ask("get_all_subscription_statuses", id)
        (group,) = status.data
        (last,) = group.lastTransactions
        assert (last.originalTransactionId, last.status) == (id, Status.ACTIVE)
        assert verifier(apple_keys).verify_and_decode_renewal_info(last.signedRenewalInfo).rawAutoRenewStatus == 0
        one = await ask("get_transaction_info", id)
        assert verifier(apple_keys).verify_and_decode_signed_transaction(one.signedTransactionInfo).transactionId == id


async def test_missed_notifications_are_found_in_the_history(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, receiving() as service, running(store) as served:
        store.outbox.url = service.url
        store.misbehave(drop=1.0)
        id = store.sell(product_id="pro_monthly", buyer="ada")
        await store.deliver()
        store.behave()
        store.act(id, "cancel")
        await store.deliver()
        assert len(service.taken) == 1
        ask = asking(client(apple_keys, served.base_url))
        asked = NotificationHistoryRequest(startDate=START - DAY, endDate=START + DAY)
        both = await ask("get_notification_history", None, asked)
        check = verifier(apple_keys)
        told = [check.verify_and_decode_notification(item.signedPayload) for item in both.notificationHistory]
        assert [event.rawNotificationType for event in told] == ["SUBSCRIBED", "DID_CHANGE_RENEWAL_STATUS"]
        asked.onlyFailures = True
        (lost,) = (await ask("get_notification_history", None, asked)).notificationHistory
        assert lost.sendAttempts[0].sendAttemptResult is SendAttemptResult.NO_RESPONSE


async def test_a_test_notification_can_be_asked_for_and_followed(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, receiving() as service, running(store) as served:
        ask = asking(client(apple_keys, served.base_url))
        with pytest.raises(APIException) as nowhere:
            await ask("request_test_notification")
        assert nowhere.value.api_error is APIError.SERVER_NOTIFICATION_URL_NOT_FOUND
        store.outbox.url = service.url
        service.status = 500
        token = (await ask("request_test_notification")).testNotificationToken
        told = await ask("get_test_notification_status", token)
        assert told.sendAttempts[0].sendAttemptResult is SendAttemptResult.UNSUCCESSFUL_HTTP_RESPONSE_CODE
        decoded = verifier(apple_keys).verify_and_decode_notification(told.signedPayload)
        assert decoded.notificationType is NotificationTypeV2.TEST


async def test_what_the_app_tells_about_consumption_is_kept(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        id = store.sell(product_id="coins_100", buyer="ada")
        ask = asking(client(apple_keys, served.base_url))
        told = ConsumptionRequest(True, False, DeliveryStatus.DELIVERED)
        await ask("send_consumption_information", id, told)
        assert store.consumption[id]["deliveryStatus"] == "DELIVERED"


async def test_only_the_holder_of_the_key_may_ask(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        id = store.sell(product_id="pro_monthly", buyer="ada")
        others = make_apple_keys()
        strangers = [client(others, served.base_url), client(apple_keys, served.base_url, bundle="com.example.other")]
        for stranger in strangers:
            with pytest.raises(APIException) as refused:
                await asking(stranger)("get_transaction_info", id)
            assert refused.value.http_status_code == 401
        unsigned = jwt.encode({"iss": apple_keys.issuer_id, "bid": BUNDLE}, "", algorithm="none")
        for header in ({}, {"Authorization": f"Bearer {unsigned}"}, {"Authorization": "Bearer x"}):
            url = f"{served.base_url}/inApps/v1/transactions/{id}"
            assert (await asyncio.to_thread(requests.get, url, headers=header)).status_code == 401


@pytest.mark.parametrize(
    ("id", "error"), [("999", APIError.TRANSACTION_ID_NOT_FOUND), ("abc", APIError.INVALID_TRANSACTION_ID)]
)
async def test_unknown_and_impossible_ids_get_apples_errors(apple_keys: AppleKeys, id: str, error: APIError) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        with pytest.raises(APIException) as refused:
            await asking(client(apple_keys, served.base_url))("get_transaction_info", id)
        assert refused.value.api_error is error


FAULTS: list[tuple[dict[str, Any], int]] = [
    ({"kind": "busy", "retry_after": 7}, 429),
    ({"kind": "error", "status": 500}, 500),
    ({"kind": "lost"}, 502),
]


@pytest.mark.parametrize(("fault", "status"), FAULTS)
async def test_the_api_fails_as_it_is_told_and_then_works_again(
    apple_keys: AppleKeys, fault: dict[str, Any], status: int
) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        id = store.sell(product_id="pro_monthly", buyer="ada")
        store.misbehave(api={**fault, "times": 1})
        ask = asking(client(apple_keys, served.base_url))
        with pytest.raises(APIException) as failed:
            await ask("get_transaction_info", id)
        assert failed.value.http_status_code == status
        assert (await ask("get_transaction_info", id)).signedTransactionInfo


async def test_the_api_breaks_off_or_answers_half(apple_keys: AppleKeys) -> None:
    async with app_store(apple_keys) as store, running(store) as served:
        id = store.sell(product_id="pro_monthly", buyer="ada")
        store.misbehave(api={"kind": "down"})
        ask = asking(client(apple_keys, served.base_url))
        with pytest.raises(requests.exceptions.RequestException):
            await ask("get_transaction_info", id)
        store.misbehave(api={"kind": "truncated"})
        url = f"{served.base_url}/inApps/v1/transactions/{id}"
        headers = client(apple_keys, served.base_url)._get_headers()
        half = await asyncio.to_thread(requests.get, url, headers=headers)
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(half.content)
