"""Targeting rules in V2, which offering V1 shows by them, and the preview of who sees what."""

from typing import Any

import pytest

from latchkey.domain.customers.enrollment import Experiment, Variant, assign
from latchkey.engine.changes import Changes
from latchkey.subjects.offerings.rules import AskingApp
from latchkey.subjects.offerings.usecases import load_storefront
from latchkey.subjects.segments.usecases.projector import Roller
from tests.http.client import NOW, Shop
from tests.http.doings import app_key, did, make_clock, move_in
from tests.http.management import delete, get, patch, post, refused, walk
from tests.statements import counted

TEAM, COINS, DEFAULT = "ofrng_demo_team", "ofrng_demo_coins", "ofrng_demo_default"
PHONE = {"x-platform": "iOS", "x-client-version": "2.10.0", "cf-ipcountry": "DE"}


async def add(
    shop: Shop, id: str, offering_id: str = TEAM, *, conditions: dict[str, str] | None = None, **more: Any
) -> Any:
    body = {"id": id, "name": id, "offering_id": offering_id, "conditions": conditions or {}, **more}
    reply = await post(shop, "targeting_rules", body)
    assert reply.status == 201, reply
    return reply.json()


async def shown(shop: Shop, who: str = "ada", headers: dict[str, str] | None = None, key: str = "") -> Any:
    reply = await shop.client.get(
        f"/v1/subscribers/{who}/offerings", key=key or shop.public, headers=PHONE if headers is None else headers
    )
    assert reply.status == 200, reply
    return reply.json()


async def current(shop: Shop, who: str = "ada", headers: dict[str, str] | None = None) -> tuple[str, str | None]:
    """The offering, and the rule that has chosen it."""
    body = await shown(shop, who, headers)
    return body["current_offering_id"], body["targeting"]["rule_id"] if "targeting" in body else None


async def order(shop: Shop) -> list[tuple[str, int]]:
    return [(one["id"], one["position"]) for one in await walk(shop, "targeting_rules?limit=2")]


async def test_201_with_the_conditions_in_one_spelling(shop: Shop) -> None:
    made = await add(shop, "german", conditions={"country": "at, de", "platform": "iOS", "attribute": "plan = gold"})
    assert made == {
        "object": "targeting_rule",
        "id": "german",
        "project_id": shop.project_id,
        "name": "german",
        "offering_id": TEAM,
        "conditions": {"country": "AT,DE", "platform": "ios", "attribute": "plan=gold"},
        "is_active": True,
        "position": 1,
        "revision": 1,
        "created_at": NOW,
    }
    assert (await get(shop, "targeting_rules/german")).json() == made
    unnamed = await post(shop, "targeting_rules", {"name": "Everybody", "offering_id": COINS})
    assert unnamed.json()["id"].startswith("tgtr_")


async def test_a_rule_is_moved_and_the_others_move_on(shop: Shop) -> None:
    for id in "abc":
        await add(shop, id)
    await add(shop, "d", position=1)
    assert await order(shop) == [("d", 1), ("a", 2), ("b", 3), ("c", 4)]
    assert (await patch(shop, "targeting_rules/d", {"position": 3})).json()["position"] == 3
    assert await order(shop) == [("a", 1), ("b", 2), ("d", 3), ("c", 4)]
    gone = await delete(shop, "targeting_rules/b")
    assert gone.json() == {"object": "targeting_rule", "id": "b", "deleted_at": NOW}
    assert await order(shop) == [("a", 1), ("d", 2), ("c", 3)]


async def test_the_revision_grows_when_somebody_may_see_something_else(shop: Shop) -> None:
    await add(shop, "a")
    for changes, revision in (
        ({"name": "Another"}, 1),
        ({"position": 1}, 1),
        ({"conditions": {"country": "DE"}}, 2),
        ({"conditions": {"country": "de"}}, 2),
        ({"offering_id": COINS}, 3),
        ({"is_active": False}, 4),
    ):
        assert (await patch(shop, "targeting_rules/a", changes)).json()["revision"] == revision, changes


async def test_the_app_that_asks_says_what_it_is_and_a_change_counts_at_once(shop: Shop) -> None:
    await add(shop, "new-iphones", conditions={"platform": "ios", "app_version_from": "2.9", "country": "DE"})
    # Nobody knows ada yet.
    assert await current(shop) == ("team", "new-iphones")
    assert await current(shop, headers={**PHONE, "x-client-version": "2.8"}) == ("default", None)
    assert await current(shop, headers={**PHONE, "x-platform": "android"}) == ("default", None)
    assert await current(shop, headers={}) == ("default", None)
    body = await shown(shop)
    assert body["targeting"] == {"revision": 1, "rule_id": "new-iphones"}
    await patch(shop, "targeting_rules/new-iphones", {"offering_id": COINS})
    body = await shown(shop)
    assert (body["current_offering_id"], body["targeting"]["revision"]) == ("coins", 2)
    await patch(shop, "targeting_rules/new-iphones", {"is_active": False})
    assert await current(shop) == ("default", None)


