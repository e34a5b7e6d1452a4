import pytest

from latchkey.emulators.apple.apple_keys import AppleKeys, make_apple_keys
from latchkey.emulators.google.google_keys import GoogleKeys, make_google_keys
from latchkey.emulators.stripe.stripe_emulator import StripeKeys, make_stripe_keys


@pytest.fixture(scope="session")
def apple_keys() -> AppleKeys:
    return make_apple_keys()


@pytest.fixture(scope="session")
def google_keys() -> GoogleKeys:
    return make_google_keys()


@pytest.fixture(scope="session")
def stripe_keys() -> StripeKeys:
    return make_stripe_keys()
