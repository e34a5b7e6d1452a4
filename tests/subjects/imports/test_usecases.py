"""An import from the files to the customers: once, again, interrupted, dry, beside customers who exist already."""

from typing import Any

import asyncpg
import pytest
from msgspec import json

from latchkey.database.errors import OutageError
from latchkey.database.pool import connect
from latchkey.domain.customers.identity import ERASED as ERASED_ID
from latchkey.domain.instants import DAY, MINUTE
from latchkey.domain.money.pinned_rates import REFERENCE
from latchkey.domain.refusal import Conflict, Invalid
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.customers.usecases.identities import log_in
from latchkey.subjects.imports import storage as runs
from latchkey.subjects.imports.usecases import apply as applying
from latchkey.subjects.imports.usecases import runs as running
from latchkey.subjects.imports.usecases.staging import NO_CURRENCY
from latchkey.subjects.money import usecases as rates
from latchkey.subjects.offerings.usecases import create_offering
from latchkey.subjects.projects.usecases import create_app
from latchkey.subjects.test_clocks.usecases import create_clock, create_customer
from tests.connections import connected
from tests.domain.shop import CATALOG
from tests.patience import until
from tests.subjects.imports.conftest import Desk
from tests.subjects.imports.own_rows import transactions_of
from tests.subjects.imports.vendor_rows import file_of, month, row

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


async def count(desk: Desk, table: str) -> int:
    found: int = await desk.database.pool.fetchval(f"select count(*) from {table}")
    return found


# Again.


async def test_the_same_file_again_is_recognised_and_changes_nothing(desk: Desk) -> None:
    first = await desk.take(file_of([month("ada"), month("bob")]))
    before = await desk.database.pool.fetch("select * from customers order by id")
    renamed = desk.file(file_of([month("ada"), month("bob")]), "other.csv")
    again = await desk.take(renamed)
    assert (again.run_id, again.known_since) == (first.run_id, desk.shop.time)
    assert await desk.database.pool.fetch("select * from customers order by id") == before


async def test_again_means_again_and_still_changes_nothing(desk: Desk) -> None:
    await desk.take(file_of([month("ada"), month("bob")]))
    before = await desk.database.pool.fetch("select * from customers order by id")
    again = await desk.take(file_of([month("ada"), month("bob")]), again=True)
    assert (again.known_since, again.counts["known customers"]) == (None, 2)
    assert await desk.database.pool.fetch("select * from customers order by id") == before


async def test_a_newer_file_adds_what_is_new(desk: Desk) -> None:
    await desk.take(file_of([month("ada")]))
    cancelled = month("ada", unsubscribe_detected_at="2026-01-09 09:00:00", updated_at="2026-01-09 09:00:00")
    await desk.take(file_of([cancelled, month("bob")]))
    ada = await desk.customer("ada")
    assert not ada.subscriptions[0].status.auto_renew
    assert await count(desk, "customers") == 2
    assert await desk.shop.told(None) == []


# Interrupted.


class Killed(Exception):
    pass


@pytest.mark.parametrize("batches", [0, 1, 3])
async def test_an_interrupted_import_goes_on_where_it_stopped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    monkeypatch.setattr(running, "AT_ONCE", 7)
    people = [f"user{number:02}" for number in range(20)]
    text = file_of([month(one) for one in people] + [row(start_time="never")])
    seen: list[int] = []

    def dying(stage: str, done: int, total: int) -> None:
        if stage == running.WRITING:
            seen.append(done)
            if len(seen) > batches:
                raise Killed

    path = desk.file(text)
    order = running.ImportOrder(project_id=desk.shop.project_id, format="revenuecat", files=(path,))
    with pytest.raises(Killed):
        await running.run_import(desk.database, order, lambda: desk.shop.time, dying)
    assert (await count(desk, "customers") > 0) == (batches > 0)
    result = await desk.take(path)
    assert result.resumed_at == seen[-1]
    assert result.counts["new customers"] == 20
    found = await desk.database.pool.fetch("select app_user_id from aliases order by app_user_id")
    assert [one["app_user_id"] for one in found] == people
    assert await count(desk, "purchase_owners") == 20
    assert await count(desk, "import_rows") == 0
    assert [(one.line, one.reason) for one in desk.skipped] == [(22, _not_a_date("start_time"))]


def _not_a_date(name: str) -> str:
    return f"{name} is not a date such as 2026-01-31T08:00:00.000Z."


