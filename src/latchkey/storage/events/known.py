"""Which events exist already. `../engine/writing.py` adds new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from latchkey.storage.sql import query

_KNOWN = query("known_events")


async def known(connection: Any, asked: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these (project, event id) exist already."""
    if not asked:
        return set()
    rows = await connection.fetch(_KNOWN, [project for project, _ in asked], [id for _, id in asked])
    return {(row["project_id"], row["id"]) for row in rows}
