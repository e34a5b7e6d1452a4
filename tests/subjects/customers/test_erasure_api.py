"""DELETE of a subscriber, on V1 and V2: no table names the person any more, but the events of sales stay."""

import asyncio
from urllib.parse import quote

import pytest
from prometheus_client import REGISTRY

from latchkey.domain.instants import HOUR
from latchkey.subjects.webhooks.receiver import ReceivedWebhook
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import ANONYMOUS, act, did, show_receipt, subscriber, told, types_told
from tests.http.management import delete, get, post, walk
from tests.http.receiving import Post
from tests.patience import until

ADA = "ada.lovelace@example.com"
EMAIL = "countess@analytical.engine"


async def erase(shop: Shop, who: str) -> Reply:
    return await shop.client.request("DELETE", f"/v1/subscribers/{quote(who)}")


async def everything(shop: Shop) -> str:
    """Every row of every table, as text."""
    async with shop.database.acquire() as connection, connection.transaction():
        # Bytes as the letters that they are.
        await connection.execute("set local bytea_output = escape")
        names = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
        rows = [await connection.fetch(f'select t::text from "{name}" t') for (name,) in names]
    return "\n".join(row[0] for found in rows for row in found)


async def live(shop: Shop) -> None:
    """Create data about the customer in every table that can hold some."""
    await show_receipt(shop, ANONYMOUS, "test_1_a")
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": ADA})
    await shop.client.post(
        f"/v1/subscribers/{quote(ADA)}/attributes",
        {"attributes": {"$email": {"value": EMAIL, "updated_at_ms": NOW}}},
        headers={"x-platform": "ios", "x-platform-version": "analytical 1"},
    )
    await did(shop, "purchase", ADA, "coins_100")
    await did(shop, "cancel", ADA, "pro_monthly")
    await post(shop, f"customers/{quote(ADA)}/actions/grant_entitlement", {"entitlement_id": "team"})
    await shop.client.post(
        f"/v2/projects/{shop.project_id}/customers/{quote(ADA)}/virtual_currencies/transactions",
        {"adjustments": {"COIN": -5}},
        headers={"idempotency-key": f"key of {ADA}"},
    )
    made = await post(shop, "experiments", {"name": "Prices", "variants": [{"id": x, "weight": 1} for x in "ab"]})
    await post(shop, f"experiments/{made.json()['id']}/enroll", {"app_user_id": ADA})


async def echo(arrival: ReceivedWebhook) -> bytes:
    """A redirect that names the customer, with all that was sent."""
    who = arrival.event.app_user_id
    headers = f"location: /{who}\r\nx-customer: {who}\r\ncontent-length: {len(arrival.body)}"
    return f"HTTP/1.1 302 Found\r\n{headers}\r\n\r\n".encode() + arrival.body


@pytest.fixture
async def echoing(sending: Post) -> Post:
    """A shop with a webhook whose receiver repeats what it was sent, and takes nothing."""
    assert sending.receiver is not None
    sending.receiver.answering = echo
    await sending.hook(retry_schedule_seconds=[])
    return sending


async def all_sent(shop: Shop) -> None:
    nothing_waits = "select not exists (select from lanes)"
    await until(lambda: shop.database.pool.fetchval(nothing_waits))


def lost() -> float:
    """Outcomes of deliveries that were not recorded."""
    return REGISTRY.get_sample_value("latchkey_delivery_leases_lost_total") or 0


async def test_an_erased_person_is_in_no_row_of_any_table(echoing: Post) -> None:
    await live(echoing)
    await all_sent(echoing)
    before = await everything(echoing)
    assert ADA in before
    assert EMAIL in before
    reply = await erase(echoing, ADA)
    assert (reply.status, reply.json()) == (200, {"app_user_id": ADA, "deleted": True})
    # A client that has not seen the reply asks again.
    assert (await erase(echoing, ADA)).status == 404
    after = await everything(echoing)
    for trace in (ADA, EMAIL, ANONYMOUS, "lovelace", "analytical"):
        assert trace not in after


@pytest.mark.parametrize("product_id", ["pro_monthly", "pro_lifetime"])
async def test_a_refunded_purchase_does_not_come_back_after_the_erasure(shop: Shop, product_id: str) -> None:
    await show_receipt(shop, ADA, "test_1_a", product_id)
    await did(shop, "refund", ADA, product_id)
    await erase(shop, ADA)
    reply = await show_receipt(shop, "bob", "test_1_a", product_id)
    assert (reply.status, reply.json()["code"]) == (400, 7103), reply


