"""What commands on a deployment or on one project have in common: options, use cases, and the audit log."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from latchkey.cli.command import Printer
from latchkey.cli.output import JsonOption
from latchkey.cli.target_database import DATA, ConfigOption, DataOption, database_url, settings_of
from latchkey.database.pool import Database
from latchkey.database.rows import InProject
from latchkey.domain.refusal import Refusal
from latchkey.engine.changes import Changes
from latchkey.engine.reads import CustomerView, Reader
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.now import real_now
from latchkey.settings import Settings
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects

D = TypeVar("D", bound="ProjectContext")
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project", envvar="LATCHKEY_PROJECT", help="The project's id. Not needed if there is only one project."
    ),
]

ACTOR = "the command line"


@asynccontextmanager
async def audited(
    database: Database,
    project_id: str | None,
    action: str,
    subject: str,
    *,
    account_id: str | None = None,
    afterwards: str = "",
    **detail: str,
) -> AsyncIterator[None]:
    """As on a page: the entry is written before the change, and completed with the outcome. `afterwards` is
    the subject of the finished entry, where it is another: of a person that was erased, no id stays."""
    position = await audit.begin(
        database,
        project_id=project_id,
        account_id=account_id,
        actor=ACTOR,
        action=action,
        now=real_now(),
        subject=subject,
    )
    try:
        yield
    except Refusal as refusal:
        said = {} if afterwards else {"refusal": refusal.message}
        await audit.finish(database, position, "refused", afterwards or subject, {**detail, **said})
        raise
    await audit.finish(database, position, "done", afterwards or subject, detail)


@dataclass(frozen=True, slots=True)
class Office(Printer):
    """For commands on the deployment."""

    database: Database
    config: Path | None
    data: Path


@asynccontextmanager
async def office(
    config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False, **pool: Any
) -> AsyncIterator[Office]:
    async with Database(database_url(config, data), **{"max_size": 2, **pool}) as database:
        yield Office(as_json, database, config, data)


@dataclass(frozen=True, slots=True)
class ProjectContext(Office, InProject):
    """For commands on one project."""

    project_id: str
    settings: Settings
    catalogs: Catalogs
    changes: Changes
    reader: Reader

    async def customer(self, id: str) -> CustomerView:
        """The customer with this id, which may be any of their ids."""
        return await self.reader.view(self.project_id, id, real_now())

    def audited(
        self, action: str, subject: str, *, afterwards: str = "", **detail: str
    ) -> AbstractAsyncContextManager[None]:
        return audited(self.database, self.project_id, action, subject, afterwards=afterwards, **detail)

    def show_deleted(self, kind: str, id: str, words: str) -> None:
        self.done({"object": kind, "id": id, "deleted_at": real_now()}, words)


@asynccontextmanager
async def project_context(
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
    **pool: Any,
) -> AsyncIterator[ProjectContext]:
    async with office(config, data, as_json, **pool) as at:
        catalogs, project_id = Catalogs(), await chosen(at.database, project)
        changes, reader = Changes(at.database, real_now, catalogs), Reader(at.database, catalogs)
        settings = settings_of(config, data)
        yield ProjectContext(as_json, at.database, config, data, project_id, settings, catalogs, changes, reader)
        await changes.drain()


def extended(kind: type[D], at: ProjectContext, **more: Any) -> D:
    """A desk of this kind, with what it has beside."""
    return kind(**{name: getattr(at, name) for name in ProjectContext.__dataclass_fields__}, **more)


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
