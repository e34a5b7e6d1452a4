"""From the store's notification to the customer: journal, processing, receipts, what is refused."""

import asyncio

import pytest
from msgspec import json
from msgspec.structs import replace
from structlog.testing import capture_logs

from latchkey.database.errors import InvalidValueError
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms, to_iso
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from latchkey.subjects.purchase_intake.usecases.app_receipts import ShownReceipt
from latchkey.subjects.purchase_intake.usecases.journal import filing
from tests.stores.world import PRODUCTS, PROJECT, World, storekit_1

pytestmark = pytest.mark.thorough

BUYER = "6f1c2d1e-0000-4000-8000-00000000ada1"


async def test_a_notification_becomes_an_event_and_access(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    await apple.store.deliver()
    [entry] = await apple.journal()
    assert (entry.status, entry.source, entry.subject) == ("waiting", "notification", bought)
    await apple.process()
    [entry] = await apple.journal()
    assert (entry.status, entry.message, entry.app_user_id) == ("applied", "", BUYER)
    [event] = await apple.events(BUYER)
    assert (event["type"], event["environment"], event["store"]) == ("INITIAL_PURCHASE", "PRODUCTION", "app_store")
    assert entry.event_ids == (event["id"],)
    reply = await apple.client.get(f"/v1/subscribers/{BUYER}")
    assert reply.json()["subscriber"]["entitlements"]["pro"]["product_identifier"] == "pro_monthly"


async def test_a_life_is_told_in_full(apple: World) -> None:
    bought = await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER, trial=True)
    await apple.move(apple.now + 8 * DAY)
    await apple.act(bought, "cancel")
    await apple.move(apple.now + 40 * DAY)
    assert await apple.types(BUYER) == ["TRIAL_STARTED", "INITIAL_PURCHASE", "CANCELLATION", "EXPIRATION"]
    conversion = (await apple.events(BUYER))[1]
    assert conversion["is_trial_conversion"] is True


async def test_the_same_notification_again_changes_nothing(apple: World) -> None:
    apple.store.misbehave(duplicate=1.0)
    await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    assert len(await apple.journal()) == 1
    assert await apple.types(BUYER) == ["INITIAL_PURCHASE"]


@pytest.mark.parametrize(("lie", "status"), [("signature", 401), ("chain", 401), ("bundle", 403), ("app_id", 403)])
async def test_a_lie_is_refused_and_nothing_is_stored(apple: World, lie: str, status: int) -> None:
    apple.store.misbehave(lie=1.0, lies=(lie,))
    apple.store.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    with capture_logs() as logs:
        await apple.settle()
    assert await apple.journal() == []
    assert (await apple.client.get(f"/v2/projects/{PROJECT}/customers/{BUYER}")).status == 404
    refused = [line for line in logs if line["event"] == "notification refused"]
    assert refused
    assert {line["app_id"] for line in refused} == {apple.app_id}
    assert apple.store.outbox.url is not None
    assert apple.store.outbox.url.rpartition("/")[2] not in str(logs), "the URL is a secret"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"\xff\xfe", b'{"signedPayload": 7}', b'{"signedPayload": "a.b.c"}']
)
async def test_bytes_that_are_no_notification_are_400_or_401(apple: World, body: bytes) -> None:
    url = apple.store.outbox.url
    assert url is not None
    path = "/incoming/" + url.rpartition("/")[2]
    reply = await apple.client.request("POST", path, body=body)
    assert reply.status in (400, 401), reply
    assert await apple.journal() == []


async def test_an_unknown_url_is_404(apple: World) -> None:
    assert (await apple.client.request("POST", "/incoming/" + "x" * 32, body=b"{}")).status == 404


