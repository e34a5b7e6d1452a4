from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from latchkey.database.pool import Database
from tests.subjects.alerts.alerting import Alerting, alerting
from tests.subjects.mail.mail_server import MailServer


@pytest.fixture
async def shop(database: Database, tmp_path: Path, server: MailServer) -> AsyncIterator[Alerting]:
    async with alerting(database, tmp_path, server) as shop:
        yield shop
