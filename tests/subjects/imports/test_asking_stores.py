"""After an import the stores are asked: what the file told already is not told again, and what it lacked is."""

from pathlib import Path

import pytest

from latchkey.domain.instants import DAY, HOUR, Duration, Ms, add, to_iso
from latchkey.subjects.imports.usecases.runs import ImportOrder, run_import
from tests.stores.conftest import apple as apple
from tests.stores.conftest import google as google
from tests.stores.world import PROJECT, World
from tests.subjects.imports.vendor_rows import file_of, row


def written(at: Ms | None) -> str:
    return "" if at is None else to_iso(at).replace("T", " ").rstrip("Z")


async def imported(world: World, folder: Path, **cells: str) -> None:
    file = folder / "export.csv"
    file.write_text(file_of([row(updated_at=written(world.now), **cells)]))
    order = ImportOrder(project_id=PROJECT, format="revenuecat", files=(file,))
    result = await run_import(world.database, order, lambda: world.now)
    assert result.counts["to ask the stores about"] == 1


@pytest.fixture
async def silent(google: World) -> World:
    """Nothing that Google sends arrives."""
    google.store.misbehave(drop=1.0)
    return google


async def test_google_gives_the_token_of_the_last_order(silent: World, tmp_path: Path) -> None:
    world = silent
    token = world.store.sell(product_id="pro_monthly:monthly", buyer="ada")
    purchase = world.store.books.purchases[token]
    [order] = purchase.orders
    await imported(
        world,
        tmp_path,
        store="play_store",
        product_identifier="pro_monthly:monthly",
        store_transaction_id=order.id,
        original_store_transaction_id=order.id,
        start_time=written(order.starts_at),
        end_time=written(order.ends_at),
        effective_end_time=written(order.ends_at),
        is_sandbox="true" if purchase.test else "false",
    )
    await world.move(world.now + HOUR)
    rows = await world.database.pool.fetch(
        "select handle, store_id, check_at from store_handles order by first_seen_at"
    )
    assert [(one["handle"], one["store_id"], one["check_at"] is None) for one in rows] == [
        (order.id, order.id, True),
        (token, order.id, False),
    ]
    assert await world.types("ada") == []
    await world.move(world.now + 32 * DAY, every=DAY)
    assert await world.types("ada") == ["RENEWAL"]
    ada = await world.owner(order.id)
    assert [one.id for one in ada.subscriptions[0].periods] == [order.id, f"{order.id}..0"]


async def test_apple_is_asked_with_the_original_transaction(apple: World, tmp_path: Path) -> None:
    world = apple
    world.store.misbehave(drop=1.0)
    id = world.store.sell(product_id="pro_monthly", buyer="ada")
    begin = world.now
    end = add(begin, Duration(months=1))
    await world.move(begin + 40 * DAY)
    # The file is from before the renewal.
    await imported(
        world,
        tmp_path,
        store_transaction_id=id,
        original_store_transaction_id=id,
        start_time=written(begin),
        end_time=written(end),
        effective_end_time=written(end),
    )
    assert await world.types("ada") == []
    await world.move(world.now + HOUR)
    assert await world.types("ada") == ["RENEWAL"]
