"""What the Google Play emulator pushes and answers is what Google's own library accepts and a server needs."""

import asyncio
import base64
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import requests
from google.auth import jwt
from google.auth.crypt import RSASigner
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import id_token, service_account

from latchkey.domain.instants import DAY, add, parse_duration
from latchkey.emulators.emulator_server import ServedEmulator, running
from latchkey.emulators.google.google_emulator import GoogleEmulator
from latchkey.emulators.google.google_keys import GoogleKeys, make_google_keys
from tests.emulators.receiving import Taken, receiving
from tests.emulators.shops import PACKAGE, START, play_store

SCOPE = "https://www.googleapis.com/auth/androidpublisher"
Ask = Callable[..., Awaitable[tuple[int, Any]]]


def told(taken: Taken) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(base64.b64decode(taken.body["message"]["data"]))
    return decoded


def claims_of(store: GoogleEmulator, taken: Taken) -> Any:
    """As a receiver checks them with Google's library: signature, times, audience, issuer."""
    token = taken.headers["authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, certs=store.keys.google.certificates(), audience=store.app.push_audience)
    assert claims["iss"] in id_token._GOOGLE_ISSUERS
    return claims


async def access(store: GoogleEmulator, served: ServedEmulator, **changed: Any) -> tuple[int, Any]:
    given = store.credentials(served.base_url)
    account, now = given["service_account"], int(time.time())
    claims = {"iss": account["client_email"], "scope": SCOPE, "aud": given["token_url"], "iat": now, "exp": now + 3600}
    signer = changed.pop("signer", None) or RSASigner.from_string(account["private_key"])
    assertion = jwt.encode(signer, claims | changed).decode()
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    reply = await asyncio.to_thread(requests.post, given["token_url"], data=form)
    return reply.status_code, reply.json()


async def asking(store: GoogleEmulator, served: ServedEmulator, package: str = PACKAGE) -> Ask:
    status, granted = await access(store, served)
    assert status == 200
    headers = {"Authorization": f"Bearer {granted['access_token']}"}
    base = f"{served.base_url}/androidpublisher/v3/applications/{package}"

    async def ask(method: str, path: str, **more: Any) -> tuple[int, Any]:
        reply = await asyncio.to_thread(requests.request, method, base + path, headers=headers, **more)
        return reply.status_code, reply.json() if reply.content else None

    return ask


async def test_googles_library_accepts_every_push_and_it_names_the_purchase(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, receiving() as service:
        store.outbox.url = service.url
        token = store.sell(product_id="pro_monthly:monthly", buyer="ada")
        store.act(token, "refund")
        store.sell(product_id="coins_100", buyer="ada")
        store.send_test()
        await store.deliver()
        bought, revoked, voided, coins, test = map(told, service.taken)
        assert {pushed["packageName"] for pushed in (bought, revoked, voided, coins, test)} == {PACKAGE}
        assert bought["subscriptionNotification"]["notificationType"] == 4
        assert bought["subscriptionNotification"]["purchaseToken"] == token
        assert bought["eventTimeMillis"] == str(START + 1)
        assert revoked["subscriptionNotification"]["notificationType"] == 12
        assert voided["voidedPurchaseNotification"]["productType"] == 1
        assert coins["oneTimeProductNotification"]["sku"] == "coins_100"
        assert test["testNotification"]
        assert len({request.body["message"]["messageId"] for request in service.taken}) == 5
        for request in service.taken:
            claims = claims_of(store, request)
            assert (claims["email"], claims["email_verified"]) == (store.app.push_service_account, True)


LIES = sorted(GoogleEmulator.lies)


@pytest.mark.parametrize("lie", LIES)
async def test_a_careful_receiver_can_tell_every_lie(google_keys: GoogleKeys, lie: str) -> None:
    async with play_store(google_keys) as store, receiving() as service:
        store.outbox.url = service.url
        store.misbehave(lie=1.0, lies=[lie])
        store.sell(product_id="pro_monthly:monthly")
        await store.deliver()
        (taken,) = service.taken
        if lie == "package":
            assert told(taken)["packageName"] != PACKAGE
        elif lie in ("email", "unverified"):
            claims = claims_of(store, taken)
            assert (claims["email"], claims["email_verified"]) != (store.app.push_service_account, True)
        else:
            with pytest.raises((GoogleAuthError, AssertionError, KeyError, ValueError)):
                claims_of(store, taken)


async def test_certificates_are_published_with_a_time_to_keep_them(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        url = store.credentials(served.base_url)["certificates_url"]
        reply = await asyncio.to_thread(requests.get, url)
        assert reply.json().keys() == {store.keys.google.kid}
        assert "max-age=3600" in reply.headers["cache-control"]


async def test_a_subscription_is_told_in_googles_fields(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        token = store.sell(product_id="pro_monthly:monthly", buyer="ada", trial=True, account_token="user-7")
        ask = await asking(store, served)
        status, said = await ask("GET", f"/purchases/subscriptionsv2/tokens/{token}")
        assert status == 200
        assert said["subscriptionState"] == "SUBSCRIPTION_STATE_ACTIVE"
        assert said["acknowledgementState"] == "ACKNOWLEDGEMENT_STATE_PENDING"
        assert said["externalAccountIdentifiers"] == {"obfuscatedExternalAccountId": "user-7"}
        assert said["testPurchase"] == {}
        (item,) = said["lineItems"]
        assert (item["productId"], item["offerDetails"]["basePlanId"]) == ("pro_monthly", "monthly")
        assert item["offerPhase"] == {"freeTrial": {}}
        assert item["autoRenewingPlan"]["autoRenewEnabled"] is True
        assert item["autoRenewingPlan"]["recurringPrice"] == {"currencyCode": "USD", "units": "9", "nanos": 990000000}
        store.act(token, "cancel")
        _, said = await ask("GET", f"/purchases/subscriptionsv2/tokens/{token}")
        assert said["subscriptionState"] == "SUBSCRIPTION_STATE_CANCELED"
        assert "cancelTime" in said["canceledStateContext"]["userInitiatedCancellation"]
        assert "autoRenewEnabled" not in said["lineItems"][0]["autoRenewingPlan"]


async def test_orders_tell_each_paid_period(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        token = store.sell(product_id="pro_monthly:monthly", buyer="ada", trial=True)
        store.acknowledge(token)
        await store.move(add(store.clock.now(), parse_duration("P40D")))
        ask = await asking(store, served)
        first = store.known(token).id
        status, trial = await ask("GET", f"/orders/{first}")
        assert (status, trial["total"], trial["state"]) == (200, {"currencyCode": "USD"}, "PROCESSED")
        assert trial["lineItems"][0]["subscriptionDetails"]["offerPhaseDetails"] == {"freeTrialDetails": {}}
        ids = [first, f"{first}..0", f"{first}..1"]
        status, both = await ask("GET", "/orders:batchGet", params=[("orderIds", id) for id in ids])
        assert (status, [order["orderId"] for order in both["orders"]]) == (200, ids)
        details = [order["lineItems"][0]["subscriptionDetails"] for order in both["orders"]]
        assert details[1]["servicePeriodStartTime"] == details[0]["servicePeriodEndTime"]


async def test_a_one_time_purchase_is_acknowledged_consumed_and_voided(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        token = store.sell(product_id="coins_100", buyer="ada", account_token="user-7")
        ask = await asking(store, served)
        read = f"/purchases/productsv2/tokens/{token}"
        _, said = await ask("GET", read)
        assert said["purchaseStateContext"] == {"purchaseState": "PURCHASED"}
        assert (said["obfuscatedExternalAccountId"], said["orderId"]) == ("user-7", store.known(token).id)
        for verb, field in (("acknowledge", "ACKNOWLEDGED"), ("consume", "CONSUMED")):
            assert (await ask("POST", f"/purchases/products/coins_100/tokens/{token}:{verb}", json={}))[0] == 204
            assert f"STATE_{field}" in json.dumps((await ask("GET", read))[1])
        store.act(token, "refund")
        assert (await ask("GET", read))[1]["purchaseStateContext"] == {"purchaseState": "CANCELLED"}
        _, listed = await ask("GET", "/purchases/voidedpurchases")
        assert [item["orderId"] for item in listed["voidedPurchases"]] == [store.known(token).id]


async def test_voided_subscriptions_are_listed_when_asked_for(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        tokens = [store.sell(product_id="pro_monthly:monthly", buyer=str(number)) for number in range(3)]
        for token in tokens:
            store.act(token, "refund")
        ask = await asking(store, served)
        assert (await ask("GET", "/purchases/voidedpurchases"))[1] == {}
        seen: list[str] = []
        more: dict[str, str] = {}
        while True:
            _, page = await ask("GET", "/purchases/voidedpurchases", params={"type": "1", "maxResults": "2", **more})
            seen += [purchase["purchaseToken"] for purchase in page["voidedPurchases"]]
            if "tokenPagination" not in page:
                break
            more = {"token": page["tokenPagination"]["nextPageToken"]}
        assert seen == tokens


async def test_only_an_acknowledged_purchase_survives_three_days(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        kept = store.sell(product_id="pro_monthly:monthly", buyer="ada")
        lost = store.sell(product_id="pro_monthly:monthly", buyer="bob")
        ask = await asking(store, served)
        assert (await ask("POST", f"/purchases/subscriptions/pro_monthly/tokens/{kept}:acknowledge", json={}))[0] == 204
        await store.move(START + 4 * DAY)
        assert (store.known(kept).active, store.known(lost).active) == (True, False)
        assert store.known(lost).refunded_at is not None
        again = await ask("POST", f"/purchases/subscriptions/pro_monthly/tokens/{lost}:acknowledge", json={})
        assert again[0] == 400


async def test_a_pause_that_is_planned_is_told_by_the_older_resource_only(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        token = store.sell(product_id="pro_monthly:monthly", buyer="ada")
        store.acknowledge(token)
        store.act(token, "pause", **{"for": "P1M"})
        ask = await asking(store, served)
        resumes = store.known(token).resumes_at
        _, old = await ask("GET", f"/purchases/subscriptions/pro_monthly/tokens/{token}")
        assert old["autoResumeTimeMillis"] == str(resumes)
        _, new = await ask("GET", f"/purchases/subscriptionsv2/tokens/{token}")
        assert "pausedStateContext" not in new
        await store.move(add(store.clock.now(), parse_duration("P1M")))
        _, new = await ask("GET", f"/purchases/subscriptionsv2/tokens/{token}")
        assert new["subscriptionState"] == "SUBSCRIPTION_STATE_PAUSED"
        assert "autoResumeTime" in new["pausedStateContext"]


async def test_a_deferral_counts_only_for_the_subscription_as_it_was_read(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        token = store.sell(product_id="pro_monthly:monthly", buyer="ada")
        ask = await asking(store, served)
        path, ends_at = f"/purchases/subscriptionsv2/tokens/{token}", store.known(token).ends_at or 0
        etag = (await ask("GET", path))[1]["etag"]
        for status in (200, 400):
            context = {"etag": etag, "deferDuration": f"{2 * 86_400}s"}
            assert (await ask("POST", f"{path}:defer", json={"deferralContext": context}))[0] == status
            assert store.known(token).ends_at == ends_at + 2 * DAY
        for by, status in (("USER_REQUESTED_STOP_RENEWALS", 200), ("NOBODY", 400)):
            asked = {"cancellationContext": {"cancellationType": by}}
            assert (await ask("POST", f"{path}:cancel", json=asked))[0] == status
        assert "userInitiatedCancellation" in (await ask("GET", path))[1]["canceledStateContext"]


async def test_unknown_wrong_and_old_tokens_get_googles_errors(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        token = store.sell(product_id="pro_monthly:monthly", buyer="ada")
        coins = store.sell(product_id="coins_100", buyer="ada")
        ask = await asking(store, served)

        async def reason(method: str, path: str) -> tuple[int, str]:
            status, said = await ask(method, path)
            return status, said["error"]["errors"][0]["reason"]

        assert await reason("GET", "/purchases/subscriptionsv2/tokens/none") == (404, "purchaseTokenNotFound")
        for unknown in (coins, "a%2Fb", "..%2F..%2Fx", f"{token}%2F"):
            assert await reason("GET", f"/purchases/subscriptionsv2/tokens/{unknown}") == (404, "purchaseTokenNotFound")
        for unknown in ("GPA.0", "GPA%2F0"):
            assert await reason("GET", f"/orders/{unknown}") == (404, "orderNotFound")
        wrong = f"/purchases/subscriptions/other/tokens/{token}:acknowledge"
        assert await reason("POST", wrong) == (400, "purchaseTokenDoesNotMatchProductId")
        store.act(token, "cancel")
        await store.move(START + 100 * DAY)
        old = (410, "subscriptionPurchaseNoLongerAvailable")
        assert await reason("GET", f"/purchases/subscriptionsv2/tokens/{token}") == old
        other = await asking(store, served, package="com.example.other")
        assert (await other("GET", f"/purchases/productsv2/tokens/{coins}"))[0] == 404


async def test_only_the_service_account_gets_an_access_token(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        now = int(time.time())
        stranger = RSASigner.from_string(make_google_keys().account.private_pem)
        for changed in (
            {"signer": stranger},
            {"iss": "other@example.iam.gserviceaccount.com"},
            {"scope": "https://www.googleapis.com/auth/drive"},
            {"aud": "https://oauth2.example.com/token"},
            {"iat": now - 7200, "exp": now - 3600},
        ):
            status, said = await access(store, served, **changed)
            assert (status, set(said)) == (400, {"error", "error_description"}), changed
        url = f"{served.base_url}/androidpublisher/v3/applications/{PACKAGE}/purchases/voidedpurchases"
        for header in ({}, {"Authorization": "Bearer ya29.guess"}):
            assert (await asyncio.to_thread(requests.get, url, headers=header)).status_code == 401


async def test_googles_library_gets_an_access_token_with_the_key_as_it_is(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        key = store.credentials(served.base_url)["service_account"]
        account = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]  # the library has none
            key, scopes=[SCOPE]
        )
        url = f"{served.base_url}/androidpublisher/v3/applications/{PACKAGE}/purchases/voidedpurchases"
        with AuthorizedSession(account) as session:
            assert (await asyncio.to_thread(session.get, url)).status_code == 200


async def test_pubsub_tries_again_with_growing_waits_for_a_week(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, receiving() as service:
        store.outbox.url = service.url
        service.status = 500
        store.sell(product_id="coins_100")
        await store.move(START + 30_000_000)
        (message,) = store.outbox.messages
        at = [attempt.at for attempt in message.attempts]
        waits = [(after - before) // 1000 for before, after in itertools.pairwise(at)]
        assert waits[:8] == [10, 20, 40, 80, 160, 320, 600, 600]
        tokens = {request.headers["authorization"] for request in service.taken}
        ids = {request.body["message"]["messageId"] for request in service.taken}
        assert (len(ids), len(tokens) >= 1) == (1, True)
        service.status = 204
        await store.move(START + 40_000_000)
        assert not store.outbox.waiting()


async def test_the_api_can_be_down_for_tokens_and_certificates_too(google_keys: GoogleKeys) -> None:
    async with play_store(google_keys) as store, running(store) as served:
        store.misbehave(api={"kind": "error", "status": 503})
        given = store.credentials(served.base_url)
        for url in (given["certificates_url"], f"{served.base_url}/androidpublisher/v3/applications/x/orders/1"):
            assert (await asyncio.to_thread(requests.get, url)).status_code == 503
        assert (await asyncio.to_thread(requests.post, given["token_url"])).status_code == 503
