"""Pages of a project's feed: each event once, in order, over all partitions."""

from __future__ import annotations

import pytest
from msgspec import json

from latchkey.domain.refusal import NotFound
from latchkey.storage.deliveries import parts
from latchkey.usecases.events.feed import page_of_events
from tests.usecases.conftest import Shop


async def test_pages_follow_each_other_over_partitions_up_to_the_newest_event(shop: Shop) -> None:
    for number, part in enumerate((None, 1, 1000, 2000)):
        if part is not None:
            await parts.open_part(shop.database, part, shop.time)
        await shop.act("purchase", f"user{number}", "pro_monthly")
        await shop.act("renew", f"user{number}")
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


def id_of(body: bytes) -> str:
    found: str = json.decode(body)["id"]
    return found
