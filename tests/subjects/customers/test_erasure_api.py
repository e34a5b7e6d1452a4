"""DELETE of a subscriber, on V1 and V2: no table names the person any more, but the events of sales stay."""

from urllib.parse import quote

import pytest

from tests.http.client import NOW, Reply, Shop
from tests.http.doings import ANONYMOUS, act, did, show_receipt, subscriber, told, types_told
from tests.http.management import delete, get, post, walk

ADA = "ada.lovelace@example.com"
EMAIL = "countess@analytical.engine"


async def erase(shop: Shop, who: str) -> Reply:
    return await shop.client.request("DELETE", f"/v1/subscribers/{quote(who)}")


async def everything(shop: Shop) -> str:
    """Every row of every table, as text."""
    names = await shop.database.pool.fetch("select tablename from pg_tables where schemaname = 'public'")
    rows = [await shop.database.pool.fetch(f'select t::text from "{name}" t') for (name,) in names]
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


async def test_an_erased_person_is_in_no_row_of_any_table(shop: Shop) -> None:
    await live(shop)
    before = await everything(shop)
    assert ADA in before
    assert EMAIL in before
    reply = await erase(shop, ADA)
    assert (reply.status, reply.json()) == (200, {"app_user_id": ADA, "deleted": True})
    after = await everything(shop)
    for trace in (ADA, EMAIL, ANONYMOUS, "lovelace", "analytical"):
        assert trace not in after


@pytest.mark.parametrize("product_id", ["pro_monthly", "pro_lifetime"])
async def test_a_refunded_purchase_does_not_come_back_after_the_erasure(shop: Shop, product_id: str) -> None:
    await show_receipt(shop, ADA, "test_1_a", product_id)
    await did(shop, "refund", ADA, product_id)
    await erase(shop, ADA)
    reply = await show_receipt(shop, "bob", "test_1_a", product_id)
    assert (reply.status, reply.json()["code"]) == (400, 7103), reply


async def test_a_person_whose_purchases_went_to_another_is_forgotten_there_too(shop: Shop) -> None:
    await show_receipt(shop, ADA, "test_1_a")
    await show_receipt(shop, "bob", "test_1_a")
    await show_receipt(shop, ADA, "test_1_b", "team_monthly")
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": ADA})
    await post(shop, f"customers/{quote(ADA)}/actions/transfer", {"target_customer_id": "bob"})
    assert (await erase(shop, ADA)).status == 200
    after = await everything(shop)
    assert ADA not in after
    assert ANONYMOUS not in after
    first, second = await told(shop, "bob")
    assert first["transferred_from"] == second["transferred_from"] == ["$deleted"]
    assert set(second["entitlements"]) == {"pro", "team"}
    assert set((await subscriber(shop, "bob"))["entitlements"]) == {"pro", "team"}
    # Later events of the receiver do not name the person either.
    await did(shop, "cancel", "bob", "team_monthly")
    assert ADA not in await everything(shop)


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
