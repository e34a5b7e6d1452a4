"""Real processes with the role clock, killed while they send: a problem is told once."""

import asyncio
import base64
import os
from pathlib import Path

import pytest

from latchkey import logs
from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.process.service import run_process
from latchkey.settings import load
from latchkey.subjects.alerts import storage
from latchkey.subjects.alerts.rules import PATIENCE as LASTS
from tests.forks import Process, announce
from tests.http.receiving import SECRET_KEY
from tests.patience import until
from tests.subjects.alerts.alerting import Alerting, alerting, settings_of
from tests.subjects.mail.mail_server import MailServer

pytestmark = pytest.mark.thorough


async def _clock(stop: asyncio.Event) -> None:
    logs.configure("info", "json")
    await run_process(load(os.environ), ["clock"], None, stop, ready=announce)


class ClockProcess(Process):
    def __init__(self, folder: Path, database_url: str, server: MailServer) -> None:
        settings = {f"LATCHKEY_{name.upper()}": str(value) for name, value in settings_of(server).items()}
        own = {"LATCHKEY_DATABASE_URL": database_url, "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode()}
        super().__init__(_clock, log=folder / "clock.log", environment={**settings, **own})


async def seen_long_ago(shop: Alerting) -> None:
    """A look has seen the webhook fail, so long ago that the next one tells."""
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    await shop.alerts.look_next(shop.post.clock.now)
    [alert] = (await storage.known_alerts(shop.post.database, shop.post.project_id)).values()
    assert alert.told_at is None
    await shop.post.database.pool.execute("update alert_watches set look_at = 0")


async def test_two_processes_of_which_one_is_killed_tell_once(
    database_url: str, tmp_path: Path, server: MailServer
) -> None:
    async with Database(database_url) as database, alerting(database, tmp_path, server) as shop:
        shop.post.clock.now = real_now() - LASTS
        await shop.member()
        # No mail can be sent yet, so that there is a time to kill somebody.
        server.refuses = "451 later"
        await seen_long_ago(shop)
        with ClockProcess(tmp_path, database_url, server) as first:
            await until(shop.waiting)
            first.kill()
        server.refuses = ""
        # A day later for the message: its pause, or the lease of the process that is gone, is over.
        await database.pool.execute("update outgoing_mails set due_at = 0")
        with ClockProcess(tmp_path, database_url, server), ClockProcess(tmp_path, database_url, server):
            for _ in range(3):
                await until(lambda: server.mails)
                await until(lambda: _is_idle(shop))
                # Each look again, at once.
                await database.pool.execute("update alert_watches set look_at = 0")
                await until(lambda: _has_looked(shop))
        assert server.recipients == ["ada@example.com"]
        assert server.mails[0]["Subject"] == "Demo: The webhook Broken fails."


async def _is_idle(shop: Alerting) -> bool:
    return await shop.waiting() == 0


async def _has_looked(shop: Alerting) -> bool:
    return bool(await shop.post.database.pool.fetchval("select min(look_at) > 0 from alert_watches"))
