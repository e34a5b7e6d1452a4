"""Exports that run by themselves: to a folder of the operator, or to a bucket."""

from typing import Annotated, Literal

from pydantic import Field

from latchkey.domain.refusal import NotFound
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.models import Body, Name, Paging, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.exports import render, wire
from latchkey.subjects.exports.usecases import schedules
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/exports", tags=["V2 exports"])

What = Annotated[
    list[Literal["events", "transactions", "customers", "entitlements"]], Field(min_length=1, max_length=4)
]
_PART = r"[A-Za-z0-9_=\-][A-Za-z0-9_.=\-]*"
Destination = Annotated[
    str,
    Field(
        max_length=schedules.LONGEST_DESTINATION,
        description="s3://bucket/prefix, or a folder below the one that the operator allows.",
        examples=["s3://exports/latchkey"],
        pattern=rf"^(s3://[A-Za-z0-9][A-Za-z0-9._\-]{{1,61}}[A-Za-z0-9](/{_PART})*|{_PART}(/{_PART})*)$",
    ),
]
Endpoint = Annotated[
    str,
    Field(
        max_length=300,
        description="Where the bucket is, if not at Amazon.",
        examples=["https://minio.example.com:9000"],
        pattern=r"^https?://[A-Za-z0-9]([A-Za-z0-9.\-]*[A-Za-z0-9])?(:([1-9][0-9]{0,3}|[1-5][0-9]{4}))?$",
    ),
]
Region = Annotated[str, Field(max_length=40, pattern=r"^[A-Za-z0-9\-]+$")]
Secret = Annotated[str, Field(max_length=1_000, pattern=r"^[!-~]+$", json_schema_extra={"writeOnly": True})]
Every = Annotated[
    Literal["hour", "day", "week", "never"], Field(description="`never`: only when somebody asks for it.")
]


class NewExport(Body):
    name: Name
    what: What
    format: Literal["csv", "jsonl", "parquet"] = "parquet"
    incremental: bool = True
    with_tokens: bool = False
    destination: Destination
    endpoint: Endpoint | None = None
    region: Region | None = None
    access_key_id: Secret | None = Field(default=None, repr=False)
    secret_access_key: Secret | None = Field(default=None, repr=False)
    every: Every = "day"
    enabled: bool = True


class ExportChanges(NewExport):
    name: Name = not_null()
    what: What = not_null()
    format: Literal["csv", "jsonl", "parquet"] = not_null()
    incremental: bool = not_null()
    with_tokens: bool = not_null()
    destination: Destination = not_null()
    every: Every = not_null()
    enabled: bool = not_null()


class RunOrder(Body):
    whole: Annotated[bool, Field(description="Everything; later increments continue there.")] = False


@router.creates("", wire.Export, "export.created")
async def create_export(call: WriteKey, new: NewExport) -> Response:
    """Export regularly from now on. The access key is encrypted and never shown again."""
    made = await call.services.exports.create(call.project_id, new.model_dump(exclude_unset=True), call.now())
    return reply(render.export(made), 201)


@router.get("", responses=shows(Page[wire.Export]))
async def list_exports(call: ReadKey, paging: Paging) -> Response:
    """The project's exports, oldest first."""
    found = await call.run(schedules.list_exports, *paging.window)
    return reply(paging.of([render.export(export) for export in found]))


@router.get("/{export_id}", responses=shows(wire.Export))
async def read_export(call: ReadKey, export_id: str) -> Response:
    """One export, and when it runs next."""
    return reply(render.export(await call.run(schedules.load_export, export_id)))


@router.updates("/{export_id}", wire.Export, "export.changed")
async def update_export(call: WriteKey, export_id: str, changes: ExportChanges) -> Response:
    """Change the given fields of an export. Where the destination changes, the access key must be given again."""
    given = changes.model_dump(exclude_unset=True)
    return reply(render.export(await call.services.exports.update(call.project_id, export_id, given, call.now())))


@router.deletes("/{export_id}", Deleted, "export.deleted")
async def delete_export(call: WriteKey, export_id: str) -> Response:
    """It runs no more. What it exported stays where it is."""
    await call.services.exports.delete(call.project_id, export_id)
    return reply(Deleted(object="export", id=export_id, deleted_at=call.now()))


@router.acts("/{export_id}/run", wire.Export, "export.started", status=202)
async def run_export(call: WriteKey, export_id: str, order: RunOrder | None = None) -> Response:
    """Run it as soon as possible, in the background."""
    whole = (order or RunOrder()).whole
    started = await call.services.exports.run_now(call.project_id, export_id, call.now(), whole=whole)
    return reply(render.export(started), 202)


@router.get("/{export_id}/runs", responses=shows(Page[wire.ExportRun]))
async def list_export_runs(call: ReadKey, export_id: str, paging: Paging) -> Response:
    """The last runs, newest first."""
    if paging.after is not None and not (paging.after.isascii() and paging.after.isdigit()):
        raise NotFound(f"There is no run {paging.after!r} to start after.", param="starting_after")
    before = int(paging.after[:18]) if paging.after is not None else None
    found = await call.services.exports.runs(call.project_id, export_id, before, paging.limit + 1)
    return reply(paging.of([render.run(run) for run in found]))