async def test_a_person_whose_purchases_went_to_another_is_forgotten_there_too(echoing: Post) -> None:
    await show_receipt(echoing, ADA, "test_1_a")
    await show_receipt(echoing, "bob", "test_1_a")
    await show_receipt(echoing, ADA, "test_1_b", "team_monthly")
    await echoing.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": ADA})
    await post(echoing, f"customers/{quote(ADA)}/actions/transfer", {"target_customer_id": "bob"})
    await all_sent(echoing)
    assert (await erase(echoing, ADA)).status == 200
    after = await everything(echoing)
    assert ADA not in after
    assert ANONYMOUS not in after
    first, second = await told(echoing, "bob")
    assert first["transferred_from"] == second["transferred_from"] == ["$deleted"]
    assert set(second["entitlements"]) == {"pro", "team"}
    assert set((await subscriber(echoing, "bob"))["entitlements"]) == {"pro", "team"}
    # Later events of the receiver do not name the person either.
    await did(echoing, "cancel", "bob", "team_monthly")
    assert ADA not in await everything(echoing)


async def test_what_is_under_way_at_the_erasure_is_sent_again_without_the_person(echoing: Post) -> None:
    arrived, answer, bodies = asyncio.Event(), asyncio.Event(), []

    async def late(arrival: ReceivedWebhook) -> bytes:
        bodies.append(arrival.body.decode())
        arrived.set()
        await answer.wait()
        return await echo(arrival)

    assert echoing.receiver is not None
    echoing.receiver.answering = late
    before = lost()
    await did(echoing, "purchase", ADA, "pro_monthly")
    await arrived.wait()
    assert (await erase(echoing, ADA)).status == 200
    answer.set()
    await until(lambda: lost() > before)
    await echoing.later(HOUR)
    await all_sent(echoing)
    assert ADA not in await everything(echoing)
    first, second = bodies
    assert ADA in first
    assert ADA not in second


async def test_a_person_who_received_purchases_is_forgotten_but_whoever_lost_them_is_still_named(shop: Shop) -> None:
    """The TRANSFER may not be delivered yet. Without its source a consumer would not re-read bob, who lost access."""
    await show_receipt(shop, "bob", "test_1_a")
    await show_receipt(shop, ADA, "test_1_a")
    await erase(shop, ADA)
    assert ADA not in await everything(shop)
    assert await types_told(shop, "bob") == ["INITIAL_PURCHASE"]
    [transfer] = [event for event in await walk(shop, "events") if event["type"] == "TRANSFER"]
    assert transfer["transferred_from"] == ["bob"]
    assert transfer["app_user_id"].startswith("$deleted:")
    await erase(shop, "bob")
    [transfer] = [event for event in await walk(shop, "events") if event["type"] == "TRANSFER"]
    assert transfer["transferred_from"] == ["$deleted"]


async def test_the_books_keep_what_was_sold(shop: Shop) -> None:
    await live(shop)
    before = await walk(shop, "events")
    await erase(shop, ANONYMOUS)
    after = await walk(shop, "events")
    kept = ("id", "type", "product_id", "price", "currency", "event_timestamp_ms", "sequence", "environment")
    assert [[event.get(name) for name in kept] for event in after] == [
        [event.get(name) for name in kept] for event in before
    ]
    pseudonyms = {event["app_user_id"] for event in after}
    assert len(pseudonyms) == 1
    assert pseudonyms.pop().startswith("$deleted:")


async def test_afterwards_every_id_is_unknown_and_a_second_time_is_404(shop: Shop) -> None:
    await live(shop)
    assert (await erase(shop, ADA)).status == 200
    for who in (ADA, ANONYMOUS):
        assert (await shop.v2(quote(who))).status == 404
        assert (await get(shop, f"customers/{quote(who)}/events")).status == 404
        reply = await erase(shop, who)
        assert (reply.status, reply.json()["code"]) == (404, 7259)
        assert (await delete(shop, f"customers/{quote(who)}")).status == 404
    assert (await act(shop, "cancel", ADA, "pro_monthly")).status == 404
    again = await shop.v1(quote(ADA))
    assert (again.status, again.json()["subscriber"]["entitlements"]) == (201, {})


async def test_v2_deletes_by_any_alias(shop: Shop) -> None:
    await live(shop)
    reply = await delete(shop, f"customers/{quote(ANONYMOUS)}")
    assert reply.status == 200
    assert reply.json() == {"object": "customer", "id": ANONYMOUS, "deleted_at": NOW}
    assert ADA not in await everything(shop)


async def test_the_same_id_begins_anew_and_a_restored_purchase_is_a_transfer_from_nobody(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    await erase(shop, "ada")
    reply = await show_receipt(shop, "ada")
    assert set(reply.json()["subscriber"]["entitlements"]) == {"pro"}
    [event] = await told(shop)
    assert (event["type"], event["transferred_from"], event["sequence"]) == ("TRANSFER", ["$deleted"], 1)
