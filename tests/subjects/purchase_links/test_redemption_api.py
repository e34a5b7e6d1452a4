"""`POST /v1/subscribers/redeem_purchase`: the purchase of an unknown buyer goes to exactly one user. The key of an
app is public: strangers may try all of this."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from latchkey.domain.instants import DAY, MINUTE
from latchkey.stores.errors import NoAnswer
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.checkout.usecases.checkouts import prune
from latchkey.subjects.customers.usecases import identities
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.site import Site
from tests.http.client import Reply
from tests.http.doings import subscriber, types_told
from tests.http.management import delete
from tests.http.till import services_of
from tests.subjects.purchase_links.buyer import Buyer, buying, token_in


@pytest.fixture
async def buyer(site: Site, tmp_path: Path) -> AsyncIterator[Buyer]:
    async with buying(site, tmp_path / "mail") as made:
        yield made


def refused(reply: Reply, code: int) -> dict[str, Any]:
    assert (reply.status, reply.json()["code"]) == (400, code), reply
    body: dict[str, Any] = reply.json()
    return body


async def holds(buyer: Buyer, user: str) -> bool:
    """Also of a user who was never seen."""
    return "pro" in (await buyer.site.v1(user)).json()["subscriber"]["entitlements"]


async def test_the_user_of_the_app_takes_the_purchase_over(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    who = buyer.till.provider.orders[0].app_user_id
    reply = await buyer.redeem(token, "taker")
    assert reply.status == 200, reply
    assert reply.json()["subscriber"]["entitlements"]["pro"]["product_identifier"] == "pro_yearly"
    assert await holds(buyer, "taker")
    # Both ids are one customer now.
    assert (await subscriber(buyer.site, who))["original_app_user_id"] in (who, "taker")
    assert "SUBSCRIBER_ALIAS" in await types_told(buyer.site, "taker")


async def test_an_app_that_asks_again_gets_the_same_answer_and_nobody_else_gets_it(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    for _ in range(2):
        assert (await buyer.redeem(token, "first-taker")).status == 200
    events = await types_told(buyer.site, "first-taker")
    refused(await buyer.redeem(token, "second-taker"), 7852)
    assert not await holds(buyer, "second-taker")
    assert (await buyer.redeem(token, "first-taker")).status == 200
    assert await types_told(buyer.site, "first-taker") == events
    # The other token of the same purchase, by mail, is no second one.
    [mailed] = await buyer.mailed_tokens()
    refused(await buyer.redeem(mailed, "second-taker"), 7852)


async def test_of_many_who_redeem_at_once_exactly_one_has_it(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    users = [f"racer-{number}" for number in range(8)]
    replies = await asyncio.gather(*(buyer.redeem(token, user) for user in users))
    won = [user for user, reply in zip(users, replies, strict=True) if reply.status == 200]
    assert len(won) == 1
    assert [user for user in users if await holds(buyer, user)] == won


async def test_a_redemption_that_breaks_leaves_the_purchase_to_whoever_comes_next(
    buyer: Buyer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_in(await buyer.buy())

    async def broken(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(identities._Pair, "merge", broken)
        assert (await buyer.redeem(token, "unlucky")).status == 500
    assert (await buyer.redeem(token, "lucky")).status == 200
    refused(await buyer.redeem(token, "unlucky"), 7852)
    assert [user for user in ("lucky", "unlucky") if await holds(buyer, user)] == ["lucky"]


async def test_a_purchase_that_was_paid_while_the_provider_faltered_can_be_redeemed(
    buyer: Buyer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: Any) -> None:
        raise NoAnswer("It does not answer.")

    provider, (handle, done) = buyer.till.provider, await buyer.begin(await buyer.link())
    provider.pays(handle)
    with monkeypatch.context() as patch:
        # So the buyer has temporary access, which nobody can take over.
        patch.setattr(provider, "looks_real", lambda *_: True)
        patch.setattr(provider, "read_receipt", down)
        await buyer.open(done)
        assert await holds(buyer, provider.orders[-1].app_user_id)
    token = token_in((await buyer.open(done)).body.decode())
    assert (await buyer.redeem(token, "patient")).status == 200
    assert await holds(buyer, "patient")


async def test_what_an_anonymous_user_has_redeemed_is_not_taken_over(buyer: Buyer) -> None:
    token, anonymous = token_in(await buyer.buy()), f"$RCAnonymousID:{'cd' * 16}"
    assert (await buyer.redeem(token, anonymous)).status == 200
    refused(await buyer.redeem(token, "thief-of-anonymous"), 7852)
    assert not await holds(buyer, "thief-of-anonymous")
    assert (await buyer.redeem(token, anonymous)).status == 200


async def test_a_user_with_a_past_keeps_it_and_gets_the_purchase(buyer: Buyer) -> None:
    anonymous = f"$RCAnonymousID:{'ab' * 16}"
    body = {"app_user_id": anonymous, "new_app_user_id": "with-a-past"}
    await buyer.site.client.post("/v1/subscribers/identify", body, key=buyer.site.public)
    token = token_in(await buyer.buy())
    assert (await buyer.redeem(token, anonymous)).status == 200
    assert await holds(buyer, "with-a-past")
    # As any of their ids.
    assert (await buyer.redeem(token, "with-a-past")).status == 200


async def test_an_expired_link_makes_a_new_mail_and_the_new_one_works(buyer: Buyer) -> None:
    await buyer.buy()
    [old] = await buyer.mailed_tokens()
    buyer.site.clock.now += 61 * MINUTE
    body = refused(await buyer.redeem(old, "late"), 7853)
    assert body["purchase_redemption_error_info"] == {"obfuscated_email": "a***@e***.com"}
    assert not await holds(buyer, "late")
    _, new = await buyer.mailed_tokens()
    page = (await buyer.open(f"/buy/redeem/{old}")).body.decode()
    assert "This link has expired" in page
    assert (await buyer.redeem(new, "late")).status == 200
    assert "in use in the app" in (await buyer.open(f"/buy/redeem/{old}")).body.decode()


async def test_the_page_of_an_expired_link_sends_a_new_one_but_not_without_end(buyer: Buyer) -> None:
    await buyer.buy(email="often@example.com")
    [old] = await buyer.mailed_tokens()
    buyer.site.clock.now += 61 * MINUTE
    # Opening it sends nothing: programs that look at mails open links.
    await buyer.open(f"/buy/redeem/{old}")
    assert len(await buyer.mails()) == 1
    for _ in range(10):
        page = (await buyer.open(f"/buy/redeem/{old}?again=yes")).body.decode()
        assert "on its way to o***@e***.com" in page
    assert 2 <= len(await buyer.mails()) <= 5


async def test_without_an_address_an_expired_link_has_an_empty_one(buyer: Buyer) -> None:
    token = token_in(await buyer.buy(email=None))
    buyer.site.clock.now += 61 * MINUTE
    body = refused(await buyer.redeem(token, "late-too"), 7853)
    # The SDKs read it without asking whether it is there.
    assert body["purchase_redemption_error_info"] == {"obfuscated_email": ""}


@pytest.mark.parametrize("forged", ["", "x", "A" * 152, "ü" * 20, "../..", "A" * 4000, "null"])
async def test_what_is_no_token_is_refused(buyer: Buyer, forged: str) -> None:
    reply = await buyer.redeem(forged, "forger")
    assert (reply.status, reply.json()["code"]) in ((400, 7849), (400, 7226)), reply


async def test_a_token_that_was_tampered_with_is_refused(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    for place in (0, 20, 60, len(token) - 5):
        other = "A" if token[place] != "A" else "B"
        refused(await buyer.redeem(token[:place] + other + token[place + 1 :], "forger"), 7849)
    # It says nothing of what it is about.
    assert "proj" not in token
    assert (await buyer.redeem(token, "honest")).status == 200


async def test_a_token_of_another_project_is_refused_there(buyer: Buyer) -> None:
    site = buyer.site
    token = token_in(await buyer.buy())
    other = await projects.create_project(site.database, "Next door", site.clock.now)
    app = await projects.create_app(site.database, other.id, "Theirs", "app_store", site.clock.now)
    key = await keys.create_public_key(site.database, other.id, app.id, "Theirs", site.clock.now)
    refused(await buyer.redeem(token, "neighbour", key.plaintext), 7849)
    assert (await buyer.redeem(token, "at-home")).status == 200


async def test_no_purchase_of_a_known_user_is_redeemed(buyer: Buyer) -> None:
    """The page has no token for it, and none that is made of its checkout works."""
    await buyer.buy(user="owner-of-it")
    row = await buyer.site.database.pool.fetchrow(
        "select redeemable, email from checkouts where app_user_id = 'owner-of-it'"
    )
    assert row is not None
    assert tuple(row) == (False, None)


async def test_whose_purchase_it_has_become_keeps_it(buyer: Buyer) -> None:
    """The buyer's random id is joined to a user, for example by an app that was told it. The token takes nothing from
    that user, whatever else they have bought."""
    token = token_in(await buyer.buy())
    who = buyer.till.provider.orders[0].app_user_id
    joined = await buyer.site.client.post(
        f"/v1/subscribers/{quote(who, safe='')}/alias", {"new_app_user_id": "victim"}, key=buyer.site.public
    )
    assert joined.status == 200, joined
    refused(await buyer.redeem(token, "thief"), 7852)
    assert await holds(buyer, "victim")
    # The victim itself may show it.
    assert (await buyer.redeem(token, "victim")).status == 200


async def test_a_purchase_that_was_given_away_does_not_come_back(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    assert (await buyer.redeem(token, "giver")).status == 200
    path = f"/v2/projects/{buyer.site.project_id}/customers/giver/actions/transfer"
    await buyer.site.client.post("/v1/subscribers/identify", {"app_user_id": "x1", "new_app_user_id": "given"})
    moved = await buyer.site.client.post(path, {"target_customer_id": "given"})
    assert moved.status == 200, moved
    refused(await buyer.redeem(token, "giver"), 7852)
    assert await holds(buyer, "given")


async def test_what_was_bought_in_an_app_that_is_gone_is_redeemed_too(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    await delete(buyer.site, f"apps/{buyer.till.app_id}")
    assert (await buyer.redeem(token, "loyal")).status == 200
    assert await holds(buyer, "loyal")


async def test_nothing_is_left_of_an_erased_buyer(buyer: Buyer) -> None:
    token = token_in(await buyer.buy())
    who = buyer.till.provider.orders[0].app_user_id
    await erase(buyer.site.changes, buyer.site.project_id, who)
    assert await buyer.site.database.pool.fetchval("select count(*) from checkouts where app_user_id = $1", who) == 0
    refused(await buyer.redeem(token, "too-late"), 7849)


async def test_what_was_not_redeemed_is_kept_and_the_rest_is_removed(buyer: Buyer) -> None:
    await buyer.begin(await buyer.link())
    await buyer.buy()
    paid = buyer.till.provider.orders[-1].app_user_id
    begun = buyer.till.provider.orders[0].app_user_id
    [old] = await buyer.mailed_tokens()
    buyer.site.clock.now += 60 * DAY

    async def kept() -> set[str]:
        await services_of(buyer.site).checkouts.ask_due()
        await prune(buyer.site.database, buyer.site.clock.now - 7 * DAY)
        found = await buyer.site.database.pool.fetch("select app_user_id from checkouts")
        return {row["app_user_id"] for row in found} & {paid, begun}

    assert await kept() == {paid}
    refused(await buyer.redeem(old, "months-later"), 7853)
    [*_, new] = await buyer.mailed_tokens()
    assert (await buyer.redeem(new, "months-later")).status == 200
    buyer.site.clock.now += 60 * DAY
    assert await kept() == set()
