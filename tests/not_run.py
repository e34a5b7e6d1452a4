"""Checks that need what this machine lacks: they are skipped, and the end of the run says how many and what to do."""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

import pytest

_MARK = "NOT RUN, needs "


def skip(needed: str, how_to_run: str) -> NoReturn:
    pytest.skip(f"{_MARK}{needed}: {how_to_run}")


def summary(reasons: list[str]) -> list[str]:
    """A line for each thing that was missing, from the reasons of all skipped tests."""
    ours = [reason.removeprefix("Skipped: ") for reason in reasons]
    counted = Counter(reason for reason in ours if reason.startswith(_MARK))
    lines = []
    for reason, count in sorted(counted.items()):
        needed, _, how_to_run = reason.removeprefix(_MARK).partition(": ")
        checks = "1 check" if count == 1 else f"{count} checks"
        lines.append(f"{checks} DID NOT RUN, because this machine has no {needed}. {how_to_run}")
    return lines
