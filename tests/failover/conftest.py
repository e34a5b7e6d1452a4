from pathlib import Path

import pytest

from tests.delivery import certificates


@pytest.fixture(scope="session")
def certs(short_folder: Path) -> certificates.Certificates:
    return certificates.make(short_folder / "certificates-of-failover")