async def test_placements_keep_their_offering_and_others_show_that_of_the_rule(shop: Shop) -> None:
    before = (await shown(shop))["placements"]
    await add(shop, "all", COINS)
    body = await shown(shop)
    assert body["placements"]["offering_ids_by_placement"] == before["offering_ids_by_placement"]
    assert (before["fallback_offering_id"], body["placements"]["fallback_offering_id"]) == ("default", "coins")


async def test_an_attribute_that_the_phone_sets_chooses_the_offering(shop: Shop) -> None:
    await add(shop, "gold", conditions={"attribute": "plan=gold,platinum"})
    assert await current(shop) == ("default", None)
    attributes = {"attributes": {"plan": {"value": "gold", "updated_at_ms": NOW}}}
    assert (await shop.client.post("/v1/subscribers/ada/attributes", attributes, key=shop.public)).status == 200
    assert await current(shop) == ("team", "gold")


async def test_an_entitlement_counts_while_it_is_active_by_the_customers_own_clock(shop: Shop) -> None:
    await add(shop, "free", COINS, conditions={"no_entitlement": "pro"})
    await add(shop, "paying", conditions={"entitlement": "pro"})
    assert await current(shop) == ("coins", "free")
    clock = await make_clock(shop)
    await move_in(shop, "ada", clock)
    await did(shop, "purchase", "ada", "pro_monthly")
    await did(shop, "cancel", "ada")
    assert await current(shop) == ("team", "paying")
    advanced = await post(shop, f"test_clocks/{clock}/advance", {"to_ms": NOW + 40 * 86_400_000})
    assert advanced.status == 200, advanced
    assert await current(shop) == ("coins", "free")


async def test_an_override_and_an_experiment_come_before_a_rule(shop: Shop) -> None:
    variants = [{"id": "control", "weight": 1}, {"id": "b", "weight": 1, "offering_id": TEAM}]
    made = (await post(shop, "experiments", {"name": "Teams", "variants": variants})).json()
    known = Experiment(made["id"], "Teams", (Variant("control", 1), Variant("b", 1)))
    names = [f"user{number}" for number in range(20)]
    control, treated = (next(one for one in names if assign(known, one) == variant) for variant in ("control", "b"))
    for name in (control, treated):
        await post(shop, f"experiments/{made['id']}/enroll", {"app_user_id": name})
    await add(shop, "all", COINS)
    assert await current(shop, treated) == ("team", None)
    # A variant without an offering leaves it to the rules.
    assert await current(shop, control) == ("coins", "all")
    await post(shop, f"customers/{treated}/actions/assign_offering", {"offering_id": DEFAULT})
    assert await current(shop, treated) == ("default", None)
    reason = (await get(shop, f"customers/{treated}/offering_reason")).json()
    assert (reason["chosen_by"], reason["offering_id"], reason["rule_id"]) == ("override", DEFAULT, None)


async def test_an_app_that_does_not_sell_the_offering_shows_the_current_one(shop: Shop) -> None:
    await add(shop, "all", TEAM)
    body = await shown(shop, key=await app_key(shop, "play_store"))
    # Its one subscription has no base plan.
    assert (body["current_offering_id"], "targeting" in body) == ("default", False)


async def test_the_preview_counts_whom_each_rule_reaches_and_says_why(shop: Shop) -> None:
    await add(shop, "team", conditions={"country": "DE", "attribute": "plan=team"})
    await add(shop, "payers", COINS, conditions={"entitlement": "pro"})
    await add(shop, "off", is_active=False)
    for name in ("ada", "bob", "carl", "dora"):
        await shop.note(name, plan="team" if name == "ada" else "solo")
    await did(shop, "purchase", "bob", "pro_monthly")
    await post(shop, "customers/carl/actions/assign_offering", {"offering_id": TEAM})
    await shop.client.get("/v1/subscribers/ada", key=shop.public, headers=PHONE)
    await shop.presence.flush()
    for turn in range(8):
        await Roller(shop.database).turn(NOW + turn * 6_000)
    counted = (await get(shop, "targeting_preview")).json()
    assert [(one["rule_id"], one["customers"]) for one in counted["rules"]] == [("team", 1), ("payers", 1), ("off", 0)]
    assert (counted["override"], counted["experiment"], counted["current_offering"], counted["none"]) == (1, 0, 1, 0)
    assert (counted["customers"], counted["complete"]) == (4, True)
    reason = (await get(shop, "customers/bob/offering_reason")).json()
    assert reason == {
        "object": "offering_reason",
        "customer_id": "bob",
        "offering_id": COINS,
        "chosen_by": "targeting_rule",
        "rule_id": "payers",
        "rules": [
            {
                "rule_id": "team",
                "name": "team",
                "is_active": True,
                "matches": False,
                "unmet_conditions": ["Country: DE", "plan is team"],
            },
            {"rule_id": "payers", "name": "payers", "is_active": True, "matches": True, "unmet_conditions": []},
            {"rule_id": "off", "name": "off", "is_active": False, "matches": True, "unmet_conditions": []},
        ],
    }


