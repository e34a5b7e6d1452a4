from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from latchkey.process.local_ca.authority import LocalCertificates
from tests.push.push_provider import Provider, certificates_in, providing


@pytest.fixture(scope="session")
def certificates(short_folder: Path) -> LocalCertificates:
    return certificates_in(short_folder / "push-tls")


@pytest.fixture
async def provider(certificates: LocalCertificates) -> AsyncIterator[Provider]:
    async with providing(certificates) as provider:
        yield provider
