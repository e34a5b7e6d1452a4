"""What the pages of a project's charts offer to choose from."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_MENU = query("chart_menu")


@dataclass(frozen=True, slots=True)
class Menu:
    # Customer attributes that charts can be filtered and broken down by.
    attributes: tuple[str, ...]
    # Whether anything was ever bought there.
    in_production: bool
    in_sandbox: bool


async def load(connection: Connection, project_id: str) -> Menu:
    row = await connection.fetchrow(_MENU, project_id)
    assert row is not None, "the query gives one row"
    return Menu(tuple(row["attributes"]), row["production"], row["sandbox"])
