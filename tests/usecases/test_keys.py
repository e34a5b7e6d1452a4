from __future__ import annotations

import hashlib
import re

import pytest

from latchkey.domain.refusal import Conflict, NotFound, Refusal
from latchkey.storage.database import Database
from latchkey.usecases.access import keys, projects
from latchkey.usecases.sandbox.demo import APP_ID, PROJECT_ID, add_catalog, ensure_demo

NOW = 1_800_000_000_000


@pytest.fixture
async def project(database: Database) -> projects.Project:
    return await projects.create_project(database, "Shop", NOW)


async def test_a_new_project_has_an_id_a_name_and_a_feed(database: Database, project: projects.Project) -> None:
    assert re.fullmatch(r"proj_[0-9a-f]{14}", project.id)
    assert await projects.load_project(database, project.id) == project
    async with database.acquire() as connection:
        assert await connection.fetchval("select position from feeds where project_id = $1", project.id) == 0


async def test_an_id_that_is_taken_and_a_name_that_is_none_are_refused(
    database: Database, project: projects.Project
) -> None:
    with pytest.raises(Conflict):
        await projects.create_project(database, "Other", NOW, project_id=project.id)
    for name in ("", "   ", "x" * 1501, "a\x00b"):
        with pytest.raises(Refusal):
            await projects.create_project(database, name, NOW)


async def test_a_secret_key_is_kept_only_as_its_hash(database: Database, project: projects.Project) -> None:
    issued = await keys.create_secret_key(database, project.id, "server", NOW)
    assert re.fullmatch(r"sk_[A-Za-z0-9]{32}", issued.plaintext)
    assert issued.key.hint == f"sk_…{issued.plaintext[-4:]}"
    assert (issued.key.kind, issued.key.scopes, issued.key.rate_limit) == ("secret", ("read", "write"), 480)
    assert issued.plaintext not in repr(issued)
    async with database.acquire() as connection:
        row = await connection.fetchrow("select * from api_keys where id = $1", issued.key.id)
    assert row is not None
    assert row["hash"] == hashlib.sha256(issued.plaintext.encode()).digest()
    assert not any(issued.plaintext in str(value) for value in row.values())


@pytest.mark.parametrize(
    ("store", "prefix"),
    [
        ("app_store", "appl_"),
        ("play_store", "goog_"),
        ("stripe", "strp_"),
        ("rc_billing", "rcb_"),
        ("test_store", "test_"),
    ],
)
async def test_a_public_key_begins_as_its_apps_store_says(
    database: Database, project: projects.Project, store: str, prefix: str
) -> None:
    app = await projects.create_app(database, project.id, "My app", store, NOW)
    issued = await keys.create_public_key(database, project.id, app.id, "app", NOW)
    assert issued.plaintext.startswith(prefix)
    assert (issued.key.kind, issued.key.app_id) == ("public", app.id)


async def test_a_key_needs_a_project_an_app_known_scopes_and_a_limit(
    database: Database, project: projects.Project
) -> None:
    with pytest.raises(NotFound):
        await keys.create_secret_key(database, "proj_none", "x", NOW)
    with pytest.raises(NotFound):
        await keys.create_public_key(database, project.id, "app_none", "x", NOW)
    with pytest.raises(Refusal, match="read, write"):
        await keys.create_secret_key(database, project.id, "x", NOW, scopes={"admin"})
    with pytest.raises(Refusal, match="read, write"):
        await keys.create_secret_key(database, project.id, "x", NOW, scopes=())
    with pytest.raises(Refusal, match="rate limit"):
        await keys.create_secret_key(database, project.id, "x", NOW, rate_limit=0)
    with pytest.raises(Refusal, match="store"):
        await projects.create_app(database, project.id, "x", "corner_shop", NOW)


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
    async with database.acquire() as connection:
        await connection.execute("delete from products where id = 'coins_100'")
    await ensure_demo(database, NOW + 1, secret_key=None, public_key=None)
    async with database.acquire() as connection:
        assert await connection.fetchval("select count(*) from products") == 4
