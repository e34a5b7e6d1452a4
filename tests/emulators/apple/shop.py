"""An App Store emulator for tests: its clock stands still until it is moved."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier
from cryptography.hazmat.primitives.serialization import Encoding

from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys
from latchkey.emulators.apple.apple_payloads import AppleApp
from latchkey.emulators.emulator_clock import EmulatorClock

BUNDLE = "com.example.notes"
APPLE_ID = 1_234_567_890
START = 1_800_000_000_000


@contextlib.asynccontextmanager
async def app_store(keys: AppleKeys, *, environment: str = "Sandbox", **options: Any) -> AsyncIterator[AppleEmulator]:
    app = AppleApp(bundle_id=BUNDLE, app_apple_id=APPLE_ID, environment=environment)
    store = AppleEmulator(keys, app, AppleBooks(), EmulatorClock(starts_at=START, ticks=False), **options)
    try:
        yield store
    finally:
        await store.close()


def verifier(keys: AppleKeys, environment: Environment = Environment.SANDBOX) -> SignedDataVerifier:
    """Apple's own, with the emulator's root as the only one that it trusts."""
    root = keys.chain.root.public_bytes(Encoding.DER)
    return SignedDataVerifier([root], False, environment, BUNDLE, APPLE_ID)
