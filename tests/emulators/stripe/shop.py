"""A pretend Stripe for tests: its clock stands still until it is moved."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from latchkey.emulators.clock import Clock
from latchkey.emulators.stripe.emulator import Account, StripeEmulator
from latchkey.emulators.stripe.keys import StripeKeys
from latchkey.emulators.stripe.state import Life

START = 1_800_000_000_000


@contextlib.asynccontextmanager
async def stripe_account(keys: StripeKeys, **options: Any) -> AsyncIterator[StripeEmulator]:
    clock = Clock(starts_at=START, ticks=False)
    store = StripeEmulator(keys, Account(), Life(series="tests"), clock, **options)
    try:
        yield store
    finally:
        await store.close()
