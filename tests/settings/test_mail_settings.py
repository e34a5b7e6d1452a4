"""Settings for mail that would not work or would not be safe, and what the doctor says about the mail server."""

from __future__ import annotations

from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest

from latchkey.api.outside import mail_of, way_of
from latchkey.cli.doctor import mail
from latchkey.safety import problems_of, problems_of_connections
from latchkey.settings import Settings
from latchkey.storage.database import Database

SENDER = "Latchkey <no-reply@example.com>"
GOOD: dict[str, Any] = {"smtp_host": "mail.example.com", "mail_from": SENDER, "public_url": "https://x.example.com"}


@pytest.mark.parametrize(
    ("changed", "about"),
    [
        ({}, None),
        ({"mail_from": "no-reply@example.com", "public_url": "https://x.example.com:8443/"}, None),
        ({"mail_from": ""}, "LATCHKEY_MAIL_FROM"),
        ({"mail_from": "Latchkey"}, "LATCHKEY_MAIL_FROM"),
        ({"mail_from": "a@example.com\r\nBcc: eve@example.com"}, "LATCHKEY_MAIL_FROM"),
        ({"public_url": "http://x.example.com"}, "LATCHKEY_PUBLIC_URL"),
        ({"public_url": "https://x.example.com/path"}, "LATCHKEY_PUBLIC_URL"),
        ({"public_url": "https://user:pw@x.example.com"}, "LATCHKEY_PUBLIC_URL"),
        ({"public_url": "x.example.com"}, "LATCHKEY_PUBLIC_URL"),
        ({"mail_folder": Path("/tmp/mail")}, "LATCHKEY_MAIL_FOLDER"),
        ({"smtp_security": "none", "smtp_user": "x"}, "LATCHKEY_SMTP_SECURITY"),
        ({"smtp_security": "none", "smtp_user": "x", "smtp_host": "127.0.0.1"}, None),
        ({"smtp_extra_ca": Path("/nowhere.pem")}, "LATCHKEY_SMTP_EXTRA_CA"),
    ],
)
def test_what_is_wrong_with_mail_is_named(changed: dict[str, Any], about: str | None) -> None:
    found = [problem.setting for problem in problems_of_connections(Settings(**{**GOOD, **changed}))]
    assert found == ([about] if about else [])


def test_mail_needs_the_address_of_its_links() -> None:
    lacking = Settings(**{**GOOD, "public_url": ""})
    assert "LATCHKEY_PUBLIC_URL" in [problem.setting for problem in problems_of(lacking, 0)]


async def test_without_settings_there_is_no_mail(database: Database) -> None:
    assert mail_of(database, Settings()) is None
    assert await mail(Settings()) is None
    assert way_of(Settings(**GOOD, smtp_password="hunter2")) is not None
    assert "hunter2" not in repr(Settings(**GOOD, smtp_password="hunter2"))


async def test_the_doctor_tries_the_mail_server(tmp_path: Path) -> None:
    found = await mail(Settings(mail_folder=tmp_path / "mail", public_url=GOOD["public_url"]))
    assert found is not None
    assert (found.mark, str(tmp_path / "mail") in found.words) == ("good", True)
    with socket(AF_INET, SOCK_STREAM) as nobody:
        # Bound and not listening: connections are refused, and nobody else gets the port.
        nobody.bind(("127.0.0.1", 0))
        settings = Settings(**{**GOOD, "smtp_host": "127.0.0.1"}, smtp_port=nobody.getsockname()[1])
        found = await mail(settings)
    assert found is not None
    assert (found.mark, "ConnectionRefusedError" in found.words) == ("bad", True)