async def test_rows_that_a_crash_of_the_database_took_away_are_read_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "AT_ONCE", 5)
    path = desk.file(file_of([month(f"user{number:02}") for number in range(9)]))

    def dying(stage: str, done: int, total: int) -> None:
        if stage == running.WRITING and done:
            raise Killed

    order = running.ImportOrder(project_id=desk.shop.project_id, format="revenuecat", files=(path,))
    with pytest.raises(Killed):
        await running.run_import(desk.database, order, lambda: desk.shop.time, dying)
    # What PostgreSQL does with unlogged tables after a crash.
    await desk.database.pool.execute("truncate import_rows, import_ids")
    result = await desk.take(path)
    assert result.counts["new customers"] == 9
    assert await count(desk, "customers") == 9


async def test_an_erasure_leaves_nobody_in_an_import_that_was_stopped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "AT_ONCE", 5)
    text = file_of([month(f"user{number:02}") for number in range(9)])

    def stopped(stage: str, done: int, total: int) -> None:
        if stage == running.WRITING and done:
            raise Killed

    order = running.ImportOrder(project_id=desk.shop.project_id, format="revenuecat", files=(desk.file(text),))
    with pytest.raises(Killed):
        await running.run_import(desk.database, order, lambda: desk.shop.time, stopped)
    staged = await count(desk, "import_rows")
    async with connected(connect(desk.database.url)) as other:
        # While an import runs, its rows are its own.
        await until(lambda: runs.take_turn(other, desk.shop.project_id))
        await erase(desk.shop.changes, desk.shop.project_id, "user00")
        assert await count(desk, "import_rows") == staged > 0
    await erase(desk.shop.changes, desk.shop.project_id, "user01")
    assert [await count(desk, table) for table in ("import_rows", "import_ids")] == [0, 0]
    assert (await desk.take(text)).counts["new customers"] == 9
    found = await desk.database.pool.fetch("select app_user_id from aliases order by app_user_id")
    assert [one["app_user_id"] for one in found] == [f"user{number:02}" for number in range(2, 9)]


async def test_a_full_disk_says_what_to_do_and_the_import_goes_on_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> bool:
        raise asyncpg.DiskFullError("could not extend file: No space left on device")

    text = file_of([month("ada")])
    with monkeypatch.context() as patched:
        patched.setattr(runs, "advance", full)
        with pytest.raises(OutageError, match="No space left on device"):
            await desk.take(text)
    assert await count(desk, "customers") == 0
    assert (await desk.take(text)).counts["new customers"] == 1


async def test_only_one_import_runs_in_a_project(desk: Desk) -> None:
    async with connected(connect(desk.database.url)) as other:
        assert await runs.take_turn(other, desk.shop.project_id)
        with pytest.raises(Conflict, match="Another import into this project is running"):
            await desk.take(file_of([month("ada")]))
    await desk.take(file_of([month("ada")]))


async def test_an_import_that_is_refused_while_it_reads_leaves_no_trace(desk: Desk) -> None:
    lines = '{"app_user_id": "ada"}\n{"app_user_id": ""}\n{"app_user_id": "bob", "shoe_size": 43}\n'
    path = desk.file(lines, "customers.jsonl")
    with pytest.raises(Invalid, match="shoe_size"):
        await desk.take(path, format="latchkey")
    tables = ("imports", "import_rows", "import_ids", "import_skips", "customers")
    assert [await count(desk, table) for table in tables] == [0, 0, 0, 0, 0]


# Dry.


async def test_a_dry_run_says_what_would_happen_and_writes_nothing(desk: Desk) -> None:
    await desk.shop.act("purchase", "bob", "pro_monthly")
    text = file_of([month("ada"), month("bob"), row(store="promotional", entitlement_identifiers="['gold']")])
    tables = ("customers", "aliases", "purchase_owners", "store_handles", "imports", "import_rows", "import_skips")
    before = [await desk.database.pool.fetch(f"select * from {table}") for table in tables]
    result = await desk.take(text, dry=True)
    assert (result.counts["new customers"], result.counts["known customers"]) == (1, 1)
    assert result.skipped == {"There is no entitlement 'gold' in this project. Create it first.": 1}
    assert [await desk.database.pool.fetch(f"select * from {table}") for table in tables] == before
    assert [one.line for one in desk.skipped] == [4]
    assert (await desk.take(text)).known_since is None


# What is told.


async def test_with_webhooks_the_past_is_told_once(desk: Desk) -> None:
    text = file_of([month("ada", end_time="2026-01-08 08:00:00"), month("bob")])
    await desk.take(text, told=True)
    assert await desk.shop.told("ada") == ["INITIAL_PURCHASE", "EXPIRATION"]
    assert await desk.shop.told("bob") == ["INITIAL_PURCHASE"]
    await desk.take(text, told=True, again=True)
    assert len(await desk.shop.told(None)) == 3


