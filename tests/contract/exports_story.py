"""The examples of exports that run by themselves."""

from __future__ import annotations

from typing import Any, Protocol

from latchkey.storage.exports import schedules
from latchkey.storage.exports.schedules import Run
from tests.api.client import NOW, Shop

NEW = {
    "name": "Warehouse",
    "what": ["events", "transactions"],
    "destination": "s3://warehouse/latchkey",
    "region": "eu-central-1",
    "access_key_id": "AKIAEXAMPLEEXAMPLE12",
    "secret_access_key": "an-example-of-a-secret",
}


class Story(Protocol):
    async def ask(self, name: str, body: Any = None, *, query: str = "", **names: str) -> Any: ...


async def export(story: Story, shop: Shop) -> None:
    id = (await story.ask("POST /exports", NEW))["id"]
    await story.ask("GET /exports")
    await story.ask("GET /exports/{export_id}", export_id=id)
    await story.ask("POST /exports/{export_id}", {"every": "hour"}, export_id=id)
    await story.ask("PATCH /exports/{export_id}", {"every": "day"}, export_id=id)
    await story.ask("POST /exports/{export_id}/run", {"whole": True}, export_id=id)
    async with shop.database.transaction() as connection:
        made = await schedules.load(connection, shop.project_id, id)
        assert made is not None
        run = await schedules.begin_run(connection, made, NOW)
        done = Run(
            id=run,
            started_at=NOW,
            finished_at=NOW + 4_200,
            state="done",
            kind="whole",
            folder=f"{shop.project_id}/20270115T080000123Z-0c0ffe",
            rows=1_234,
            bytes=56_789,
            files=2,
        )
        await schedules.finish_run(connection, made, done)
    await story.ask("GET /exports/{export_id}/runs", export_id=id)
    await story.ask("DELETE /exports/{export_id}", export_id=id)
