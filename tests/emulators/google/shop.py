"""A pretend Google Play for tests: its clock stands still until it is moved."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from latchkey.emulators.clock import Clock
from latchkey.emulators.google.emulator import App, GoogleEmulator, GoogleKeys
from latchkey.emulators.google.state import Life

PACKAGE = "com.example.notes"
START = 1_800_000_000_000


@contextlib.asynccontextmanager
async def play_store(keys: GoogleKeys, **options: Any) -> AsyncIterator[GoogleEmulator]:
    app = App(package_name=PACKAGE)
    store = GoogleEmulator(keys, app, Life(series="tests"), Clock(starts_at=START, ticks=False), **options)
    try:
        yield store
    finally:
        await store.close()
