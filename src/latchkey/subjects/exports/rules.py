"""An export that runs by itself, its runs, and when it runs next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms

Every = Literal["hour", "day", "week", "never"]
State = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """In the order in which `save_export` takes them."""

    name: str
    what: Sequence[str]
    format: str = "parquet"
    incremental: bool = True
    with_tokens: bool = False
    destination: str
    endpoint: str | None = None
    region: str | None = None
    # Encrypted; None for a folder. `access_key` is the part that may be shown.
    credentials: bytes | None = field(default=None, repr=False)
    access_key: str | None = None
    every: Every = "day"
    enabled: bool = True

    @property
    def schedule(self) -> Every:
        return self.every if self.enabled else "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(ExportSettings):
    project_id: str
    id: str
    created_at: Ms
    updated_at: Ms
    # None: it does not run by itself.
    next_at: Ms | None
    # Failed runs since the last one that succeeded.
    failures: int
    cursor: str | None
    lease_until: Ms
    token: int

    def continues(self, after: ExportSettings) -> bool:
        """Whether an increment can go on after a change: only where the same is exported to the same place."""
        same = ("format", "with_tokens", "destination", "endpoint")
        return set(after.what) <= set(self.what) and all(getattr(self, name) == getattr(after, name) for name in same)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """In the order in which `finish_export_run` takes them."""

    project_id: str
    export_id: str
    id: int
    finished_at: Ms | None = None
    state: State = "running"
    # 'whole' or 'increment'.
    kind: str | None = None
    folder: str | None = None
    rows: int = 0
    bytes: int = 0
    files: int = 0
    error: str | None = None
    started_at: Ms


# Hours and days begin as in UTC, weeks on Monday; 1970-01-05 was one.
_LENGTH: dict[str, Ms] = {"hour": HOUR, "day": DAY, "week": 7 * DAY}
_MONDAY: Ms = 4 * DAY
_FIRST_RETRY: Ms = 5 * MINUTE
_LONGEST_RETRY: Ms = 6 * HOUR
# Tries of an export that somebody asked for, and that does not run by itself.
_TRIES = 5


def next_time(every: Every, now: Ms) -> Ms | None:
    """The next regular time after `now`; None: it runs only when somebody asks for it."""
    length = _LENGTH.get(every)
    if length is None:
        return None
    start = _MONDAY if every == "week" else 0
    return (now - start) // length * length + length + start


def retry_time(every: Every, failures: int, now: Ms) -> Ms | None:
    """After a failed run: soon, then less and less often, and always at the next regular time. None: given up."""
    wait = min(_FIRST_RETRY << min(failures - 1, 10), _LONGEST_RETRY)
    regular = next_time(every, now)
    if regular is None:
        return now + wait if failures < _TRIES else None
    return min(now + wait, regular)
