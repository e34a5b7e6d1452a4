"""The manifest of an export, and V2's exports that run by themselves."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from latchkey.wire.rows import SCHEMA_VERSION

What = Literal["events", "transactions", "customers", "entitlements"]
Format = Literal["csv", "jsonl", "parquet"]
Kind = Literal["whole", "increment"]


class ExportFile(Struct, frozen=True, kw_only=True):
    name: str
    # events, transactions, customers, entitlements or changed_customers.
    what: str
    rows: int
    bytes: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """`manifest.json`, the last file of an export: a folder without one is not complete."""

    object: Literal["export_manifest"] = "export_manifest"
    schema_version: int = SCHEMA_VERSION
    project_id: str
    # The name of the folder.
    id: str
    # An increment holds what changed since the export whose cursor is `since`.
    kind: Kind
    what: list[str]
    format: Format
    with_tokens: bool
    # The moment that the rows are of, and when the last file was complete. ISO 8601.
    as_of: str
    finished_at: str
    since: str | None
    # Where the next increment begins.
    cursor: str
    files: list[ExportFile]
    # Customers whose stored state could not be read. They are missing; the service's log names them.
    unreadable: int = 0
    # The same for events.
    unreadable_events: int = 0


RunState = Literal["running", "done", "failed"]


class ExportRun(Struct, frozen=True, kw_only=True):
    object: Literal["export_run"] = "export_run"
    id: str
    export_id: str
    state: RunState
    # Null while it is not decided.
    kind: Kind | None
    started_at: int
    finished_at: int | None
    # Its folder at the destination.
    folder: str | None
    rows: int
    bytes: int
    files: int
    # Why it failed, or what is missing.
    error: str | None


class Export(Struct, frozen=True, kw_only=True):
    """An export that runs by itself."""

    object: Literal["export"] = "export"
    id: str
    project_id: str
    name: str
    what: list[str]
    format: Format
    # False: every run exports everything.
    incremental: bool
    with_tokens: bool
    # A folder below the operator's, or s3://bucket/prefix.
    destination: str
    endpoint: str | None
    region: str | None
    # The end of the access key; the secret is never shown. Null for a folder.
    access_key_hint: str | None
    every: Literal["hour", "day", "week", "never"]
    enabled: bool
    # Null: it does not run by itself.
    next_run_at: int | None
    # Failed runs since the last one that succeeded.
    failures: int
    created_at: int
    updated_at: int
