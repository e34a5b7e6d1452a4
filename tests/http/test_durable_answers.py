"""Counting requests for the rate limit waits for no disk and no standby (`synchronous_commit = off`). Whatever else is
written is answered only after a commit that waits for both, as the server is configured."""

import asyncpg
from msgspec import json

from latchkey.database.pool import Database
from tests.http.client import Shop
from tests.http.doings import unhurried
from tests.http.fixtures import opened
from tests.http.routes import routes_of, settle

# Notes how each statement that writes into a lasting table will be committed.
WATCH = """
create unlogged table written (place text, level text);
create function note() returns trigger language plpgsql as $$
begin
    insert into written values (tg_table_name, current_setting('synchronous_commit'));
    return null;
end $$;
do $$ declare one record; begin
    for one in select relname from pg_class
        where relkind in ('r', 'p') and relpersistence = 'p' and not relispartition
            and relnamespace = 'public'::regnamespace
    loop
        execute format(
            'create trigger note after insert or update or delete on %I execute function note()', one.relname
        );
    end loop;
end $$;
"""
# What the paid and the granted depend on.
MATTERS = {"customers", "events", "purchase_owners", "currency_transactions", "deliveries", "lanes", "api_keys"}


async def visit_all(shop: Shop) -> None:
    await unhurried(shop)
    names = await settle(shop)
    ordered = sorted(routes_of(shop), key=lambda one: (one.method == "DELETE", -len(one.template)))
    for number, route in enumerate(ordered):
        body = json.encode(route.body) if route.takes_body else b""
        await shop.client.request(route.method, route.path(names) + route.query, body=body)
        if number % 20:
            continue
        # Keys with leases count differently; read and buy with both.
        await shop.client.post(
            "/v1/receipts", {"app_user_id": "eve", "fetch_token": f"test_{number}_e"}, key=shop.public
        )
        await shop.v1("eve")


async def test_what_is_answered_was_committed_as_the_server_is_told_to(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    # The tests' server itself has it off.
    name = await connection.fetchval("select current_database()")
    await connection.execute(f"alter database {name} set synchronous_commit = on")
    await connection.execute(WATCH)
    # What a leak would look like.
    async with connection.transaction():
        await connection.execute("set local synchronous_commit = on")
        await connection.fetch("select take_requests('key_1', 1, 10)")
        await connection.execute("update projects set name = name")
    assert await connection.fetchval("delete from written returning level") == "off"
    async with Database(database_url) as database, opened(database) as shop:
        await shop.client.post(
            "/v2/projects/proj_demo/integrations/webhooks", {"name": "x", "url": "https://a.example"}
        )
        await visit_all(shop)
        for held in (database.at_hand(), database.acquire()):
            async with held as used:
                assert await used.fetchval("show synchronous_commit") == "on"
    found = await connection.fetch("select place, array_agg(distinct level) as levels from written group by place")
    await connection.close()
    assert {row["place"] for row in found} >= MATTERS
    assert {row["place"]: row["levels"] for row in found if row["levels"] != ["on"]} == {}
