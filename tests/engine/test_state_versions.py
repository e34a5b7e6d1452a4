"""Customers whose stored state is of another version than the one this code writes."""

import asyncio

from latchkey.database.errors import StateVersionError
from latchkey.database.pool import Database
from latchkey.engine.storage.state import VERSION, decode, encode
from tests.domain.shop import someone
from tests.http.client import Shop


async def states(database: Database) -> dict[str, bytes]:
    return {row["app_user_id"]: row["state"] for row in await database.pool.fetch("select * from customers")}


async def put(database: Database, app_user_id: str, state: bytes) -> None:
    await database.pool.execute("update customers set state = $2 where app_user_id = $1", app_user_id, state)


async def test_a_row_of_a_newer_version_fails_its_own_requests_and_stays_as_it_is(shop: Shop) -> None:
    await shop.act("purchase", "ann", "pro_monthly")
    newer = encode(someone()).replace(b'{"v":%d,' % VERSION, b'{"v":99,"soul":1,')
    await put(shop.database, "ann", newer)
    for reply in (await shop.v1("ann"), await shop.v2("ann")):
        assert reply.status == 500
        assert b"version" not in reply.body, reply
    assert (await states(shop.database))["ann"] == newer


async def test_changes_of_others_in_the_same_batch_go_through(shop: Shop) -> None:
    await shop.note("ann", color="red")
    await put(shop.database, "ann", encode(someone()).replace(b'{"v":%d,' % VERSION, b'{"v":99,'))
    refused, *done = await asyncio.gather(
        *(shop.note(name, color="blue") for name in ("ann", "bob", "cleo")), return_exceptions=True
    )
    assert isinstance(refused, StateVersionError)
    assert done == [None, None]
    stored = await states(shop.database)
    assert stored["ann"].startswith(b'{"v":99,')
    assert decode(stored["bob"]).attributes["color"].value == "blue"
