"""Exports that run by themselves, and their runs, as V2 and the dashboard show them."""

from __future__ import annotations

from latchkey.storage.exports import schedules as stored
from latchkey.wire import exports as wire


def export(one: stored.Export) -> wire.Export:
    settings = one.settings
    return wire.Export(
        id=one.id,
        project_id=one.project_id,
        name=settings.name,
        what=list(settings.what),
        format=settings.format,  # type: ignore[arg-type]  # the database holds no other
        incremental=settings.incremental,
        with_tokens=settings.with_tokens,
        destination=settings.destination,
        endpoint=settings.endpoint,
        region=settings.region,
        access_key_hint=settings.access_key,
        every=settings.every,
        enabled=settings.enabled,
        next_run_at=one.next_at,
        failures=one.failures,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )


def run(export_id: str, one: stored.Run) -> wire.ExportRun:
    return wire.ExportRun(
        id=str(one.id),
        export_id=export_id,
        state=one.state,
        kind=one.kind,  # type: ignore[arg-type]  # the engine has no other
        started_at=one.started_at,
        finished_at=one.finished_at,
        folder=one.folder,
        rows=one.rows,
        bytes=one.bytes,
        files=one.files,
        error=one.error,
    )
