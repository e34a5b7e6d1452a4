"""Store emulators for tests: their clocks stand still until they are moved."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier
from cryptography.hazmat.primitives.serialization import Encoding

from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleApp, AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys
from latchkey.emulators.emulator import Emulator, EmulatorClock
from latchkey.emulators.google.google_books import GoogleBooks
from latchkey.emulators.google.google_emulator import GoogleApp, GoogleEmulator
from latchkey.emulators.google.google_keys import GoogleKeys
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_emulator import StripeAccount, StripeEmulator, StripeKeys

E = TypeVar("E", bound=Emulator[Any, Any])
BUNDLE = PACKAGE = "com.example.notes"
APPLE_ID = 1_234_567_890
START = 1_800_000_000_000


def app_store(keys: AppleKeys, *, environment: str = "Sandbox") -> AbstractAsyncContextManager[AppleEmulator]:
    app = AppleApp(bundle_id=BUNDLE, app_apple_id=APPLE_ID, environment=environment)
    return _closing(AppleEmulator(keys, app, AppleBooks(), _clock()))


def play_store(keys: GoogleKeys) -> AbstractAsyncContextManager[GoogleEmulator]:
    app = GoogleApp(package_name=PACKAGE)
    return _closing(GoogleEmulator(keys, app, GoogleBooks(series="tests"), _clock()))


def stripe_account(keys: StripeKeys) -> AbstractAsyncContextManager[StripeEmulator]:
    return _closing(StripeEmulator(keys, StripeAccount(), StripeBooks(series="tests"), _clock()))


@asynccontextmanager
async def _closing(store: E) -> AsyncIterator[E]:
    try:
        yield store
    finally:
        await store.close()


def _clock() -> EmulatorClock:
    return EmulatorClock(starts_at=START, ticks=False)


def verifier(keys: AppleKeys, environment: Environment = Environment.SANDBOX) -> SignedDataVerifier:
    """Apple's own, with the emulator's root as the only one that it trusts."""
    root = keys.chain.root.public_bytes(Encoding.DER)
    return SignedDataVerifier([root], False, environment, BUNDLE, APPLE_ID)