async def test_what_ended_before_is_not_told_and_what_ends_later_is(desk: Desk) -> None:
    over = month("ada", end_time="2026-01-08 08:00:00")
    await desk.take(file_of([over, month("bob", unsubscribe_detected_at="2026-01-08 08:00:00")]))
    assert await desk.shop.told(None) == []
    await desk.shop.wait(30 * DAY)
    assert await desk.shop.told(None) == ["EXPIRATION"]


# Customers who exist already.


async def test_a_known_customer_gets_the_older_id_and_the_purchases(desk: Desk) -> None:
    await log_in(desk.shop.changes, desk.shop.project_id, ANONYMOUS.replace("a", "b"), "ada")
    await desk.take(file_of([month(ANONYMOUS, rc_last_seen_app_user_id_alias="ada")]))
    ada = await desk.customer("ada")
    assert ada == await desk.customer(ANONYMOUS)
    assert ada.original_app_user_id == ANONYMOUS
    assert [one.id for one in ada.subscriptions] == [f"{ANONYMOUS}-1"]
    assert await count(desk, "customers") == 1


async def test_a_purchase_that_somebody_else_owns_here_stays_there(desk: Desk) -> None:
    await desk.take(file_of([month("ada")]))
    renewal = {
        "store_transaction_id": "later",
        "original_store_transaction_id": "ada-1",
        "start_time": "2026-02-01 08:00:00",
        "end_time": "2026-03-01 08:00:00",
        "renewal_number": "2",
    }
    desk.shop.time += 30 * DAY
    await desk.take(file_of([month("bob", **renewal), month("bob", 2)]))
    ada, bob = await desk.customer("ada"), await desk.customer("bob")
    assert [one.id for one in ada.subscriptions[0].periods] == ["ada-1", "later"]
    assert [one.id for one in bob.subscriptions] == ["bob-2"]


async def test_a_purchase_of_nobody_in_particular_goes_to_whom_the_file_names(desk: Desk) -> None:
    await desk.take(file_of([month(ANONYMOUS)]))
    named = month("ada", store_transaction_id=f"{ANONYMOUS}-1", original_store_transaction_id=f"{ANONYMOUS}-1")
    await desk.take(file_of([named]))
    assert await desk.customer("ada") == await desk.customer(ANONYMOUS)


async def test_a_purchase_of_an_erased_customer_is_not_brought_back(desk: Desk) -> None:
    await desk.take(file_of([month("ada")]))
    await erase(desk.shop.changes, desk.shop.project_id, "ada")
    await desk.take(file_of([month("ada"), month("ada", 2)]))
    assert [(one.line, one.reason) for one in desk.skipped] == [(2, applying.ERASED)]
    ada = await desk.customer("ada")
    assert [one.id for one in ada.subscriptions] == ["ada-2"]
    assert ERASED_ID not in ada.aliases


async def test_an_id_that_somebody_else_has_here_is_left_out_and_reported(desk: Desk) -> None:
    await desk.take(file_of([month("ada"), month("bob")]))
    await desk.take(file_of([month("ada", 2, rc_last_seen_app_user_id_alias="bob")]))
    assert [one.reason for one in desk.skipped] == [applying.TAKEN_ID]
    assert await desk.customer("ada") != await desk.customer("bob")


async def test_a_customer_on_a_test_clock_is_left_alone(desk: Desk) -> None:
    shop = desk.shop
    await create_clock(shop.database, shop.project_id, "clk_1", "clock", shop.time, shop.time)
    await create_customer(shop.changes, shop.project_id, "ada", "clk_1")
    await desk.take(file_of([month("ada")]))
    assert [one.reason for one in desk.skipped] == [applying.ON_TEST_CLOCK]


# Rows that belong together.


async def test_the_newest_row_of_a_purchase_says_who_owns_it(desk: Desk) -> None:
    chain = {"original_store_transaction_id": "chain"}
    old = month("ada", **chain)
    new = month(
        "bob",
        start_time="2026-02-01 08:00:00",
        end_time="2026-03-01 08:00:00",
        updated_at="2026-01-09 08:00:00",
        renewal_number="2",
        **chain,
    )
    desk.shop.time += 30 * DAY
    for rows in ([old, new], [new, old]):
        await desk.take(file_of(rows), again=True)
    bob, ada = await desk.customer("bob"), await desk.customer("ada")
    assert [one.id for one in bob.subscriptions[0].periods] == ["ada-1", "bob-1"]
    assert ada.subscriptions == ()


