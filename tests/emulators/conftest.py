from __future__ import annotations

import pytest

from latchkey.emulators.apple.keys import AppleKeys, make_keys


@pytest.fixture(scope="session")
def apple_keys() -> AppleKeys:
    return make_keys()
