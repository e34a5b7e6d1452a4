"""GET /v2/projects/{project_id}/customers/{customer_id} and its lists, when they succeed."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from latchkey.api.front import Front
from latchkey.domain.instants import end_to_iso, to_iso
from latchkey.usecases.customers import grants, identities
from latchkey.usecases.experiments.enrollments import enroll_customer
from latchkey.usecases.sandbox import clocks as test_clocks
from tests.api.client import DAY, LIFETIME, NOW, Shop

PATH = "/v2/projects/proj_demo/customers/ada"


async def test_an_enrolled_customer_shows_the_experiment(shop: Shop) -> None:
    async with shop.database.acquire() as connection:
        await connection.execute(
            "insert into experiments (project_id, id, name, variants, created_at) values ($1, 'exp', 'Prices', $2, 0)",
            shop.project_id,
            b'[{"id": "b", "weight": 1}]',
        )
    await enroll_customer(shop.changes, shop.project_id, "exp", "ada")
    body = (await shop.v2("ada")).json()
    assert body["experiment"] == {"object": "experiment_enrollment", "id": "exp", "name": "Prices", "variant": "b"}


async def test_an_entitlement_that_ended_is_not_active_and_a_lifetime_one_has_no_end(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    await shop.act("cancel", "ada", "team_monthly")
    await shop.act("purchase", "ada", "pro_lifetime")
    shop.clock.now += 31 * DAY - 1
    assert [item["entitlement_id"] for item in (await shop.v2("ada")).json()["active_entitlements"]["items"]] == [
        "pro",
        "team",
    ]
    shop.clock.now += 1
    [item] = (await shop.v2("ada")).json()["active_entitlements"]["items"]
    assert (item["entitlement_id"], item["expires_at"]) == ("pro", LIFETIME)


async def test_the_id_is_the_current_one_whichever_alias_was_asked_for(shop: Shop) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    await shop.act("purchase", anonymous, "pro_monthly")
    await identities.log_in(shop.changes, shop.project_id, anonymous, "ada@ü")
    body = (await shop.v2(quote(anonymous))).json()
    assert body["id"] == "ada@ü"
    assert body["attributes"]["url"] == "/v2/projects/proj_demo/customers/ada%40%C3%BC/attributes"
    assert (await shop.v2("ada%40%C3%BC")).json() == body


async def test_a_list_is_paged_forward_by_paths_that_can_be_followed_as_they_are(shop: Shop) -> None:
    names = [f"name {n:02}" for n in range(45)] + ["$email"]
    await shop.note("a:d a", **{name.replace("$", "__"): "x@y" for name in names})
    first = (await shop.v2("a%3Ad%20a")).json()["attributes"]
    assert len(first["items"]) == 20
    assert first["next_page"] == ("/v2/projects/proj_demo/customers/a%3Ad%20a/attributes?starting_after=name%2018")
    seen, page = [item["name"] for item in first["items"]], first
    while page["next_page"]:
        page = (await shop.client.get(page["next_page"])).json()
        assert page["object"] == "list"
        assert page["url"] == first["url"]
        seen += [item["name"] for item in page["items"]]
    assert seen == sorted(names)


async def test_a_page_has_as_many_items_as_asked_for_and_so_has_the_next(shop: Shop) -> None:
    await shop.note("ada", **{f"n{n}": "x" for n in range(7)})
    page = (await shop.v2("ada", "/attributes?limit=3")).json()
    assert [item["name"] for item in page["items"]] == ["n0", "n1", "n2"]
    assert page["next_page"] == f"{PATH}/attributes?limit=3&starting_after=n2"
    page = (await shop.client.get(page["next_page"])).json()
    assert [item["name"] for item in page["items"]] == ["n3", "n4", "n5"]
    assert (await shop.v2("ada", "/attributes?limit=100")).json()["next_page"] is None


async def test_a_cursor_whose_item_is_gone_still_marks_its_place(shop: Shop) -> None:
    await shop.note("ada", a="1", c="3")
    page = (await shop.v2("ada", "/attributes?starting_after=b")).json()
    assert [item["name"] for item in page["items"]] == ["c"]
    assert (await shop.v2("ada", "/attributes?starting_after=z")).json()["items"] == []


async def test_the_active_entitlements_are_paged_too(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    page = (await shop.v2("ada", "/active_entitlements?limit=1")).json()
    assert [item["entitlement_id"] for item in page["items"]] == ["pro"]
    page = (await shop.client.get(page["next_page"])).json()
    assert [item["entitlement_id"] for item in page["items"]] == ["team"]
    assert page["next_page"] is None


async def test_v1_and_v2_tell_the_same_story_at_every_turn_of_a_life(shop: Shop) -> None:
    async def compare() -> None:
        subscriber = (await shop.v1("ada")).json()["subscriber"]
        customer = (await shop.v2("ada")).json()
        now = shop.clock.now
        by_v2 = {item["entitlement_id"]: item["expires_at"] for item in customer["active_entitlements"]["items"]}
        by_v1 = {
            name: held["expires_date"]
            for name, held in subscriber["entitlements"].items()
            if held["expires_date"] is None or held["expires_date"] > to_iso(now)
        }
        assert {name: end_to_iso(end, now) for name, end in by_v2.items()} == by_v1

    await shop.act("purchase", "ada", "pro_monthly", trial=True)
    await compare()
    shop.clock.now += 10 * DAY
    await shop.act("change_product", "ada", "pro_monthly", new_product_id="team_monthly")
    await compare()
    await shop.act("fail_billing", "ada", "team_monthly", grace_days=3)
    shop.clock.now += 32 * DAY
    await compare()
    await grants.grant(shop.changes, shop.project_id, "ada", "pro", duration="daily")
    await compare()
    await grants.revoke(shop.changes, shop.project_id, "ada", "pro")
    shop.clock.now += 1000
    await compare()


async def test_a_customer_on_a_test_clock_holds_what_it_holds_at_that_moment(shop: Shop) -> None:
    await test_clocks.create_clock(shop.database, shop.project_id, "clk", "a clock", NOW - 400 * DAY, NOW)
    await test_clocks.create_customer(shop.changes, shop.project_id, "ada", "clk")
    await shop.act("purchase", "ada", "pro_monthly")
    body = (await shop.v2("ada")).json()
    assert len(body["active_entitlements"]["items"]) == 1
    assert body["first_seen_at"] == NOW - 400 * DAY


async def test_the_framework_route_behind_a_hot_read_gives_the_same_bytes(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    for path in ("/v1/subscribers/ada", PATH):
        front: Any = shop.client.app
        assert isinstance(front, Front)
        hot = await shop.client.get(path)
        front._reads, reads = NoReads(), front._reads  # type: ignore[assignment]
        routed = await shop.client.get(path)
        front._reads = reads
        assert (routed.status, routed.body) == (hot.status, hot.body)
        assert routed.headers.keys() == hot.headers.keys()


class NoReads:
    def answer(self, *_: object) -> None:
        return None