async def test_of_several_files_the_newest_row_counts(desk: Desk) -> None:
    refunded = month(
        "ada",
        refunded_at="2026-01-05 08:00:00",
        effective_end_time="2026-01-05 08:00:00",
        price_in_usd="0",
        price_in_purchased_currency="0",
        updated_at="2026-01-05 08:00:00",
    )
    await desk.take(file_of([refunded]), file_of([month("ada"), month("bob")]))
    ada = await desk.customer("ada")
    assert ada.subscriptions[0].current.refunded_at is not None


# The own format.


async def test_customers_with_ids_attributes_and_balances(desk: Desk) -> None:
    customers = {
        "app_user_id": "ada",
        "original_app_user_id": ANONYMOUS,
        "aliases": [ANONYMOUS, "ada@home", "ada"],
        "attributes": {"$email": {"value": "Ada@Example.com", "updated_at_ms": 1_767_225_600_000}},
        "first_seen_at": "2025-06-01T00:00:00.000Z",
        "last_seen_at": "2026-01-02T00:00:00.000Z",
        "last_seen_platform": "iOS",
        "balances": {"COIN": 70, "OTHER": 1},
    }
    bought = {
        "app_user_id": "ada@home",
        "store": "paddle",
        "transaction_id": "txn_1",
        "product_id": "pro_lifetime",
        "purchased_at": "2025-12-01T00:00:00.000Z",
        "price": "99.990001",
        "currency": "EUR",
    }
    lines = "\n".join(json.encode(one).decode() for one in (bought, customers))
    result = await desk.take(desk.file(lines, "both.jsonl", gzipped=True), format="latchkey")
    assert result.counts["new customers"] == 1
    ada = await desk.customer("ada@home")
    assert (ada.app_user_id, ada.original_app_user_id) == ("ada", ANONYMOUS)
    assert ada.aliases == (ANONYMOUS, "ada@home", "ada")
    assert dict(ada.balances) == {"COIN": 70}
    assert [(one.line, one.reason) for one in desk.skipped] == [(2, NO_CURRENCY)]
    assert result.counts["attributes and balances left out"] == 1
    assert ada.purchases[0].price.micros == 99_990_001
    found = await desk.database.pool.fetchrow("select * from customers")
    assert found is not None
    assert (found["last_seen_platform"], found["last_seen_at"]) == ("iOS", 1_767_312_000_000)
    assert await desk.database.pool.fetchval("select email from customer_emails") == "ada@example.com"
    moved = await desk.database.pool.fetchrow("select code, amount, balance from currency_transactions")
    assert moved is not None
    assert tuple(moved) == ("COIN", 70, 70)


# What is left out of a row.


@pytest.mark.parametrize("dry", [True, False])
async def test_an_attribute_that_is_not_allowed_is_reported_and_costs_nothing_else(desk: Desk, dry: bool) -> None:
    noted: dict[str, Any] = {'na"me, x': "v", "long": "x" * 501, "nested": {"value": []}, "empty": None, "team": "blue"}
    cells = {"custom_subscriber_attributes": json.encode(noted).decode()}
    # The vendor repeats the attributes in every row of a customer.
    result = await desk.take(file_of([month("ada", **cells), month("ada", 2, **cells), month("bob")]), dry=dry)
    assert [one.line for one in desk.skipped] == [2, 2]
    assert [one.reason.split(":")[1].split(",")[0] for one in desk.skipped] == [
        " its name is too long",
        " its value is too long",
    ]
    assert list(result.skipped.values()) == [1, 1]
    assert (result.counts["attributes and balances left out"], result.counts["subscriptions"]) == (3, 3)
    ada = await desk.find("ada")
    assert (ada is None) == dry
    assert ada is None or {name: one.value for name, one in ada.attributes.items()} == {"team": "blue"}


async def test_more_attributes_than_a_customer_may_have_are_reported(desk: Desk) -> None:
    many = {"app_user_id": "ada", "attributes": {f"name{number}": "x" for number in range(102)}}
    path = desk.file(json.encode(many).decode(), "customers.jsonl")
    result = await desk.take(path, format="latchkey")
    assert [(one.line, "at most 100" in one.reason) for one in desk.skipped] == [(1, True)]
    assert result.counts["attributes and balances left out"] == 2


async def test_a_resumed_import_still_names_unknown_products_and_stores_without_an_app(desk: Desk) -> None:
    path = desk.file(file_of([month("ada", store="roku", product_identifier="nobody_knows")]))

    def dying(stage: str, _done: int, _total: int) -> None:
        if stage == running.WRITING:
            raise Killed

    order = running.ImportOrder(project_id=desk.shop.project_id, format="revenuecat", files=(path,))
    with pytest.raises(Killed):
        await running.run_import(desk.database, order, lambda: desk.shop.time, dying)
    result = await desk.take(path)
    assert result.resumed_at == 0
    assert (result.unknown_products, result.stores_without_app) == (("nobody_knows",), ("roku",))
    assert not [name for name in result.counts if "nobody_knows" in name or "roku" in name]


