"""Numbers of combinations of dimensions. Known ones are cached."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TypeAlias
from uuid import UUID

from latchkey.domain.charts.fact import Dimensions
from latchkey.domain.charts.facts.subject import Origin
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.charts import dimensions
from latchkey.storage.charts.dimensions import ORIGIN, Combination, Numbered
from latchkey.storage.charts.progress import Roll
from latchkey.storage.database import Connection

_MOST = 200_000

Asked: TypeAlias = tuple[str, Combination]


def is_clock(environment: str) -> bool:
    """Whether it is the environment of a test clock. Facts there are never summed in advance."""
    return environment not in (Environment.PRODUCTION, Environment.SANDBOX)


# Needed three times for each subject, and most come from a few origins.
@lru_cache(maxsize=1024)
def origin_combination(origin: Origin) -> Combination:
    of = Dimensions(platform=origin.platform, app_version=origin.app_version, country=origin.country)
    return Combination("", ORIGIN, of)


class Numbers:
    """Remembers numbers by the project's generation, so a project that starts anew gets new ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[UUID, Combination], int] = {}

    def forget(self) -> None:
        """After any error: the transaction that gave out the newest numbers may be lost."""
        self._known.clear()

    async def of(
        self, connection: Connection, rolls: Mapping[str, Roll], asked: Collection[Asked]
    ) -> tuple[dict[Asked, int], dict[str, int]]:
        """The numbers of these combinations, and the last number of each project, which is locked. Numbers are given
        out where there is none yet. Call `keep` after the commit."""
        last = {id: roll.dimension for id, roll in rolls.items()}
        found: dict[Asked, int] = {}
        missing: set[Asked] = set()
        for project_id, combination in asked:
            number = self._known.get((rolls[project_id].generation, combination))
            if number is None:
                missing.add((project_id, combination))
            else:
                found[project_id, combination] = number
        if not missing:
            return found, last
        found |= await dimensions.find(connection, missing)
        new = sorted(missing - found.keys())
        if not new:
            return found, last
        added: list[Numbered] = []
        for one in new:
            project_id, combination = one
            last[project_id] += 1
            on_clock = is_clock(combination.environment or Environment.PRODUCTION)
            found[one] = -last[project_id] if on_clock else last[project_id]
            added.append(Numbered(project_id, found[one], combination))
        await dimensions.add(connection, added)
        return found, last

    def keep(self, rolls: Mapping[str, Roll], found: Mapping[Asked, int]) -> None:
        if len(self._known) + len(found) > _MOST:
            self._known.clear()
        self._known.update({(rolls[id].generation, one): number for (id, one), number in found.items()})