async def test_409_for_deleting_an_offering_that_a_rule_shows(shop: Shop) -> None:
    await add(shop, "all", COINS, is_active=False)
    reply = await delete(shop, f"offerings/{COINS}")
    assert reply.status == 409
    assert "the targeting rule 'all' shows it" in reply.json()["message"]
    await delete(shop, "targeting_rules/all")
    assert (await delete(shop, f"offerings/{COINS}")).status == 200


async def test_409_for_deleting_an_entitlement_that_a_rule_names(shop: Shop) -> None:
    await post(shop, "entitlements", {"lookup_key": "vip", "display_name": "VIP"})
    await add(shop, "without", conditions={"no_entitlement": "vip"}, is_active=False)
    await add(shop, "with", conditions={"entitlement": "vip", "country": "DE"})
    reply = await delete(shop, "entitlements/vip")
    refused(reply, 409, "unprocessable_entity_error", "entitlement_id")
    assert "is in the targeting rules 'without', 'with'" in reply.json()["message"]
    await delete(shop, "targeting_rules/without")
    await patch(shop, "targeting_rules/with", {"conditions": {"country": "DE"}})
    assert (await delete(shop, "entitlements/vip")).status == 200
    # Nobody has what does not exist, so the rule would be for everybody.
    body = {"name": "x", "offering_id": COINS, "conditions": {"no_entitlement": "vip"}}
    refused(await post(shop, "targeting_rules", body), 404, "resource_missing", "entitlement_id")
    refused(await patch(shop, "targeting_rules/with", body), 404, "resource_missing", "entitlement_id")
    assert (await get(shop, "targeting_rules/with")).json()["conditions"] == {"country": "DE"}


async def test_404_for_what_does_not_exist_and_for_another_projects_offering(shop: Shop) -> None:
    await shop.database.pool.execute(
        "insert into projects (id, name, created_at) select 'proj_other', name, created_at from projects where id = $1",
        shop.project_id,
    )
    await shop.database.pool.execute(
        "insert into offerings (project_id, id, lookup_key, display_name, is_current, created_at)"
        " values ('proj_other', 'ofrng_other', 'x', 'x', true, 1)"
    )
    for id in ("none", "ofrng_other"):
        body = {"name": "x", "offering_id": id}
        refused(await post(shop, "targeting_rules", body), 404, "resource_missing", "offering_id")
    await add(shop, "mine")
    refused(
        await patch(shop, "targeting_rules/mine", {"offering_id": "ofrng_other"}),
        404,
        "resource_missing",
        "offering_id",
    )
    assert (await get(shop, "targeting_rules/mine")).json()["offering_id"] == TEAM
    for reply in (await get(shop, "targeting_rules/none"), await delete(shop, "targeting_rules/none")):
        refused(reply, 404, "resource_missing", "rule_id")
    refused(await get(shop, "customers/nobody/offering_reason"), 404, "resource_missing", "customer_id")


async def test_422_for_a_condition_that_cannot_be_understood_changes_nothing(shop: Shop) -> None:
    before = await add(shop, "a", conditions={"country": "DE"})
    for wanted, param in (
        ({"colour": "red"}, "conditions"),
        ({"country": ""}, "country"),
        ({"app_version_from": "newest"}, "app_version_from"),
        ({"attribute": "plan"}, "attribute"),
    ):
        reply = await patch(shop, "targeting_rules/a", {"conditions": wanted, "name": "b"})
        refused(reply, 422, "unprocessable_entity_error", param)
        reply = await post(shop, "targeting_rules", {"name": "x", "offering_id": TEAM, "conditions": wanted})
        refused(reply, 422, "unprocessable_entity_error", param)
    assert (await get(shop, "targeting_rules/a")).json() == before
    assert await order(shop) == [("a", 1)]


async def test_409_for_an_id_that_is_taken_and_422_for_too_many(shop: Shop) -> None:
    await add(shop, "a")
    reply = await post(shop, "targeting_rules", {"id": "a", "name": "x", "offering_id": TEAM})
    refused(reply, 409, "resource_already_exists", "id")
    await shop.database.pool.execute(
        "insert into targeting_rules select project_id, 'r' || n, name, offering_id, conditions, is_active, n, 1, 1"
        " from targeting_rules, generate_series(2, 100) as n"
    )
    reply = await post(shop, "targeting_rules", {"name": "x", "offering_id": TEAM})
    assert (reply.status, "at most 100" in reply.json()["message"]) == (422, True), reply


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_reading_offerings_is_one_query_with_rules_and_without(shop: Shop) -> None:
    await shop.note("ada", plan="team")
    async with counted(shop.database.url) as (database, said):
        changes = Changes(database, lambda: NOW)

        async def read() -> tuple[list[str], str | None]:
            said.clear()
            found = await load_storefront(changes, shop.project_id, AskingApp(), "ada", NOW)
            return list(said), found.current

        await read()
        assert await read() == (["offering_choice"], "default")
        await add(shop, "team", conditions={"attribute": "plan=team"})
        # The catalog has a new version, which is loaded once.
        assert (await read())[1] == "team"
        assert await read() == (["offering_choice"], "team")