async def test_a_receipt_is_taken_at_once_and_its_notification_changes_nothing(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    reply = await apple.show_receipt(bought, "ada")
    assert reply.status == 200, reply
    assert "pro" in reply.json()["subscriber"]["entitlements"]
    # Of the app transaction beside the receipt.
    assert reply.json()["subscriber"]["original_application_version"] == "1"
    await apple.settle()
    assert await apple.types("ada") == ["INITIAL_PURCHASE"]
    assert {entry.status for entry in await apple.journal()} == {"applied"}


async def test_a_purchase_appears_together_with_what_its_store_can_be_asked_with(apple: World) -> None:
    """Whatever crashes, there is all or nothing: one transaction has written it, with the version of the app."""
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    assert (await apple.show_receipt(bought, "ada")).status == 200
    [row] = await apple.database.pool.fetch(
        "select h.xmin = o.xmin as together, h.store_id, h.check_at, c.revision, c.state"
        " from customers c join purchase_owners o on o.customer_id = c.id, store_handles h"
    )
    assert (row["together"], row["store_id"], row["revision"]) == (True, bought, 1)
    assert row["check_at"] > apple.now
    assert json.decode(row["state"])["original_application_version"] == "1"


async def test_a_receipt_that_was_taken_in_but_not_filed_is_filed_when_the_phone_sends_it_again(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    assert (await apple.show_receipt(bought, "ada")).status == 200
    # As if the process had died between the two.
    await apple.filed()
    await apple.database.pool.execute("delete from store_notifications")
    assert (await apple.show_receipt(bought, "ada")).status == 200
    [entry] = await apple.journal()
    assert (entry.status, entry.message) == ("applied", "Known already: nothing changed.")
    assert await apple.types("ada") == ["INITIAL_PURCHASE"]


async def test_a_receipt_whose_processing_fails_is_kept_and_processed_again(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    pool = apple.database.pool
    await apple.client.get("/v1/subscribers/ada", key=apple.public_key)
    state = await pool.fetchval("select state from customers where app_user_id = 'ada'")
    await pool.execute("update customers set state = $1", b'{"v":99}')
    assert (await apple.show_receipt(bought, "ada")).status == 500
    [entry] = await apple.journal()
    assert (entry.status, entry.app_user_id) == ("waiting", "ada")
    await pool.execute("update customers set state = $1", state)
    await apple.move(apple.now + 5_000)
    [entry] = await apple.journal(kind="RECEIPT")
    assert (entry.status, (await apple.owner(bought)).app_user_id) == ("applied", "ada")


async def test_entries_that_are_filed_together_do_not_suffer_from_one_that_cannot_be(apple: World) -> None:
    shown = [ShownReceipt(app_user_id="ada", token=str(number)) for number in range(5)]
    entries = [receipt.entry(PROJECT, apple.app_id, "app_store", apple.now) for receipt in shown]
    entries[2] = replace(entries[2], project_id="proj_just_deleted")
    batch = filing(apple.database)
    filed = await asyncio.gather(*(batch.ask(entry) for entry in entries), return_exceptions=True)
    assert [isinstance(id, InvalidValueError) for id in filed] == [False, False, True, False, False]
    assert len(await apple.journal()) == 4


async def test_a_buyer_whom_nobody_named_is_anonymous_until_they_show_the_receipt(apple: World) -> None:
    bought = await apple.sell(product_id="pro_monthly", buyer="ada")
    owner = await apple.owner(bought)
    assert owner.app_user_id.startswith("$RCAnonymousID:")
    reply = await apple.show_receipt(bought, "ada")
    assert reply.status == 200
    assert (await apple.owner(bought)).app_user_id == "ada"
    assert owner.app_user_id in (await apple.owner(bought)).aliases


async def test_a_uuid_is_one_person_in_any_spelling(apple: World) -> None:
    bought = await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    assert (await apple.show_receipt(bought, BUYER.upper())).status == 200
    assert set((await apple.owner(bought)).aliases) == {BUYER, BUYER.upper()}
    assert await apple.types(BUYER) == ["INITIAL_PURCHASE", "SUBSCRIBER_ALIAS"]
    second = apple.store.sell(product_id="pro_lifetime", buyer="eve", account_token=BUYER[:-1] + "2")
    await apple.client.post(
        "/v1/subscribers/identify",
        {"app_user_id": "$RCAnonymousID:" + "0" * 32, "new_app_user_id": (BUYER[:-1] + "2").upper()},
        key=apple.public_key,
    )
    await apple.settle()
    assert (await apple.owner(second)).app_user_id == (BUYER[:-1] + "2").upper()


async def test_erasing_a_customer_erases_what_the_store_told_of_them(apple: World) -> None:
    bought = await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    assert (await apple.client.request("DELETE", f"/v2/projects/{PROJECT}/customers/{BUYER}")).status == 200
    assert await apple.journal() == []
    assert await apple.database.pool.fetchval("select count(*) from store_handles") == 0
    # What the store tells afterwards brings nobody back.
    await apple.act(bought, "cancel")
    [entry] = await apple.journal()
    assert (entry.status, entry.app_user_id) == ("ignored", None)
    assert (await apple.client.get(f"/v2/projects/{PROJECT}/customers/{BUYER}")).status == 404


@pytest.mark.parametrize("market", ["apple", "google"], indirect=True)
async def test_a_one_time_purchase_says_whether_to_use_it_up(market: World) -> None:
    for product_id, used_up in (("coins_100", True), ("pro_lifetime", False)):
        purchase = market.store.sell(product_id=product_id, buyer="ada")
        reply = await market.show_receipt(purchase, "ada")
        assert reply.json()["purchased_products"] == {product_id: {"should_consume": used_up}}


async def test_a_one_time_purchase_lasts_as_long_as_the_catalog_says(market: World) -> None:
    own = f"/v2/projects/{PROJECT}/products/pro_lifetime"
    assert (await market.client.post(own, {"duration": "P1M"})).status == 200
    purchase = market.store.sell(product_id="pro_lifetime", buyer="ada")
    assert (await market.show_receipt(purchase, "ada")).status == 200
    await market.move(market.now + 20 * DAY, every=DAY)
    # Whoever shows it again, or changes the product, does not move the end.
    assert (await market.client.post(own, {"duration": "P1Y"})).status == 200
    assert (await market.show_receipt(purchase, "ada")).status == 200
    assert await market.access("ada") == {"pro"}
    await market.move(market.now + 20 * DAY)
    assert await market.access("ada") == set()
    assert sorted(await market.types("ada")) == ["EXPIRATION", "NON_RENEWING_PURCHASE"]


async def test_twelve_users_who_show_one_receipt_at_once_get_an_answer_and_one_of_them_has_it(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    users = [f"user-{number}" for number in range(12)]
    replies = await asyncio.gather(*(apple.show_receipt(bought, user) for user in users))
    assert {reply.status for reply in replies} == {200}
    shown = [(await apple.client.get(f"/v1/subscribers/{user}")).json()["subscriber"] for user in users]
    assert len([item for item in shown if item["entitlements"]]) == 1


async def test_a_forged_receipt_is_invalid_and_gives_nothing(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    token = apple.store.receipt(bought)["fetch_token"]
    head, payload, signature = token.split(".")
    forged = ".".join((head, payload, signature[:-8] + "AAAAAAAA"))
    body = {"app_user_id": "eve", "fetch_token": forged, "product_id": "pro_monthly"}
    reply = await apple.client.post("/v1/receipts", body, key=apple.public_key)
    assert (reply.status, reply.json()["code"]) == (400, 7103), reply
    assert (await apple.client.get(f"/v2/projects/{PROJECT}/customers/eve")).status == 404


async def test_a_renewal_that_comes_before_everything_else_reads_the_history(apple: World) -> None:
    apple.store.misbehave(drop=1.0)
    apple.store.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER, trial=True)
    await apple.store.deliver()
    apple.store.behave()
    await apple.move(apple.now + 8 * DAY)
    assert await apple.types(BUYER) == ["TRIAL_STARTED", "INITIAL_PURCHASE"]


@pytest.mark.parametrize("market", ["apple", "google"], indirect=True)
async def test_a_lost_notification_heals_by_itself(market: World) -> None:
    await market.sell(product_id=PRODUCTS[market.store.name], buyer="ada", account_token=BUYER)
    market.store.misbehave(drop=1.0)
    await market.move(market.now + 29 * DAY)
    # The renewal is lost. The store is asked two hours after the end, before the end is told after six.
    await market.move(market.now + 3 * DAY, every=3 * HOUR)
    assert await market.types(BUYER) == ["INITIAL_PURCHASE", "RENEWAL"]


async def test_notifications_of_an_outage_are_found_in_the_stores_history(apple: World) -> None:
    await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    await apple.processor.read_histories()
    apple.store.misbehave(drop=1.0)
    await apple.act((await apple.owner_id(BUYER)), "cancel")
    apple.store.behave()
    apple.store.clock.reach(apple.now + 2 * HOUR)
    assert await apple.processor.read_histories() == 1
    await apple.process()
    assert await apple.types(BUYER) == ["INITIAL_PURCHASE", "CANCELLATION"]
    assert [entry.source for entry in await apple.journal()] == ["history", "notification"]
    # The dashboard says how often that happened.
    healed = (await credentials.healings(apple.connections, PROJECT))[apple.app_id]
    assert (healed.checks, healed.healed) == (1, 1)


async def test_what_the_history_tells_from_before_the_app_was_connected_is_no_loss(apple: World) -> None:
    await credentials.delete(apple.connections, PROJECT, apple.app_id)
    apple.store.misbehave(drop=1.0)
    apple.store.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    await apple.store.deliver()
    apple.store.behave()
    apple.store.clock.reach(apple.now + 2 * HOUR)
    await apple.connect()
    assert await apple.processor.read_histories() >= 1
    await apple.process()
    assert await apple.types(BUYER) == ["INITIAL_PURCHASE"]
    assert await credentials.healings(apple.connections, PROJECT) == {}


async def test_the_journal_says_that_apples_question_about_a_refund_was_answered(apple: World) -> None:
    given = apple.store.credentials(apple.served.base_url)
    answer = {"customer_consented": True, "sample_content_provided": False, "delivery_status": "DELIVERED"}
    await credentials.save(apple.connections, PROJECT, apple.app_id, {**given, "consumption": answer})
    bought = await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    await apple.act(bought, "request_consumption")
    [asked] = await apple.journal(kind="CONSUMPTION_REQUEST")
    assert (asked.status, asked.message) == ("applied", "Apple was told how far the purchase was used.")
    assert apple.store.consumption  # type: ignore[attr-defined]  # the App Store emulator keeps it


async def test_an_app_without_credentials_asks_the_store_and_the_phone_to_come_again(apple: World) -> None:
    await credentials.delete(apple.connections, PROJECT, apple.app_id)
    apple.store.clock.reach(apple.now + 10_000)
    bought = await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    assert await apple.journal() == []
    reply = await apple.show_receipt(bought, "ada")
    assert (reply.status, reply.json()["code"]) == (503, 7101)
    [entry] = await apple.journal()
    assert (entry.source, entry.status) == ("receipt", "failed")
    assert (await apple.client.get(f"/v2/projects/{PROJECT}/customers/ada")).status == 404
    # With credentials again, what was kept is processed without the phone.
    await apple.connect()
    apple.store.clock.reach(apple.now + 10_000)
    await apple.process()
    assert (await apple.owner(bought)).app_user_id == "ada"


async def test_a_receipt_that_does_not_fit_credentials_nobody_has_proven_is_kept(apple: World) -> None:
    """The mistake may be in the credentials: a phone would drop a real purchase on a 4xx."""
    wrong = {**apple.store.credentials(apple.served.base_url), "bundle_id": "com.example.other"}
    apple.store.misbehave(api={"kind": "error", "status": 503})
    await credentials.save(apple.connections, PROJECT, apple.app_id, wrong)
    apple.store.behave()
    apple.store.clock.reach(apple.now + 10_000)
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    reply = await apple.show_receipt(bought, "ada")
    assert (reply.status, reply.json()["code"]) == (503, 7101), reply
    assert (await apple.client.get(f"/v2/projects/{PROJECT}/customers/ada")).status == 404
    await apple.connect()
    apple.store.clock.reach(apple.now + 10_000)
    await apple.process()
    assert (await apple.owner(bought)).app_user_id == "ada"


@pytest.mark.parametrize("behavior", ["keep", "transfer_if_no_active_subscriptions"])
async def test_a_purchase_that_stays_with_its_owner_is_7102_for_others(apple: World, behavior: str) -> None:
    changed = await apple.client.request(
        "PATCH", f"/v2/projects/{PROJECT}", body=json.encode({"restore_behavior": behavior})
    )
    assert changed.status == 200, changed
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    assert (await apple.show_receipt(bought, "ada")).status == 200
    reply = await apple.show_receipt(bought, "eve")
    assert (reply.status, reply.json()["code"]) == (422, 7102), reply
    assert (await apple.owner(bought)).app_user_id == "ada"
    assert {entry.status for entry in await apple.journal(status="failed")} == set()


@pytest.mark.parametrize("outage", [False, True], ids=["at once", "after an outage"])
async def test_a_purchase_that_stays_with_its_owner_does_not_hold_up_others_of_the_receipt(
    apple: World, outage: bool
) -> None:
    keep = json.encode({"restore_behavior": "keep"})
    assert (await apple.client.request("PATCH", f"/v2/projects/{PROJECT}", body=keep)).status == 200
    adas = apple.store.sell(product_id="pro_monthly", buyer="family")
    assert (await apple.show_receipt(adas, "ada")).status == 200
    eves = apple.store.sell(product_id="pro_lifetime", buyer="family")
    if outage:
        apple.store.misbehave(api={"kind": "error", "status": 503})
    token = storekit_1(apple, adas, eves)
    reply = await apple.show_receipt(eves, "eve", fetch_token=token)
    assert reply.status == 200, reply
    apple.store.behave()
    await apple.move(apple.now + HOUR, every=10 * MINUTE)
    assert ((await apple.owner(adas)).app_user_id, (await apple.owner(eves)).app_user_id) == ("ada", "eve")
    assert {entry.status for entry in await apple.journal()} == {"applied"}


async def test_processing_everything_again_changes_nothing(apple: World) -> None:
    bought = await apple.sell(product_id="pro_monthly", buyer="ada")
    for user in ("ada", "bob", "cat"):
        assert (await apple.show_receipt(bought, user)).status == 200
    before = [event["id"] for user in ("ada", "bob", "cat") for event in await apple.events(user)]
    await apple.filed()
    again = {"since_ms": apple.now - DAY}
    reply = await apple.client.post(f"/v2/projects/{PROJECT}/store_notifications/reprocess", again)
    assert reply.json()["count"] >= 4, reply
    await apple.process()
    assert (await apple.owner(bought)).app_user_id == "cat"
    assert [event["id"] for user in ("ada", "bob", "cat") for event in await apple.events(user)] == before


async def test_of_an_invalid_receipt_only_its_size_and_hash_are_kept(apple: World) -> None:
    body = {"app_user_id": "eve", "fetch_token": "eyJhbGciOiJub25lIn0." + "A" * 100_000 + ".x"}
    assert (await apple.client.post("/v1/receipts", body, key=apple.public_key)).status == 400
    [entry] = await apple.journal()
    assert (entry.status, entry.payload) == ("ignored", '{"not_kept" : "100054 bytes"}')
    assert entry.external_id.startswith("receipt ")
    await apple.client.post(f"/v2/projects/{PROJECT}/store_notifications/ntf_{entry.id}/reprocess")
    await apple.process()
    [entry] = await apple.journal()
    assert entry.status == "ignored"


async def test_a_grace_period_that_is_not_paid_ends_once_and_at_its_own_end(apple: World) -> None:
    bought = await apple.sell(product_id="pro_monthly", buyer="ada", account_token=BUYER)
    apple.store.act(bought, "fail_billing", grace_days=16)
    await apple.move(apple.now + 33 * DAY)
    [issue] = [event for event in await apple.events(BUYER) if event["type"] == "BILLING_ISSUE"]
    await apple.move(apple.now + 90 * DAY)
    events = await apple.events(BUYER)
    assert [event["type"] for event in events] == ["INITIAL_PURCHASE", "BILLING_ISSUE", "EXPIRATION"]
    assert events[-1]["event_timestamp_ms"] == events[-1]["expiration_at_ms"] == issue["grace_period_expires_at_ms"]
    shown = (await apple.client.get(f"/v1/subscribers/{BUYER}")).json()["subscriber"]
    assert shown["entitlements"]["pro"]["expires_date"] == to_iso(issue["grace_period_expires_at_ms"])
    assert shown["subscriptions"]["pro_monthly"]["expires_date"] == to_iso(issue["expiration_at_ms"])


@pytest.mark.parametrize("market", ["apple", "google"], indirect=True)
async def test_a_lost_renewal_is_told_when_the_next_one_comes(market: World) -> None:
    async def nothing(_: Ms) -> None:
        return

    await market.sell(product_id=PRODUCTS[market.store.name], buyer="ada", account_token=BUYER)
    market.store.misbehave(drop=1.0)
    await market.store.move(market.now + 32 * DAY, nothing)
    market.store.behave()
    await market.move(market.now + 31 * DAY)
    assert await market.types(BUYER) == ["INITIAL_PURCHASE", "RENEWAL", "RENEWAL"]
