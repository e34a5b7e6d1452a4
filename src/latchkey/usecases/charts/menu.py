"""What the pages of charts offer, and how fresh they are."""

from __future__ import annotations

from latchkey.domain.instants import Ms
from latchkey.storage.charts import menu, progress
from latchkey.storage.charts.menu import Menu as Menu
from latchkey.storage.database import Database
from latchkey.usecases.charts.roller import catch_up

# If the charts are at most this many events behind, a page waits for them.
SHORT_WAY = 2_000


async def chart_menu(database: Database, project_id: str) -> Menu:
    async with database.acquire() as connection:
        return await menu.load(connection, project_id)


async def count_latest(database: Database, project_id: str, now: Ms) -> None:
    """Counts the events of the last second, if the roller has not done it yet: whoever has just bought something looks
    for it. A long way is left to the roller; the page says how far behind it is."""
    async with database.acquire() as connection:
        found = await progress.load(connection, project_id)
    if found is not None and 0 < found.head - found.position <= SHORT_WAY:
        await catch_up(database, project_id, now, most=SHORT_WAY)
