"""Pages of a project's feed: each event once, in order, over all partitions."""

from __future__ import annotations

import pytest
from msgspec import json

from latchkey.domain.refusal import NotFound
from latchkey.storage.deliveries import parts
from latchkey.usecases.events.feed import page_of_events
from tests.usecases.conftest import Shop


async def test_pages_follow_each_other_over_partitions_up_to_the_newest_event(shop: Shop) -> None:
    await bought_in_parts(shop, 0, 1, 1000, 2000)
    whole = (await page_of_events(shop.database, shop.project_id, after=None, limit=100)).bodies
    assert len(whole) == 8
    assert await shop.database.pool.fetchval("select count(distinct tableoid) from events") == 3
    for limit in (1, 3, 8):
        read: list[bytes] = []
        after = None
        while True:
            page = await page_of_events(shop.database, shop.project_id, after=after, limit=limit)
            read += page.bodies
            assert page.more is (len(read) < len(whole))
            if not page.more:
                break
            after = id_of(page.bodies[-1])
        assert read == whole
    end = await page_of_events(shop.database, shop.project_id, after=id_of(whole[-1]), limit=3)
    assert (end.bodies, end.more) == ([], False)
    with pytest.raises(NotFound, match="start after"):
        await page_of_events(shop.database, shop.project_id, after="evt_nobody", limit=3)


async def test_an_event_that_is_in_another_part_than_before_is_found(shop: Shop) -> None:
    """As after a restore, for a process that did not stop."""
    await bought_in_parts(shop, 0, 1000)
    whole = (await page_of_events(shop.database, shop.project_id, after=None, limit=100)).bodies
    last = id_of(whole[-1])
    assert await after_event(shop, whole[-2], limit=2) == [whole[-1]]
    assert await after_event(shop, whole[-1], limit=2) == []
    await shop.database.pool.execute("update events set part = 0 where project_id = $1", shop.project_id)
    assert await after_event(shop, whole[-2], limit=2) == [whole[-1]]
    assert await after_event(shop, whole[-1], limit=2) == []
    await shop.database.pool.execute("delete from events where project_id = $1 and id = $2", shop.project_id, last)
    with pytest.raises(NotFound, match="start after"):
        await after_event(shop, whole[-1], limit=2)


async def bought_in_parts(shop: Shop, *numbers: int) -> None:
    """Two events in each of these parts."""
    for part in numbers:
        if part:
            await parts.open_part(shop.database, part, shop.time)
        await shop.act("purchase", f"user{part}", "pro_monthly")
        await shop.act("renew", f"user{part}")


async def after_event(shop: Shop, body: bytes, limit: int) -> list[bytes]:
    return (await page_of_events(shop.database, shop.project_id, after=id_of(body), limit=limit)).bodies


def id_of(body: bytes) -> str:
    found: str = json.decode(body)["id"]
    return found
