"""Rows of a query as objects of a type whose fields are named like the columns; what a project has of one kind; and
what works on one project."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from operator import attrgetter
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from msgspec import convert, json

from latchkey.database.pool import Database, Executor, Record
from latchkey.database.sql import affected
from latchkey.domain.refusal import Conflict, NotFound, Refusal

Item = TypeVar("Item")
P = ParamSpec("P")


def item_of(shape: type[Item], row: Record, as_json: Collection[str] = (), **others: Any) -> Item:
    """`as_json` are columns of JSON. `others` are fields that are not a column, or not as it is stored."""
    decoded = {name: json.decode(row[name] or b"null") for name in as_json}
    return convert({**row, **decoded, **others}, shape)


async def fetch_one(connection: Executor, shape: type[Item], statement: str, *arguments: Any) -> Item | None:
    row = await connection.fetchrow(statement, *arguments)
    return None if row is None else item_of(shape, row)


async def fetch_all(connection: Executor, shape: type[Item], statement: str, *arguments: Any) -> list[Item]:
    return [item_of(shape, row) for row in await connection.fetch(statement, *arguments)]


# Statements as functions of a connection, or of the database, and of the statement's parameters in their order.
Statement: TypeAlias = Callable[Concatenate[Executor, ...], Coroutine[Any, Any, Item]]


def executes(statement: str) -> Statement[None]:
    async def execute(connection: Executor, *arguments: Any) -> None:
        await connection.execute(statement, *arguments)

    return execute


def fetches_one(shape: type[Item], statement: str) -> Statement[Item | None]:
    return lambda connection, *arguments: fetch_one(connection, shape, statement, *arguments)


def fetches_all(shape: type[Item], statement: str) -> Statement[list[Item]]:
    return lambda connection, *arguments: fetch_all(connection, shape, statement, *arguments)


def fetches_value(shape: type[Item], statement: str) -> Statement[Item]:  # noqa: ARG001 - for the type checker
    """The first column of the one row that there always is."""
    return lambda connection, *arguments: connection.fetchval(statement, *arguments)


def finds_value(shape: type[Item], statement: str) -> Statement[Item | None]:  # noqa: ARG001 - for the type checker
    """The first column of the first row; None if there is no row."""
    return lambda connection, *arguments: connection.fetchval(statement, *arguments)


def fetches_column(shape: type[Item], statement: str) -> Statement[list[Item]]:  # noqa: ARG001 - for the type checker
    """The first column of each row."""

    async def fetch(connection: Executor, *arguments: Any) -> list[Item]:
        return [row[0] for row in await connection.fetch(statement, *arguments)]

    return fetch


def returns_row(statement: str) -> Statement[bool]:
    """Whether the statement has found, or changed, anything: it returns what it did."""

    async def fetch(connection: Executor, *arguments: Any) -> bool:
        return await connection.fetchrow(statement, *arguments) is not None

    return fetch


def changes_rows(statement: str) -> Statement[bool]:
    """The same for a statement that returns nothing."""

    async def execute(connection: Executor, *arguments: Any) -> bool:
        return affected(await connection.execute(statement, *arguments)) > 0

    return execute


def saves(statement: str, *fields: str) -> Callable[Concatenate[Executor, str, object, ...], Coroutine[Any, Any, bool]]:
    """Writes these fields of what a project has, mappings as JSON, and other values after them. Whether a row was
    written: none is if the id is taken."""
    values = attrgetter(*fields)

    async def save(connection: Executor, project_id: str, item: object, *others: Any) -> bool:
        stored = [json.encode(value) if isinstance(value, Mapping) else value for value in values(item)]
        return affected(await connection.execute(statement, project_id, *stored, *others)) > 0

    return save


class Listing(Generic[Item]):
    """What a project has of one kind. The statement selects a page: its parameters are the project, the id after which
    the page starts, the limit, and the only id to select. Pages by age need the item that they start after."""

    def __init__(
        self,
        noun: str,
        statement: str,
        item: type[Item],
        *,
        as_json: Collection[str] = (),
        param: str = "",
        by_age: bool = False,
        written: Callable[[str], str] = repr,
        read: Callable[[Record], Item] | None = None,
    ) -> None:
        self._noun, self._statement = noun, statement
        self._item: Callable[[Record], Item] = read or (lambda row: item_of(item, row, as_json))
        self._param = param or f"{noun}_id"
        self._by_age = by_age
        self._written = written

    def missing(self, id: str) -> NotFound:
        return NotFound(f"There is no {self._noun} {self._written(id)} in this project.", param=self._param)

    def found(self, item: Item | None, id: str) -> Item:
        if item is None:
            raise self.missing(id)
        return item

    def require_new(self, is_new: bool, id: str, param: str = "id") -> None:
        """What was written is refused if there is one already."""
        if not is_new:
            article = "an" if self._noun[0] in "aeiou" else "a"
            raise Conflict(f"There is already {article} {self._noun} {self._written(id)} in this project.", param=param)

    async def require_room(self, connection: Executor, project_id: str, most: int) -> list[Item]:
        """Those that there are, fewer than that."""
        known = await self.page(connection, project_id, None, most)
        if len(known) == most:
            raise Refusal(f"A project has at most {most} {self._noun}s. Delete one first.")
        return known

    async def find(self, connection: Executor, project_id: str, id: str) -> Item | None:
        row = await connection.fetchrow(self._statement, project_id, None, 1, id)
        return None if row is None else self._item(row)

    async def get(self, connection: Executor, project_id: str, id: str) -> Item:
        return self.found(await self.find(connection, project_id, id), id)

    async def page(
        self, connection: Executor, project_id: str, after: str | None = None, limit: int | None = None
    ) -> list[Item]:
        return [self._item(row) for row in await connection.fetch(self._statement, project_id, after, limit, None)]

    async def load_page(
        self, database: Database, project_id: str, after: str | None = None, limit: int | None = 100
    ) -> list[Item]:
        async with database.acquire() as connection:
            if self._by_age and after is not None and await self.find(connection, project_id, after) is None:
                raise NotFound(f"There is no {self._noun} {after!r} to start after.", param="starting_after")
            return await self.page(connection, project_id, after, limit)


class _OfProject(Protocol):
    @property
    def database(self) -> Database: ...

    @property
    def project_id(self) -> str: ...


class InProject:
    """What works on one project: a request of the API, a visit of a page, a command."""

    __slots__ = ()

    def run(
        self: _OfProject,
        usecase: Callable[Concatenate[Database, str, P], Awaitable[Item]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Awaitable[Item]:
        return usecase(self.database, self.project_id, *arguments, **named)
