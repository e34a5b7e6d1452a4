"""A Google Play emulator for tests: its clock stands still until it is moved."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from latchkey.emulators.emulator_clock import EmulatorClock
from latchkey.emulators.google.google_books import GoogleBooks
from latchkey.emulators.google.google_emulator import GoogleApp, GoogleEmulator
from latchkey.emulators.google.google_keys import GoogleKeys

PACKAGE = "com.example.notes"
START = 1_800_000_000_000


@contextlib.asynccontextmanager
async def play_store(keys: GoogleKeys, **options: Any) -> AsyncIterator[GoogleEmulator]:
    app = GoogleApp(package_name=PACKAGE)
    store = GoogleEmulator(
        keys, app, GoogleBooks(series="tests"), EmulatorClock(starts_at=START, ticks=False), **options
    )
    try:
        yield store
    finally:
        await store.close()
