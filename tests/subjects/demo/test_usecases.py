"""The demo project: its keys, its catalog, and what its apps show in each store emulator."""

import hashlib
import re

import pytest
from msgspec import UNSET

from latchkey.database.pool import Database
from latchkey.engine.changes import Changes
from latchkey.engine.storage.catalog import app_rows as projects_rules
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.catalog.usecases.product_catalog import delete_product
from latchkey.subjects.demo.usecases.project import (
    APP_ID,
    PROJECT_ID,
    STORE_APPS,
    add_catalog,
    ensure_demo,
    ensure_store_app,
)
from latchkey.subjects.offerings.rules import AskingApp, Storefront
from latchkey.subjects.offerings.usecases import load_storefront
from latchkey.subjects.projects import usecases as projects

NOW = 1_800_000_000_000


@pytest.fixture
async def project(database: Database) -> projects_rules.Project:
    return await projects.create_project(database, "Shop", NOW)


async def test_a_secret_key_is_kept_only_as_its_hash(database: Database, project: projects_rules.Project) -> None:
    issued = await keys.create_secret_key(database, project.id, "server", NOW)
    assert re.fullmatch(r"sk_[A-Za-z0-9]{32}", issued.plaintext)
    assert issued.key.hint == f"sk_…{issued.plaintext[-4:]}"
    assert (issued.key.kind, issued.key.scopes, issued.key.rate_limit) == ("secret", ("read", "write"), 480)
    assert issued.plaintext not in repr(issued)
    row = await database.pool.fetchrow("select * from api_keys where id = $1", issued.key.id)
    assert row is not None
    assert row["hash"] == hashlib.sha256(issued.plaintext.encode()).digest()
    assert not any(issued.plaintext in str(value) for value in row.values())


async def test_the_demo_is_made_once_and_keeps_its_good_keys(database: Database) -> None:
    made = await ensure_demo(database, NOW, secret_key=None, public_key=None)
    again = await ensure_demo(database, NOW + 1, secret_key=made.secret_key, public_key=made.public_key)
    assert (made.new, again.new) == (True, False)
    assert (again.secret_key, again.public_key) == (made.secret_key, made.public_key)
    assert len(await keys.list_keys(database, PROJECT_ID)) == 2
    lost = await ensure_demo(database, NOW + 2, secret_key="sk_forged", public_key=made.public_key)
    assert lost.secret_key not in ("sk_forged", made.secret_key)
    assert lost.public_key == made.public_key


async def test_the_demos_catalog_is_the_documented_one(database: Database) -> None:
    await ensure_demo(database, NOW, secret_key=None, public_key=None)
    await add_catalog(database, PROJECT_ID, NOW + 1)
    async with database.acquire() as connection:
        rows = await connection.fetch(
            """select p.id, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency, p.credits_code,
                      p.credits_amount, array(select entitlement_id from product_entitlements g
                                              where g.product_id = p.id order by 1) as grants
               from products p where project_id = $1 order by id""",
            PROJECT_ID,
        )
        apps = await projects.list_apps(database, PROJECT_ID)
    assert [tuple(row) for row in rows] == [
        ("coins_100", "one_time", None, None, 1_990_000, "USD", "COIN", 100, []),
        ("pro_lifetime", "one_time", None, None, 199_990_000, "USD", None, None, ["pro"]),
        ("pro_monthly", "subscription", "P1M", "P7D", 9_990_000, "USD", None, None, ["pro"]),
        ("pro_yearly", "subscription", "P1Y", None, 79_990_000, "USD", None, None, ["pro"]),
        ("team_monthly", "subscription", "P1M", None, 29_990_000, "USD", None, None, ["pro", "team"]),
    ]
    assert [(app.id, app.store) for app in apps] == [(APP_ID, "test_store")]


async def test_what_was_taken_out_of_the_demos_catalog_stays_out(database: Database) -> None:
    await ensure_demo(database, NOW, secret_key=None, public_key=None)
    await database.pool.execute("delete from products where id = 'coins_100'")
    await ensure_demo(database, NOW + 1, secret_key=None, public_key=None)
    assert await database.pool.fetchval("select count(*) from products") == 4


async def shown(changes: Changes, store: str) -> Storefront:
    app_id, _, store_name = STORE_APPS[store]
    return await load_storefront(changes, PROJECT_ID, AskingApp(app_id, store_name), "ada", 0)


async def test_the_demos_android_app_shows_base_plans_and_the_others_do_not(database: Database) -> None:
    await ensure_demo(database, NOW, secret_key=None, public_key=None)
    for store in STORE_APPS:
        await ensure_store_app(database, NOW, store, None)
    changes = Changes(database, lambda: NOW)
    android, ios = await shown(changes, "google"), await shown(changes, "apple")
    assert (android.current, ios.current) == ("default", "default")
    assert [(one.identifier, one.product_id, one.plan_id) for one in android.offerings[0].packages] == [
        ("$rc_monthly", "pro_monthly", "monthly"),
        ("$rc_annual", "pro_yearly", "yearly"),
        ("$rc_lifetime", "pro_lifetime", UNSET),
    ]
    assert [(one.identifier, one.product_id, one.plan_id) for one in ios.offerings[0].packages] == [
        ("$rc_monthly", "pro_monthly", UNSET),
        ("$rc_annual", "pro_yearly", UNSET),
        ("$rc_lifetime", "pro_lifetime", UNSET),
    ]
    assert android.left_out == ios.left_out == ()


async def test_what_was_deleted_from_the_demo_stays_deleted(database: Database) -> None:
    await ensure_demo(database, NOW, secret_key=None, public_key=None)
    await ensure_store_app(database, NOW, "google", None)
    await delete_product(database, PROJECT_ID, "pro_yearly:yearly", NOW)
    await ensure_store_app(database, NOW, "google", None)
    android = await shown(Changes(database, lambda: NOW), "google")
    assert [one.identifier for one in android.offerings[0].packages] == ["$rc_monthly", "$rc_lifetime"]
