from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine import downloaded
from tests.web_sdk.shopper import serving


@pytest.fixture(scope="session")
def shop() -> Iterator[str]:
    """The address of the SDK's files."""
    modules = downloaded(Path(__file__).parent)
    with serving(modules / "@revenuecat" / "purchases-js" / "dist") as address:
        yield address
