"""Statements that name several projects are sent once for each: arguments are taken apart, rows put together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import asyncpg

from latchkey.database.distribution.statements import ByProject, ByWebhook
from latchkey.database.sql import notation, values_of

# What `at_project.hold` says of a project that another node has now.
MOVED = "was moved to another node"
# What a session of the coordinator says that is of no use any more; see setup.sql.
NOT_SENT = "was not sent to the node of its project"


class MergedRow:
    """Made of other rows; used as the driver's records are."""

    __slots__ = ("_named",)

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def __getitem__(self, key: int | str) -> Any:
        return self._named[key] if isinstance(key, str) else list(self._named.values())[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def keys(self) -> Iterable[str]:
        return self._named.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._named.items()

    def get(self, key: str, default: Any = None) -> Any:
        return self._named.get(key, default)


def changed(row: Any, **values: Any) -> MergedRow:
    return MergedRow({**dict(row.items()), **values})


def projects(route: ByProject, args: Sequence[Any]) -> list[str]:
    """In the order in which locks are taken."""
    return sorted({one for columns in route.columns for one in _listed(args[columns[0] - 1])})


def part(route: ByProject, args: Sequence[Any], project_id: str) -> tuple[list[Any], list[int]]:
    """The arguments for one project, and the places of its entries in the first columns."""
    own = list(args)
    places: list[int] = []
    for columns in reversed(route.columns):
        places = [n for n, one in enumerate(_listed(args[columns[0] - 1])) if one == project_id]
        for number in columns:
            own[number - 1] = some(args[number - 1], places)
    return own, places


def _listed(column: Any) -> Sequence[Any]:
    return values_of(column) if isinstance(column, str) else column


def some(column: Any, places: Sequence[int]) -> Any:
    """These values of an array; of one in PostgreSQL's notation, the same."""
    if isinstance(column, str):
        values = values_of(column)
        return notation([values[n] for n in places])
    return [column[n] for n in places]


def together(route: ByProject, parts: Iterable[tuple[Sequence[int], Sequence[Any]]]) -> list[Any]:
    if route.in_order:
        placed = [pair for places, rows in parts for pair in zip(places, rows, strict=True)]
        return [row for _, row in sorted(placed, key=lambda pair: pair[0])]
    if route.place is not None:
        name = route.place
        return [changed(row, **{name: places[row[name] - 1] + 1}) for places, rows in parts for row in rows]
    return [row for _, rows in parts for row in rows]


def by_webhook(route: ByWebhook, args: Sequence[Any], found: Mapping[int, str]) -> Iterator[tuple[str, list[Any]]]:
    """The arguments for each project; webhooks that do not exist are left out."""
    keys = args[route.first - 1]
    for project_id in sorted({found[key] for key in keys if key in found}):
        places = [n for n, key in enumerate(keys) if found.get(key) == project_id]
        own = list(args)
        for number in range(route.first, route.last + 1):
            own[number - 1] = [args[number - 1][n] for n in places]
        yield project_id, own


def sums(rows: Sequence[Any], least: Sequence[str] = ()) -> list[Any]:
    """One row: numbers added, booleans true if one is, the least of some columns."""
    if not rows:
        return []
    return [MergedRow({name: _sum([row[name] for row in rows], name in least) for name in rows[0].keys()})]  # noqa: SIM118


def _sum(values: Sequence[Any], least: bool) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if least:
        return min(known)
    return any(known) if isinstance(known[0], bool) else sum(known)


def as_collision(error: asyncpg.PostgresError) -> Exception:
    """A duplicate key that a worker reports may arrive as an internal error; its text still says so."""
    text = str(error)
    if "duplicate key value violates unique constraint" in text:
        return asyncpg.UniqueViolationError(text)
    if "deadlock" in text or "could not serialize" in text or MOVED in text:
        return asyncpg.SerializationError(text)
    if "violates foreign key constraint" in text:
        return asyncpg.ForeignKeyViolationError(text)
    return error
