"""The books behind the figures: the lines of each purchase, and their sums by day, always written together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from latchkey.domain.figures_lines import Line, PurchaseKey
from latchkey.domain.figures_tally import NOTHING, Tally
from latchkey.domain.instants import DAY
from latchkey.domain.purchase import Environment
from latchkey.storage.sql import query

_LINES_OF = query("figure_lines_of")
_DELETE = query("delete_figure_lines")
_ADD = query("add_figure_lines")
_ADD_TO_DAYS = query("add_to_figure_days")


class Difference(NamedTuple):
    """What must be struck out and what written, so that the books say what is known now."""

    gone: list[tuple[UUID, Line]]
    new: list[tuple[UUID, Line]]

    def by_day(self) -> dict[tuple[Environment, int, str], Tally]:
        days: dict[tuple[Environment, int, str], Tally] = defaultdict(lambda: NOTHING)
        for _, (at, currency, environment, tally) in self.new:
            days[environment, at // DAY, currency] = days[environment, at // DAY, currency].plus(tally)
        for _, (at, currency, environment, tally) in self.gone:
            days[environment, at // DAY, currency] = days[environment, at // DAY, currency].minus(tally)
        return {key: tally for key, tally in days.items() if tally != NOTHING}


def difference(known: Mapping[UUID, set[Line]], now: Mapping[UUID, Iterable[Line]]) -> Difference:
    gone: list[tuple[UUID, Line]] = []
    new: list[tuple[UUID, Line]] = []
    for purchase, lines in now.items():
        before, after = known.get(purchase, set()), set(lines)
        gone.extend((purchase, line) for line in before - after)
        new.extend((purchase, line) for line in after - before)
    return Difference(gone, new)


async def write(connection: Any, project_id: str, contributed: Mapping[PurchaseKey, Iterable[Line]]) -> None:
    """From now on these purchases contribute exactly this. Whoever calls it holds the project's `figure_rolls` row."""
    now = {pseudonym(key): lines for key, lines in contributed.items()}
    known: dict[UUID, set[Line]] = defaultdict(set)
    for row in await connection.fetch(_LINES_OF, project_id, list(now)):
        known[row[0]].add(Line(row[1], row[2], Environment(row[3]), Tally(*row[4:])))
    gone, new = changed = difference(known, now)
    if gone:
        await connection.execute(
            _DELETE,
            [project_id] * len(gone),
            [purchase for purchase, _ in gone],
            [line.at for _, line in gone],
            [line.currency for _, line in gone],
        )
    if new:
        await connection.execute(
            _ADD,
            project_id,
            [purchase for purchase, _ in new],
            [line.at for _, line in new],
            [line.currency for _, line in new],
            [line.environment for _, line in new],
            *zip(*(line.tally for _, line in new), strict=True),
        )
    if days := sorted(changed.by_day().items()):
        await connection.execute(
            _ADD_TO_DAYS,
            project_id,
            [environment for (environment, _, _), _ in days],
            [day for (_, day, _), _ in days],
            [currency for (_, _, currency), _ in days],
            *zip(*(tally for _, tally in days), strict=True),
        )


def pseudonym(key: PurchaseKey) -> UUID:
    """What a purchase is called in the books. It stays the same when the purchase changes hands, or its owner is
    erased and it turns up with somebody else; it does not lead back to the store."""
    return UUID(bytes=blake2b("\0".join(key).encode(), digest_size=16).digest())
