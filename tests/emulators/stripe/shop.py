"""A Stripe emulator for tests: its clock stands still until it is moved."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from latchkey.emulators.emulator_clock import EmulatorClock
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_emulator import StripeAccount, StripeEmulator, StripeKeys

START = 1_800_000_000_000


@contextlib.asynccontextmanager
async def stripe_account(keys: StripeKeys, **options: Any) -> AsyncIterator[StripeEmulator]:
    clock = EmulatorClock(starts_at=START, ticks=False)
    store = StripeEmulator(keys, StripeAccount(), StripeBooks(series="tests"), clock, **options)
    try:
        yield store
    finally:
        await store.close()
