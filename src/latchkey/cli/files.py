"""Writes files atomically, never readable by others."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(path)


def write_json(path: Path, value: Any) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """The content; an empty dict if the file is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}
