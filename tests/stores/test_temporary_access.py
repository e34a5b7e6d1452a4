"""Temporary access: only while a store does not answer, within limits, and what comes after it."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from latchkey.domain.instants import DAY, HOUR, MINUTE
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from tests.http.client import Reply
from tests.stores.world import PRODUCTS, PROJECT, World, storekit_1

pytestmark = pytest.mark.thorough
DOWN: dict[str, Any] = {"kind": "error", "status": 503}


async def shown(world: World, purchase: str, app_user_id: str) -> Reply:
    """A receipt that only the store can vouch for: of Apple one of StoreKit 1."""
    more: dict[str, Any] = {}
    if world.store.name == "apple":
        more = {"fetch_token": storekit_1(world, purchase), "product_ids": ["pro_monthly"]}
    return await world.show_receipt(purchase, app_user_id, **more)


@pytest.mark.parametrize("behavior", ["keep", "transfer"])
@pytest.mark.parametrize("late", [{}, {"late": 1.0, "late_by_hours": 3}], ids=["told meanwhile", "told afterwards"])
async def test_a_purchase_that_was_shown_in_an_outage_begins_with_whoever_showed_it(
    market: World, behavior: str, late: dict[str, Any]
) -> None:
    setting = json.encode({"restore_behavior": behavior})
    assert (await market.client.request("PATCH", f"/v2/projects/{PROJECT}", body=setting)).status == 200
    market.store.misbehave(api=DOWN, **late)
    purchase = market.store.sell(product_id=PRODUCTS[market.store.name], buyer="ada")
    reply = await shown(market, purchase, "ada")
    assert reply.status == 200, reply
    subscriber = reply.json()["subscriber"]
    assert subscriber["entitlements"]["pro"]["product_identifier"] == "pro_monthly"
    assert subscriber["subscriptions"]["pro_monthly"]["store"] == "promotional", "the store has not vouched for it"
    assert (await shown(market, purchase, "ada")).status == 200, "the phone comes again, and gets no second day"
    # Meanwhile the receipt is tried less and less often, so that the notification may be first after the outage. One of
    # Apple's needs no question to Apple.
    outage = 3 * HOUR if late or market.store.name != "apple" else 0
    await market.move(market.now + outage - MINUTE, every=10 * MINUTE)
    market.store.behave()
    await market.store.deliver()
    await market.move(market.now + HOUR, every=5 * MINUTE)
    told = [type for type in await market.types("ada") if type != "INVOICE_ISSUANCE"]
    assert told == ["TEMPORARY_ENTITLEMENT_GRANT", "INITIAL_PURCHASE"]
    assert await market.access("ada") == {"pro"}


async def test_a_store_that_falters_again_does_not_let_the_notification_overtake_the_receipt(billing: World) -> None:
    odd = {"kind": "truncated"}
    billing.store.misbehave(api=odd)
    purchase = billing.store.sell(product_id=PRODUCTS["stripe"], buyer="ada")
    assert (await shown(billing, purchase, "ada")).status == 503
    for _ in range(5):
        billing.store.clock.reach(billing.now + 10_000)
        await billing.process()
    billing.store.behave()
    await billing.store.deliver()
    # The notification lets the receipt go first, and just then the store falters.
    await billing.processor.process_due()
    billing.store.misbehave(api=odd)
    await billing.process()
    billing.store.behave()
    await billing.move(billing.now + HOUR, every=MINUTE)
    told = [type for type in await billing.types("ada") if type != "INVOICE_ISSUANCE"]
    assert told == ["INITIAL_PURCHASE"]


@pytest.mark.parametrize(
    ("fault", "gives"),
    [
        ({"kind": "down"}, True),
        ({"kind": "busy"}, True),
        ({"kind": "error", "status": 500}, True),
        ({"kind": "truncated"}, False),
    ],
    ids=lambda fault: fault["kind"] if isinstance(fault, dict) else "",
)
async def test_only_a_store_that_does_not_answer_brings_temporary_access(
    market: World, fault: dict[str, Any], gives: bool
) -> None:
    purchase = market.store.sell(product_id=PRODUCTS[market.store.name], buyer="ada")
    market.store.misbehave(drop=1.0, api=fault)
    reply = await shown(market, purchase, "ada")
    assert reply.status == (200 if gives else 503), reply
    assert await market.types("ada") == ["TEMPORARY_ENTITLEMENT_GRANT"] * gives
    [entry] = await market.journal()
    assert (entry.source, entry.status) == ("receipt", "waiting"), "nothing is lost"


async def test_a_receipt_of_which_apple_does_not_know_the_purchase_says_nothing_of_the_credentials(
    apple: World,
) -> None:
    purchase = apple.store.sell(product_id="pro_monthly", buyer="ada")
    store: Any = apple.store
    bundle_id, chain = store.app.bundle_id, store.keys.chain
    reply = await apple.show_receipt(purchase, "ada", fetch_token=storekit_1(apple, "404"))
    assert (reply.status, reply.json()["code"]) == (503, 7101), reply
    await apple.move(apple.now + HOUR, every=10 * MINUTE)
    found = await credentials.load(apple.connections, PROJECT, apple.app_id)
    assert found is not None
    assert found.row.check_result == "ok"
    # What Apple signed in a form that nobody expects is kept as well.
    odd = chain.sign({"bundleId": bundle_id, "environment": "Production", "signedDate": apple.now})
    reply = await apple.show_receipt(purchase, "ada", fetch_token=odd)
    assert (reply.status, reply.json()["code"]) == (503, 7101), reply
    assert {entry.status for entry in await apple.journal() if entry.source == "receipt"} == {"waiting"}
    assert (await apple.client.get(f"/v2/projects/{PROJECT}/customers/ada")).status == 404


async def test_a_made_up_token_gives_a_day_once_in_thirty_and_ends(google: World) -> None:
    google.store.misbehave(api=DOWN)
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="eve")
    forged = google.store.receipt(bought)["fetch_token"][:-4] + "evil"
    assert (await google.show_receipt(bought, "eve", fetch_token=forged)).status == 200
    google.store.clock.reach(google.now + 25 * HOUR)
    await google.pass_time()
    assert await google.types("eve") == ["TEMPORARY_ENTITLEMENT_GRANT", "EXPIRATION"]
    again = await google.show_receipt(bought, "eve", fetch_token=forged[:-1] + "x")
    assert (again.status, again.json()["code"]) == (503, 7101)
    assert await google.access("eve") == set()


async def test_what_a_phone_makes_up_multiplies_no_temporary_access(google: World) -> None:
    google.store.misbehave(api=DOWN)
    bought = google.store.sell(product_id="team_monthly:monthly", buyer="eve")
    token = google.store.receipt(bought)["fetch_token"]
    # The same product under another base plan, with another token.
    for number, product in enumerate(("team_monthly:monthly", "team_monthly:x1", "team_monthly", "team_monthly:zzz")):
        forged = f"{token[:-4]}{number:04d}"
        await google.show_receipt(bought, "eve", fetch_token=forged, product_ids=[product])
    assert await google.types("eve") == ["TEMPORARY_ENTITLEMENT_GRANT"]
    # The same token, shown by another customer.
    copied = await google.show_receipt(bought, "bob", fetch_token=f"{token[:-4]}0000")
    assert (copied.status, copied.json()["code"]) == (503, 7101)
    # The store is back and knows none of these: the access ends now, not after a day.
    google.store.behave()
    google.store.clock.reach(google.now + HOUR)
    await google.process()
    assert await google.types("eve") == ["TEMPORARY_ENTITLEMENT_GRANT", "EXPIRATION"]
    assert await google.access("eve") == set()


async def test_only_what_is_really_given_counts_towards_the_cap(google: World) -> None:
    await google.database.pool.execute(
        "insert into temporary_grants values ($1, $2, $3, 99)", PROJECT, google.app_id, google.now // HOUR
    )
    google.store.misbehave(api=DOWN)
    coins = google.store.sell(product_id="coins_100", buyer="ada")
    for _ in range(3):
        # What is used up grants nothing that could be given for a day.
        assert (await google.show_receipt(coins, "ada")).status == 503
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada")
    for _ in range(2):
        # The phone comes again: it has its day already.
        assert (await google.show_receipt(bought, "ada")).status == 200
    second = google.store.sell(product_id="pro_monthly:monthly", buyer="bob")
    assert (await google.show_receipt(second, "bob")).status == 503, "that was the hundredth of this hour"


async def test_what_is_used_up_waits_for_the_store_even_if_it_gives_access(google: World) -> None:
    """After a reply that does not say to use it up, the phone keeps it for ever, and it cannot be bought again."""
    path = f"/v2/projects/{PROJECT}/entitlements/pro/actions/attach_products"
    assert (await google.client.post(path, {"product_ids": ["coins_100"]})).status == 200
    coins = google.store.sell(product_id="coins_100", buyer="ada")
    google.store.misbehave(drop=1.0, api=DOWN)
    assert (await google.show_receipt(coins, "ada")).status == 503
    google.store.misbehave(drop=1.0)
    await google.move(google.now + MINUTE)
    assert await google.types("ada") == ["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"]
    reply = await google.show_receipt(coins, "ada")
    assert reply.json()["purchased_products"] == {"coins_100": {"should_consume": True}}


@pytest.mark.parametrize("over", [False, True], ids=["it runs", "it has run out"])
async def test_temporary_access_for_what_was_known_already_ends_with_the_stores_answer(
    google: World, over: bool
) -> None:
    bought = await google.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="ada")
    if over:
        google.store.act(bought, "cancel")
        await google.move(google.now + 40 * DAY)
    before = await google.types("ada")
    google.store.misbehave(api=DOWN)
    assert (await google.show_receipt(bought, "ada")).status == 200
    google.store.behave()
    await google.move(google.now + 10 * MINUTE, every=MINUTE)
    told = ["TEMPORARY_ENTITLEMENT_GRANT", *(["EXPIRATION"] if over else [])]
    assert await google.types("ada") == [*before, *told]
    assert await google.access("ada") == (set() if over else {"pro"})


async def test_a_receipt_that_was_dealt_with_waits_again_if_it_is_shown_in_an_outage(google: World) -> None:
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada")
    assert (await google.show_receipt(bought, "ada")).status == 200
    await google.filed()
    google.store.act(bought, "cancel")
    await google.move(google.now + 40 * DAY)
    before = await google.types("ada")
    google.store.misbehave(api=DOWN)
    replies = await asyncio.gather(*(google.show_receipt(bought, "ada") for _ in range(3)))
    assert [reply.status for reply in replies] == [200, 200, 200]
    google.store.behave()
    await google.move(google.now + 10 * MINUTE, every=MINUTE)
    assert await google.types("ada") == [*before, "TEMPORARY_ENTITLEMENT_GRANT", "EXPIRATION"]
    assert await google.access("ada") == set()


async def test_a_payment_that_was_pending_is_not_lost_if_it_is_shown_in_an_outage(google: World) -> None:
    google.store.misbehave(drop=1.0)
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada", pending=True)
    assert (await google.show_receipt(bought, "ada")).status == 200
    assert [entry.status for entry in await google.journal()] == ["ignored"]
    google.store.act(bought, "complete")
    google.store.misbehave(drop=1.0, api=DOWN)
    assert (await google.show_receipt(bought, "ada")).status == 200
    google.store.behave()
    await google.move(google.now + 10 * MINUTE, every=MINUTE)
    assert await google.types("ada") == ["TEMPORARY_ENTITLEMENT_GRANT", "INITIAL_PURCHASE"]


async def test_a_real_purchase_takes_the_place_of_the_temporary_access(google: World) -> None:
    bought = google.store.sell(product_id="pro_monthly:monthly", buyer="ada")
    google.store.misbehave(drop=1.0, api=DOWN)
    assert (await google.show_receipt(bought, "ada", product_ids=["pro_monthly"])).status == 200
    google.store.behave()
    google.store.clock.reach(google.now + HOUR)
    await google.process()
    assert (await google.show_receipt(bought, "bob")).status == 200
    assert await google.access("ada") == set()


@pytest.mark.parametrize("since", [True, False], ids=["shown since", "shown before"])
async def test_a_receipt_of_an_outage_takes_nothing_from_an_owner_who_has_shown_the_purchase_since(
    market: World, since: bool
) -> None:
    # The id of a subscription of Stripe moves it only to whom the app named there.
    named = {"account_token": "ada"} if market.store.name == "stripe" else {}
    purchase = market.store.sell(product_id=PRODUCTS[market.store.name], buyer="ada", **named)

    async def ada_shows() -> None:
        market.store.misbehave(drop=1.0, api=DOWN)
        await shown(market, purchase, "ada")
        market.store.behave()
        market.store.clock.reach(market.now + 1_000)

    async def bob_shows() -> None:
        assert (await shown(market, purchase, "bob")).status == 200
        await market.filed()
        market.store.clock.reach(market.now + 1_000)

    for show in (ada_shows, bob_shows) if since else (bob_shows, ada_shows):
        await show()
    await market.move(market.now + HOUR, every=5 * MINUTE)
    owner, other = ("bob", "ada") if since else ("ada", "bob")
    assert (await market.access(owner), await market.access(other)) == ({"pro"}, set())
    assert {entry.status for entry in await market.journal() if entry.source == "receipt"} <= {"applied", "ignored"}
