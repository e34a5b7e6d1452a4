"""Commands on one project: the options that all of them have, and the use cases that they work with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, TypeVar

import typer

from latchkey.cli import output
from latchkey.cli.audited import audited
from latchkey.cli.output import JsonOption, YesOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.now import real_now
from latchkey.settings import Settings, load
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.access import projects
from latchkey.usecases.engine.changes import Changes
from latchkey.usecases.engine.reading import Reader
from latchkey.usecases.rendering.view import View, look_at

ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project", envvar="LATCHKEY_PROJECT", help="The project's id. Not needed if there is only one project."
    ),
]


@dataclass(frozen=True, slots=True)
class Desk:
    database: Database
    project_id: str
    settings: Settings
    catalogs: Catalogs
    changes: Changes
    reader: Reader
    as_json: bool

    async def customer(self, id: str) -> View:
        """The customer with this id, which may be any of their ids."""
        row = await self.reader.read(self.project_id, id)
        if row is None:
            raise NotFound(f"There is no customer {id!r}.", param="customer_id")
        return look_at(row, real_now())

    def audited(
        self, action: str, subject: str, *, afterwards: str = "", **detail: str
    ) -> AbstractAsyncContextManager[None]:
        return audited(self.database, self.project_id, action, subject, afterwards=afterwards, **detail)

    def show_deleted(self, kind: str, id: str, words: str) -> None:
        if self.as_json:
            output.write({"object": kind, "id": id, "deleted_at": real_now()})
        else:
            output.done(words)


async def chosen(database: Database, project: str | None) -> str:
    if project is not None:
        return (await projects.load_project(database, project)).id
    found = await projects.list_projects(database)
    if len(found) != 1:
        raise Refusal(
            "There is no project yet. Create one with `latchkey project create`."
            if not found
            else f"There are several projects. Choose one with --project: {', '.join(one.id for one in found[:10])}."
        )
    return found[0].id


@asynccontextmanager
async def desk(config: Path | None, data: Path, project: str | None, as_json: bool = False) -> AsyncIterator[Desk]:
    async with Database(database_url(config, data), max_size=2) as database:
        catalogs = Catalogs()
        changes = Changes(database, real_now, catalogs)
        reader = Reader(database, catalogs)
        project_id = await chosen(database, project)
        yield Desk(database, project_id, load(os.environ, config), catalogs, changes, reader, as_json)
        await changes.drain()


At = TypeVar("At")
Opener = Callable[[Path | None, Path, str | None, bool], AbstractAsyncContextManager[At]]
Body = Callable[Concatenate[At, ...], Awaitable[None]]

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "project": (ProjectOption, None),
    "config": (ConfigOption, None),
    "data": (DataOption, DATA),
    "as_json": (JsonOption, False),
}


def command(app: typer.Typer, name: str, opened: Opener[At], *, asks: str = "") -> Callable[[Body[At]], Body[At]]:
    """Adds a command that works with what `opened` opens. It has the options of its function, --project, --config,
    --data and --json. With `asks` it also has --yes, and asks that question first; the question may name options."""

    def add(body: Body[At]) -> Body[At]:
        def run(project: str | None, config: Path | None, data: Path, as_json: bool, **given: Any) -> None:
            if asks:
                output.confirm(asks.format(**given), yes=given.pop("yes"), as_json=as_json)

            async def work() -> None:
                async with opened(config, data, project, as_json) as at:
                    await body(at, **given)

            asyncio.run(work())

        shared = ({"yes": (YesOption, False)} if asks else {}) | _OPTIONS
        parameters = [
            *list(signature(body, eval_str=True).parameters.values())[1:],
            *(
                Parameter(word, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
                for word, (annotation, default) in shared.items()
            ),
        ]
        run.__doc__ = body.__doc__
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
        app.command(name)(run)
        return body

    return add
