"""A mail server, for the subjects that send mail."""

import ipaddress
from collections.abc import AsyncIterator

import pytest

from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from tests.subjects.mail.mail_server import MailServer, mail_server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> LocalCertificates:
    return ensure_certificates(tmp_path_factory.mktemp("mail-tls"), [ipaddress.ip_address("127.0.0.1")], real_now())


@pytest.fixture
async def server(certificates: LocalCertificates) -> AsyncIterator[MailServer]:
    async with mail_server(certificates) as server:
        yield server
