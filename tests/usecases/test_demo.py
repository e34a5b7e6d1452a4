"""The demo project: what its apps show in each pretend store."""

from __future__ import annotations

from latchkey.domain.storefront import AskingApp, Storefront
from latchkey.storage.database import Database
from latchkey.usecases.catalog.offerings import load_storefront
from latchkey.usecases.catalog.products import delete_product
from latchkey.usecases.engine.changes import Changes
from latchkey.usecases.sandbox.demo import PROJECT_ID, STORE_APPS, ensure_demo, ensure_store_app

NOW = 1_800_000_000_123


async def shown(changes: Changes, store: str) -> Storefront:
    app_id, _, store_name = STORE_APPS[store]
    return await load_storefront(changes, PROJECT_ID, AskingApp(app_id, store_name), "ada")


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
        ("$rc_lifetime", "pro_lifetime", None),
    ]
    assert [(one.identifier, one.product_id, one.plan_id) for one in ios.offerings[0].packages] == [
        ("$rc_monthly", "pro_monthly", None),
        ("$rc_annual", "pro_yearly", None),
        ("$rc_lifetime", "pro_lifetime", None),
    ]
    assert android.left_out == ios.left_out == ()


async def test_what_was_deleted_from_the_demo_stays_deleted(database: Database) -> None:
    await ensure_demo(database, NOW, secret_key=None, public_key=None)
    await ensure_store_app(database, NOW, "google", None)
    await delete_product(database, PROJECT_ID, "pro_yearly:yearly", NOW)
    await ensure_store_app(database, NOW, "google", None)
    android = await shown(Changes(database, lambda: NOW), "google")
    assert [one.identifier for one in android.offerings[0].packages] == ["$rc_monthly", "$rc_lifetime"]
