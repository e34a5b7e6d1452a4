"""A shop that sends alerts: over a real SMTP server, and to a real receiver in place of Slack."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.problem import ProblemKind
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.alerts.rules import Report
from latchkey.subjects.alerts.usecases import EVERY, Alerts
from latchkey.subjects.charts.usecases import FactCache
from latchkey.subjects.mail.usecases import mail_of, send_next
from latchkey.subjects.purchase_intake.usecases.store_connections import connect
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.rules import HEALTHY, WebhookHealth
from latchkey.subjects.webhooks.storage import webhook_rows
from tests.http.receiving import Post, posting
from tests.subjects.mail.mail_server import PASSWORD, USER, MailServer

SENDER = "Latchkey <no-reply@example.com>"
URL = "https://latchkey.example.com"
QUICK = (ProblemKind.WEBHOOK,)


@dataclass
class Alerting:
    post: Post
    alerts: Alerts

    async def member(
        self, name: str = "ada", kinds: Iterable[str] = QUICK, report: Report = "never", slack: str = ""
    ) -> str:
        """The account of somebody new who wants this."""
        post = self.post
        account, _ = await team.add_member(
            post.database, post.project_id, f"{name}@example.com", Role.VIEWER, post.clock.now
        )
        way = "slack" if slack else "mail"
        await self.alerts.subscribe(post.project_id, account.id, tuple(kinds), report, way, slack, post.clock.now)
        return account.id

    async def webhook(self, name: str = "Broken") -> str:
        return str((await self.post.hook("/", name=name))["id"])

    async def fails(self, id: str, *, since: Ms | None) -> None:
        """Since when it fails; None: it does not."""
        health = HEALTHY if since is None else WebhookHealth(failures=3, failing_since=since)
        async with self.post.database.transaction() as connection:
            key = await connection.fetchval("select key from webhooks where id = $1", id)
            await webhook_rows.save_health(connection, {key: health})

    async def work(self) -> None:
        """All that is due now."""
        now = self.post.clock
        while (
            await send_next(self.post.database, self.alerts.send, now)
            or await self.alerts.add_next_report(now())
            or await self.alerts.look_next(now())
        ):
            pass

    async def pass_time(self, ms: Ms) -> None:
        """Everything is done when it is due, or soon after."""
        step = max(EVERY, ms // 24)
        ends = self.post.clock.now + ms
        while self.post.clock.now < ends:
            self.post.clock.now = min(self.post.clock.now + step, ends)
            await self.work()

    async def waiting(self) -> int:
        count: int = await self.post.database.pool.fetchval("select count(*) from outgoing_mails")
        return count


def settings_of(server: MailServer) -> dict[str, Any]:
    return {
        "smtp_host": "127.0.0.1",
        "smtp_port": server.port,
        "smtp_user": USER,
        "smtp_password": PASSWORD,
        "smtp_extra_ca": server.certificates.authority,
        "mail_from": SENDER,
        "public_url": URL,
    }


@asynccontextmanager
async def alerting(database: Database, folder: Path, server: MailServer | None) -> AsyncIterator[Alerting]:
    own = settings_of(server) if server is not None else {}
    async with posting(database, folder, **own) as post, clock_role(post, folder) as alerts:
        yield Alerting(post, alerts)


@asynccontextmanager
async def clock_role(post: Post, folder: Path) -> AsyncIterator[Alerts]:
    settings, stores = post.settings, connect(post.database, post.settings, post.clock)
    sender = Sender(
        post.clock,
        timeout_ms=5_000,
        allowed=settings.webhook_allow_networks,
        extra_ca=settings.webhook_extra_ca,
    )
    charts = FactCache(post.database, folder / "charts")
    try:
        yield Alerts(settings, stores, charts, sender, mail_of(post.database, settings))
    finally:
        await charts.end()
        await sender.close()
        await stores.close()
