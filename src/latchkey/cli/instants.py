"""Instants as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def shown(instant: int | None) -> str:
    if instant is None:
        return ""
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