async def test_a_file_of_the_vendor_without_its_format_gets_a_hint(desk: Desk) -> None:
    with pytest.raises(Invalid, match="Add --format revenuecat"):
        await desk.take(file_of([month("ada")]), format="latchkey")


# Afterwards the stores are asked.


async def test_the_stores_are_asked_in_turn_about_what_runs(desk: Desk) -> None:
    running_ones = [month(f"user{number}") for number in range(3)]
    long_over = month("old", start_time="2025-01-01 08:00:00", end_time="2025-02-01 08:00:00",
                      effective_end_time="2025-02-01 08:00:00")  # fmt: skip
    android = month("zoe", store="play_store", store_transaction_id="GPA.1..0", original_store_transaction_id="GPA.1")
    result = await desk.take(file_of([*running_ones, long_over, android]))
    rows = await desk.database.pool.fetch("select handle, store_id, check_at, last_told_at, app_id from store_handles")
    now = desk.shop.time
    found = {one["handle"]: one["check_at"] and one["check_at"] - now for one in rows}
    assert found == {"user0-1": 200, "user1-1": 400, "user2-1": 600, "old-1": None, "GPA.1..0": 1000}
    assert result.counts["to ask the stores about"] == 4
    assert all(one["last_told_at"] < now - MINUTE for one in rows)


async def test_a_project_with_several_apps_of_a_store_must_say_which(desk: Desk) -> None:
    second = await create_app(desk.database, desk.shop.project_id, "second", "app_store", desk.shop.time)
    with pytest.raises(Invalid, match="has 2 apps in app_store"):
        await desk.take(file_of([month("ada")]))
    assert await count(desk, "imports") == 0
    await desk.take(file_of([month("ada")]), apps={"app_store": second.id})
    ada = await desk.customer("ada")
    assert ada.subscriptions[0].app_id == second.id
    with pytest.raises(Invalid, match="has no app app_9 in app_store"):
        await desk.take(file_of([month("ada")]), apps={"app_store": "app_9"})


# Money.


async def test_a_payment_without_a_rate_of_its_own_gets_the_operators_and_a_missing_one_is_named(desk: Desk) -> None:
    given = "date,currency,usd\n2026-01-01,EUR,1.25\n"
    await rates.take(desk.database, given, "rates.csv", desk.shop.time)
    no_usd = {"purchase_price_in_usd": "", "price_in_usd": ""}
    result = await desk.take(
        file_of([month("ada", **no_usd), month("bob"), month("cleo", purchased_currency="SEK", **no_usd)])
    )
    assert result.currencies_without_rate == ("SEK",)
    found = {user: await desk.customer(user) for user in ("ada", "bob", "cleo")}
    terms = {user: one.subscriptions[0].current.terms for user, one in found.items()}
    assert {user: one.rate and one.rate.usd[:5] for user, one in terms.items() if one is not None} == {
        "ada": "1.25",
        "bob": "1.111",
        "cleo": REFERENCE["SEK"].usd[:5],
    }
    assert {one.tax for one in terms.values() if one is not None} == {0.16}


async def test_the_offering_of_our_own_format_is_kept_if_the_project_has_it(desk: Desk) -> None:
    await create_offering(desk.database, desk.shop.project_id, "spring", "Spring", now=desk.shop.time)
    header = "app_user_id,store,kind,subscription_id,transaction_id,product_id,purchased_at,expires_at,offering"
    when = "2026-01-01T08:00:00.000Z,2026-02-01T08:00:00.000Z"
    lines = [
        header,
        f"ada,app_store,subscription,1,1,pro_monthly,{when},spring",
        f"bob,app_store,subscription,2,2,pro_monthly,{when},anything",
        "ada,app_store,one_time,,3,coins_100,2026-01-02T08:00:00.000Z,,spring",
    ]
    await desk.take("\n".join(lines), format="latchkey")
    ada, bob = await desk.customer("ada"), await desk.customer("bob")
    assert [one.subscriptions[0].current.offering for one in (ada, bob)] == ["spring", None]
    assert ada.purchases[0].offering == "spring"
    # The export writes it, so that the files lead to the same customer.
    assert [one["offering"] for one in transactions_of(ada, CATALOG)] == ["spring", "spring"]
