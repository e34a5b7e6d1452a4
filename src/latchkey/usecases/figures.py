"""The figures of a project at a moment, read from sums that a roller keeps: no customer or event is looked at."""

from __future__ import annotations

from latchkey.domain.figures_overview import Overview
from latchkey.domain.instants import Ms
from latchkey.domain.purchase import Environment
from latchkey.storage.database import Database


async def overview(database: Database, project_id: str, environment: Environment, days: int, now: Ms) -> Overview:
    """The cards and series of one of `domain.figures.PERIODS`. Lags a second or so; `as_of` says how much."""
    raise NotImplementedError


async def catch_up(database: Database, project_id: str, now: Ms, *, most: int = 20_000) -> bool:
    """Take in what has happened so far, up to `most` events; whether that was all."""
    raise NotImplementedError
