from __future__ import annotations

import pytest

from latchkey.emulators.apple.keys import AppleKeys
from latchkey.emulators.apple.keys import make_keys as make_apple_keys
from latchkey.emulators.google.emulator import GoogleKeys
from latchkey.emulators.google.emulator import make_keys as make_google_keys
from latchkey.emulators.stripe.keys import StripeKeys
from latchkey.emulators.stripe.keys import make_keys as make_stripe_keys


@pytest.fixture(scope="session")
def apple_keys() -> AppleKeys:
    return make_apple_keys()


@pytest.fixture(scope="session")
def google_keys() -> GoogleKeys:
    return make_google_keys()


@pytest.fixture(scope="session")
def stripe_keys() -> StripeKeys:
    return make_stripe_keys()
