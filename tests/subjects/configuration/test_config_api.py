"""A project's configuration as one document over V2: pulled, planned, applied."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from latchkey.engine.storage.catalog import catalogs
from latchkey.subjects.configuration.usecases import planning, things
from tests.contract.store_credentials import APPLE
from tests.http.client import Reply, Shop
from tests.http.doings import invoice
from tests.http.management import delete, get, holds, post, walk
from tests.subjects.projects.test_apps_api import accepted as accepted


async def pulled(shop: Shop) -> Any:
    reply = await get(shop, "config")
    assert reply.status == 200, reply
    return reply.json()["config"]


async def planned(shop: Shop, config: Any, **more: Any) -> Any:
    reply = await post(shop, "config/plan", {"config": config, **more})
    assert reply.status == 200, reply
    return reply.json()


async def applied(shop: Shop, config: Any, **more: Any) -> Any:
    reply = await post(shop, "config/apply", {"config": config, **more})
    assert reply.status == 200, reply
    return reply.json()


def paths(plan: Any) -> dict[str, str]:
    return {change["path"]: change["action"] for change in plan["changes"]}


def fields(plan: Any, path: str) -> dict[str, Any]:
    [change] = [change for change in plan["changes"] if change["path"] == path]
    return {field["name"]: (field["before"], field["after"]) for field in change["fields"]}


async def test_what_was_pulled_changes_nothing_and_leaves_nothing_out(shop: Shop) -> None:
    config = await pulled(shop)
    assert config["products"]["pro_monthly"]["entitlement_ids"] == ["pro"]
    plan = await planned(shop, config, prune=True)
    assert (plan["changes"], plan["left_alone"]) == ([], [])


async def test_a_new_catalog_is_applied_as_a_whole_and_a_second_plan_is_empty(shop: Shop) -> None:
    config = {
        "apps": {"ios": {"name": "iOS", "store": "app_store", "bundle_id": "com.example.app"}},
        "currencies": {"GEM": {"name": "Gems"}},
        "entitlements": {"max": {}},
        "products": {
            "max_weekly": {
                "type": "subscription",
                "price": 3,
                "currency": "EUR",
                "duration": "P1W",
                "entitlement_ids": ["max"],
                "app_ids": ["ios"],
                "prices": {"-.DE.EUR": 2.99, "app_store.-.USD": 3.49},
            },
            "gems": {"type": "consumable", "price": 1, "currency": "EUR", "credits": {"code": "GEM", "amount": 5}},
        },
        "offerings": {
            "spring": {
                "is_current": True,
                "metadata": {"title": "Spring", "since": [1, {"a": None}]},
                "packages": {"$rc_weekly": {"products": {"max_weekly": "all"}}, "gems": {"products": {"gems": "all"}}},
            }
        },
        "placements": {"paywall": {"offering": "spring"}},
        "targeting_rules": {
            "germany": {"offering": "spring", "conditions": {"country": "de,at"}},
            "others": {"name": "All others", "offering": "default", "is_active": False},
        },
        "experiments": {"prices": {"name": "Prices", "variants": {"a": {"offering": "spring"}, "b": {"weight": 3}}}},
        "webhooks": {"backend": {"url": "https://93.184.215.14/hook", "event_types": ["RENEWAL"]}},
    }
    before = await pulled(shop)
    plan = await planned(shop, config)
    assert set(paths(plan).values()) == {"create", "update"}
    assert paths(plan)["offerings.spring.packages.$rc_weekly"] == "create"
    # Another offering is not the current one any more.
    assert fields(plan, "offerings.default") == {"is_current": (True, False)}
    assert await pulled(shop) == before, "a plan has changed something"

    done = await applied(shop, config, fingerprint=plan["fingerprint"])
    assert (done["applied"], done["changes"]) == (True, plan["changes"])
    after = await pulled(shop)
    assert after["products"]["max_weekly"]["prices"] == {"-.DE.EUR": 2.99, "app_store.-.USD": 3.49}
    assert list(after["offerings"]["spring"]["packages"]) == ["$rc_weekly", "gems"]
    assert list(after["targeting_rules"]) == ["germany", "others"]
    assert after["targeting_rules"]["germany"]["conditions"] == {"country": "AT,DE"}
    again = await planned(shop, config)
    assert again["changes"] == []
    assert (await planned(shop, after, prune=True))["changes"] == []
    assert (await applied(shop, config))["changes"] == []


async def test_a_plan_counts_whose_access_changes(shop: Shop) -> None:
    for who in ("ann", "ben"):
        await shop.act("purchase", who, "pro_monthly")
    config = {"entitlements": {"max": {}}, "products": {"pro_monthly": {"entitlement_ids": ["max"]}}}
    plan = await planned(shop, config)
    assert plan["access"] == {"gains": {"max": 2}, "losses": {"pro": 2}, "counted_share": 1.0}
    assert await holds(shop, "ann") == {"pro"}
    assert (await applied(shop, config))["access"] is None
    assert await holds(shop, "ann") == {"max"}


async def test_a_new_product_for_a_plan_takes_only_what_the_file_does_not_name(shop: Shop) -> None:
    await invoice(shop, "ann", "team_monthly:basic")
    new: dict[str, Any] = {"type": "subscription", "price": 3, "currency": "EUR", "duration": "P1M"}
    plan = await planned(shop, {"products": {"team_monthly:basic": new}})
    assert fields(plan, "products.team_monthly:basic")["entitlement_ids"] == (None, ["pro", "team"])
    assert plan["access"] == {"gains": {}, "losses": {}, "counted_share": 1.0}
    config = {"products": {"team_monthly:basic": {**new, "entitlement_ids": ["pro"]}}}
    plan = await planned(shop, config)
    assert fields(plan, "products.team_monthly:basic")["entitlement_ids"] == (None, ["pro"])
    assert plan["access"] == {"gains": {}, "losses": {"team": 1}, "counted_share": 1.0}
    assert (await applied(shop, config))["changes"] == plan["changes"]
    assert await holds(shop, "ann") == {"pro"}
    assert (await applied(shop, config))["changes"] == []


async def refused(shop: Shop, config: Any, path: str, **more: Any) -> Reply:
    before = await pulled(shop)
    for doing in ("plan", "apply"):
        reply = await post(shop, f"config/{doing}", {"config": config, **more})
        assert (reply.status, reply.json().get("param")) == (422, path), reply
        assert reply.json()["message"].startswith(f"{path}: ")
    assert await pulled(shop) == before
    return reply


async def test_a_refusal_names_the_place_in_the_file_and_changes_nothing(shop: Shop) -> None:
    good: dict[str, Any] = {"entitlements": {"max": {}}}
    new = {"type": "one_time", "price": 1, "currency": "USD"}
    for path, config in (
        ("colours", {"colours": {}}),
        ("products.new.colour", {"products": {"new": {**new, "colour": "red"}}}),
        ("products.new.price", {"products": {"new": {"type": "one_time", "currency": "USD"}}}),
        ("products.new.price", {"products": {"new": {**new, "price": "1"}}}),
        ("products.new.currency", {"products": {"new": {**new, "currency": "XXX"}}}),
        ("products.new.duration", {"products": {"new": {**new, "type": "subscription", "duration": "1 month"}}}),
        ("products.new.entitlement_ids", {"products": {"new": {**new, "entitlement_ids": ["none"]}}}),
        ("products.new.app_ids", {"products": {"new": {**new, "app_ids": ["none"]}}}),
        ("products.new.credits.code", {"products": {"new": {**new, "credits": {"code": "NO", "amount": 1}}}}),
        ("products.new.prices.DE", {"products": {"new": {**new, "prices": {"DE": 1}}}}),
        (
            "offerings.o.packages.p.products",
            {"offerings": {"o": {"packages": {"p": {"products": {"none": "all"}}}}}},
        ),
        ("offerings.b.is_current", {"offerings": {"a": {"is_current": True}, "b": {"is_current": True}}}),
        ("offerings. a", {"offerings": {" a": {}}}),
        ("placements.p.offering", {"placements": {"p": {"offering": "none"}}}),
        ("targeting_rules.r.offering", {"targeting_rules": {"r": {}}}),
        ("targeting_rules.r.offering", {"targeting_rules": {"r": {"offering": "none"}}}),
        (
            "targeting_rules.r.conditions.country",
            {"targeting_rules": {"r": {"offering": "default", "conditions": {"country": "Germany"}}}},
        ),
        (
            "targeting_rules.r.conditions",
            {"targeting_rules": {"r": {"offering": "default", "conditions": {"colour": "red"}}}},
        ),
        (
            "experiments.e.variants.a.offering",
            {"experiments": {"e": {"name": "E", "variants": {"a": {"offering": "none"}}}}},
        ),
        ("apps.x.package_name", {"apps": {"x": {"name": "X", "store": "app_store", "package_name": "x"}}}),
        ("apps.app_demo.store", {"apps": {"app_demo": {"store": "stripe"}}}),
        ("webhooks.w.url", {"webhooks": {"w": {"url": "https://127.0.0.1/"}}}),
        ("webhooks.w.app_id", {"webhooks": {"w": {"url": "https://93.184.215.14/", "app_id": "none"}}}),
    ):
        await refused(shop, {**good, **config}, path)


HOOK = {"url": "https://93.184.215.14/hook", "authorization_header": "Bearer ${TOKEN}"}
VARIABLES = {"TOKEN": "hush-2"}


async def test_secrets_come_from_the_environment_and_are_shown_nowhere(shop: Shop) -> None:
    config = {"webhooks": {"backend": HOOK}}
    await refused(shop, config, "webhooks.backend.authorization_header")
    literal = {"webhooks": {"backend": {**HOOK, "authorization_header": "Bearer hush-2"}}}
    reply = await refused(shop, literal, "webhooks.backend.authorization_header", variables=VARIABLES)
    assert b"hush" not in reply.body

    plan = await planned(shop, config, variables=VARIABLES)
    assert "hush" not in str(plan)
    assert fields(plan, "webhooks.backend")["authorization_header"] == (None, "(hidden)")
    assert "hush" not in str(await applied(shop, config, variables=VARIABLES))
    assert (await planned(shop, config, variables=VARIABLES))["changes"] == []
    async with shop.database.acquire() as connection:
        logged = await connection.fetch("select action, detail::text from audit_entries")
    assert "webhook.created" in {row["action"] for row in logged}
    assert "hush" not in str(logged)

    # The header is not in what is pulled, and stays as it is.
    entry = (await pulled(shop))["webhooks"]["backend"]
    assert "authorization_header" not in entry
    assert (await planned(shop, {"webhooks": {"backend": entry}}))["changes"] == []
    changed = await planned(shop, config, variables={**VARIABLES, "TOKEN": "another"})
    assert fields(changed, "webhooks.backend") == {"authorization_header": ("(hidden)", "(hidden)")}


async def test_what_is_shown_has_no_variables(shop: Shop) -> None:
    address, variables = "https://93.184.215.14/${SECRET}", {"SECRET": "hush"}
    own = {"preset": "custom", "settings": {"url": address}, "template": {}}
    for path, entry in (("url", {"url": address}), ("destination.settings.url", {"destination": own})):
        reply = await refused(shop, {"webhooks": {"w": entry}}, f"webhooks.w.{path}", variables=variables)
        assert "authorization_header" in reply.json()["message"]
        assert "hush" not in reply.json()["message"]


async def made_webhook(shop: Shop, name: str) -> str:
    address = {"url": "https://93.184.215.14/hook", "authorization_header": "Bearer hush"}
    reply = await post(shop, "integrations/webhooks", {"name": name, **address})
    assert reply.status == 201, reply
    return str(reply.json()["id"])


async def webhook_ids(shop: Shop) -> dict[str, str]:
    return {one["id"]: one["name"] for one in await walk(shop, "integrations/webhooks")}


async def test_of_webhooks_with_one_name_the_id_in_the_file_says_which(shop: Shop) -> None:
    first, second = [await made_webhook(shop, "same") for _ in range(2)]
    entries = (await pulled(shop))["webhooks"]
    assert list(entries) == [f"same ({first})", f"same ({second})"]
    kept = {"webhooks": {f"same ({first})": entries[f"same ({first})"]}}
    plan = await planned(shop, kept, prune=True)
    assert paths(plan) == {f"webhooks.same ({second})": "delete"}
    assert paths(await applied(shop, kept, prune=True, fingerprint=plan["fingerprint"])) == paths(plan)
    for _ in range(2):
        assert (await applied(shop, kept, prune=True))["changes"] == []
    assert await webhook_ids(shop) == {first: "same"}
    async with shop.database.acquire() as connection:
        assert await connection.fetchval("select authorization_sealed from webhooks where id = $1", first)
    assert paths(await applied(shop, {"webhooks": {f"same ({first})": {"enabled": False}}})) == {
        f"webhooks.same ({first})": "update"
    }
    assert list((await pulled(shop))["webhooks"]) == ["same"]


async def test_webhooks_with_one_name_are_pruned(shop: Shop) -> None:
    ids = [await made_webhook(shop, "same") for _ in range(3)]
    done = await applied(shop, {"webhooks": {}}, prune=True)
    assert paths(done) == {f"webhooks.same ({id})": "delete" for id in ids}
    assert await webhook_ids(shop) == {}


async def test_a_webhook_of_the_file_that_is_gone_or_could_be_several_is_not_created(shop: Shop) -> None:
    first, second = [await made_webhook(shop, "same") for _ in range(2)]
    both = await pulled(shop)
    several = await refused(shop, {"webhooks": {"same": {}}}, "webhooks.same")
    assert f"same ({first}), same ({second})" in several.json()["message"]
    await delete(shop, f"integrations/webhooks/{second}")
    gone = await refused(shop, both, f"webhooks.same ({second})")
    assert f"There is no webhook {second}" in gone.json()["message"]
    await refused(shop, both, f"webhooks.same ({second})", prune=True)
    twice: dict[str, Any] = {"webhooks": {"same": {}, f"same ({first})": {}}}
    await refused(shop, twice, f"webhooks.same ({first})")
    assert await webhook_ids(shop) == {first: "same"}


async def test_a_webhook_whose_name_looks_like_an_id_is_pulled_with_its_own(shop: Shop) -> None:
    odd = await made_webhook(shop, "odd (wh_1)")
    config = await pulled(shop)
    assert list(config["webhooks"]) == [f"odd (wh_1) ({odd})"]
    assert (await applied(shop, config, prune=True))["changes"] == []
    await refused(shop, {"webhooks": {"new (wh_1)": {"url": "https://93.184.215.14/hook"}}}, "webhooks.new (wh_1)")


async def test_one_file_makes_at_most_so_many_changes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_CHANGES", 3)
    config: dict[str, Any] = {"entitlements": {f"e{number}": {} for number in range(4)}}
    for doing in ("plan", "apply"):
        reply = await post(shop, f"config/{doing}", {"config": config})
        assert (reply.status, "4 things would change, and at most 3" in reply.json()["message"]) == (422, True), reply
    last = config["entitlements"].pop("e3")
    await applied(shop, config)
    config["entitlements"]["e3"] = last
    assert len((await applied(shop, config))["changes"]) == 1, "what is as the file wants it does not count"
    reply = await post(shop, "config/plan", {"config": {"entitlements": {}}, "prune": True})
    assert (reply.status, "apply the file in parts" in reply.json()["message"]) == (422, True), reply


async def test_what_a_change_costs_does_not_grow_with_their_number(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(count: int) -> Any:
        one: dict[str, Any] = {"packages": {"a": {"products": {"pro_monthly": "all"}}}}
        return {"offerings": {f"o{number}": one for number in range(count)}}

    async def version() -> int:
        async with shop.database.acquire() as connection:
            return int(await connection.fetchval("select catalog_version from projects where id = $1", shop.project_id))

    reads: list[str] = []
    load = catalogs.load_offerings

    async def counted(connection: Any, project_id: str) -> Any:
        reads.append(project_id)
        return await load(connection, project_id)

    monkeypatch.setattr(things, "load_offerings", counted)
    await planned(shop, offered(2))
    few = len(reads)
    await planned(shop, offered(9))
    assert len(reads) == 2 * few, "all offerings are read again for some of them"
    before = await version()
    await applied(shop, offered(5))
    assert await version() == before + 1


@pytest.mark.usefixtures("accepted")
async def test_what_the_credentials_say_of_an_app_is_in_the_file(shop: Shop) -> None:
    made = await post(shop, "apps", {"name": "Mine", "type": "app_store"})
    id = made.json()["id"]
    assert (await pulled(shop))["apps"][id]["bundle_id"] is None
    await shop.client.request("PUT", f"/v2/projects/{shop.project_id}/apps/{id}/credentials", body=json.encode(APPLE))
    config = await pulled(shop)
    assert config["apps"][id]["bundle_id"] == APPLE["bundle_id"]
    assert (await planned(shop, config, prune=True))["changes"] == []
    await refused(shop, {"apps": {id: {"bundle_id": "com.example.other"}}}, f"apps.{id}.bundle_id")


async def test_what_is_not_in_the_file_is_named_and_stays_unless_it_is_pruned(shop: Shop) -> None:
    old: dict[str, Any] = {"old": {"packages": {"a": {}, "b": {}}}}
    await applied(shop, {"offerings": {**old, "spare": {"packages": {"c": {}}}}, "placements": {"here": {}}})
    config = {"offerings": {"default": {}, "old": {"packages": {"b": {}}}}, "placements": {"here": {}}}
    plan = await planned(shop, config)
    named = {one["path"]: one["reason"] for one in plan["left_alone"]}
    assert named["offerings.old.packages.a"] is None
    assert {"products.pro_monthly", "offerings.spare"} <= named.keys()
    assert "offerings.spare.packages.c" not in named, "its offering is named"
    assert paths(plan) == {"offerings.old.packages.b": "update", "offerings.old.packages.a": "update"}, "the order"

    await applied(shop, {"placements": {"here": {"offering": "old"}}})
    pruned = await planned(shop, {"offerings": {"default": {}}}, prune=True)
    kept = {one["path"]: one["reason"] for one in pruned["left_alone"]}
    assert "the placement 'here' shows it" in kept["offerings.old"]
    assert paths(pruned)["offerings.spare"] == "delete"
    # A section that the file does not have is left alone.
    assert kept["products.pro_monthly"] is None
    await applied(shop, {"offerings": {"default": {}}}, prune=True)
    assert "spare" not in (await pulled(shop))["offerings"]


async def test_targeting_rules_are_in_the_order_of_the_file(shop: Shop) -> None:
    rules: dict[str, Any] = {id: {"offering": "default"} for id in ("a", "b", "c")}
    await applied(shop, {"targeting_rules": rules})
    turned: dict[str, Any] = {"targeting_rules": {"c": {}, "a": {}}}
    assert paths(await planned(shop, turned)) == {f"targeting_rules.{id}": "update" for id in rules}, "the order"
    await applied(shop, turned)
    assert list((await pulled(shop))["targeting_rules"]) == ["c", "a", "b"]
    assert (await planned(shop, turned))["changes"] == []
    await applied(shop, turned, prune=True)
    assert list((await pulled(shop))["targeting_rules"]) == ["c", "a"]


async def test_an_entitlement_that_customers_hold_is_not_pruned(shop: Shop) -> None:
    await shop.act("purchase", "ann", "pro_monthly")
    done = await applied(shop, {"entitlements": {}}, prune=True)
    assert "Detach the products first" in {one["path"]: one["reason"] for one in done["left_alone"]}["entitlements.pro"]
    assert await holds(shop, "ann") == {"pro"}


async def test_a_plan_is_applied_exactly_or_not_at_all(shop: Shop) -> None:
    config = {"entitlements": {"max": {}, "pro": {"display_name": "All of it"}}}
    plan = await planned(shop, config)
    await post(shop, "entitlements", {"id": "max", "lookup_key": "max", "display_name": "max"})
    await applied(shop, {"entitlements": {"max": {"display_name": "max"}}})
    reply = await post(shop, "config/apply", {"config": config, "fingerprint": plan["fingerprint"]})
    assert (reply.status, "plan again" in reply.json()["message"]) == (409, True), reply
    assert (await pulled(shop))["entitlements"]["pro"]["display_name"] != "All of it"


async def test_every_change_is_in_the_audit_log_with_the_name_of_the_key(shop: Shop) -> None:
    await applied(shop, {"entitlements": {"max": {}}, "products": {"pro_monthly": {"entitlement_ids": ["max"]}}})
    async with shop.database.acquire() as connection:
        rows = await connection.fetch(
            "select action, subject, outcome, actor from audit_entries order by position desc limit 3"
        )
    assert {(row["action"], row["subject"], row["outcome"]) for row in rows} == {
        ("config.applied", "config", "done"),
        ("entitlement.created", "max", "done"),
        ("product.updated", "pro_monthly", "done"),
    }
    assert len({row["actor"] for row in rows}) == 1


async def test_packages_are_in_the_order_of_the_file(shop: Shop) -> None:
    def offering(*names: str) -> Any:
        return {"offerings": {"new": {"packages": {name: {} for name in names}}}}

    await applied(shop, offering("a", "b", "c"))
    for names, order in ((("c", "b", "a"), "cba"), (("n", "b"), "nbca"), (("a",), "anbc")):
        await applied(shop, offering(*names))
        assert "".join((await pulled(shop))["offerings"]["new"]["packages"]) == order
        assert (await planned(shop, offering(*names)))["changes"] == []


async def test_an_experiment_keeps_its_weights_and_gets_other_offerings(shop: Shop) -> None:
    first = {"experiments": {"e": {"name": "E", "variants": {"a": {"weight": 1}, "b": {"weight": 2}}}}}
    await applied(shop, first)
    other = {"experiments": {"e": {"variants": {"b": {"offering": "default"}}}}}
    assert paths(await applied(shop, other)) == {"experiments.e": "update"}
    assert (await planned(shop, other))["changes"] == []
    heavier = {"experiments": {"e": {"variants": {"b": {"weight": 3}}}}}
    await refused(shop, heavier, "experiments.e.variants")


async def test_two_applied_at_once_do_not_mix(shop: Shop) -> None:
    wanted = [{"entitlements": {"max": {"display_name": name}}} for name in ("one", "two")]
    first, second = await asyncio.gather(*(applied(shop, config) for config in wanted))
    assert {paths(first)["entitlements.max"], paths(second)["entitlements.max"]} == {"create", "update"}


async def test_a_destination_is_a_webhook_whose_secret_settings_are_hidden(shop: Shop) -> None:
    address = "https://hooks.slack.com/services/hush"
    config = {"webhooks": {"team": {"destination": {"preset": "slack", "settings": {"webhook_url": "${SLACK_URL}"}}}}}
    path = "webhooks.team.destination.settings.webhook_url"
    await refused(shop, config, path)
    literal = {"webhooks": {"team": {"destination": {"preset": "slack", "settings": {"webhook_url": address}}}}}
    assert b"hush" not in (await refused(shop, literal, path)).body
    await refused(shop, {"webhooks": {"team": {"destination": {"preset": "none"}}}}, "webhooks.team.destination.preset")

    done = await applied(shop, config, variables={"SLACK_URL": address})
    hidden = {"preset": "slack", "settings": {"webhook_url": "(hidden)"}}
    assert fields(done, "webhooks.team")["destination"] == (None, hidden)
    assert (await planned(shop, config, variables={"SLACK_URL": address}))["changes"] == []
    entry = (await pulled(shop))["webhooks"]["team"]
    assert (entry["destination"], "url" in entry) == ({"preset": "slack", "settings": {}}, False)
    assert (await planned(shop, {"webhooks": {"team": entry}}, prune=True))["changes"] == []
    changed = await planned(shop, config, variables={"SLACK_URL": f"{address}2"})
    assert fields(changed, "webhooks.team") == {"destination": (hidden, hidden)}


async def test_a_file_that_refers_to_what_it_deletes_is_refused(shop: Shop) -> None:
    config = {"products": {}, "offerings": {"new": {"packages": {"p": {"products": {"pro_monthly": "all"}}}}}}
    await refused(shop, config, "offerings.new.packages.p.products", prune=True)
    assert (await planned(shop, config))["changes"]
