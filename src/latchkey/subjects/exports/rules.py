"""An export that runs by itself, and its runs."""

from dataclasses import dataclass, field
from typing import Literal

from latchkey.domain.instants import Ms

Every = Literal["hour", "day", "week", "never"]
State = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    name: str
    what: tuple[str, ...]
    format: str
    incremental: bool
    with_tokens: bool
    destination: str
    endpoint: str | None
    region: str | None
    every: Every
    enabled: bool
    # Encrypted; None for a folder. `access_key` is the part that may be shown.
    credentials: bytes | None = field(default=None, repr=False)
    access_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    project_id: str
    id: str
    settings: ExportSettings
    created_at: Ms
    updated_at: Ms
    # None: it does not run by itself.
    next_at: Ms | None
    # Failed runs since the last one that succeeded.
    failures: int
    cursor: str | None
    lease_until: Ms
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    id: int
    started_at: Ms
    finished_at: Ms | None = None
    state: State = "running"
    # 'whole' or 'increment'.
    kind: str | None = None
    folder: str | None = None
    rows: int = 0
    bytes: int = 0
    files: int = 0
    error: str | None = None
