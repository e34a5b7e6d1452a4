"""The dashboard with real TLS, a real browser, a real receiver of webhooks, and a clock that the test moves."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

from latchkey.dashboard.cookie import SESSION
from latchkey.database.pool import Database
from latchkey.http.services import Services
from latchkey.process.dashboard_application import Dashboard
from latchkey.server import Listener
from latchkey.settings import Settings
from latchkey.subjects.accounts.rules import Account, Role
from latchkey.subjects.accounts.usecases import accounts, sessions, team
from tests.dashboard.accessibility import serious_findings as serious_findings
from tests.http.receiving import Post, delivering, posting

PASSWORD = "correct horse battery"
_people = itertools.count(1)


@dataclass
class Site(Post):
    url: str = ""
    dashboard: list[Dashboard] = field(default_factory=list)

    async def person(self, role: Role | None = Role.OWNER, *, password: str | None = None) -> str:
        """The e-mail address of somebody new with this role in the project, or without a role."""
        email = f"{role or 'nobody'}{next(_people)}@example.com"
        await accounts.create_account(self.database, email, self.clock.now, password=password)
        if role is not None:
            await team.add_member(self.database, self.project_id, email, role, self.clock.now)
        return email

    async def account(self, email: str) -> Account:
        account = await accounts.find_account(self.database, email)
        assert account is not None
        return account

    async def token(self, role: Role | None = Role.OWNER) -> str:
        """The session of somebody new who is signed in already."""
        account = await self.account(await self.person(role))
        return await sessions.open_session(self.database, account.id, "127.0.0.1", "a test", self.clock.now)

    def path(self, path: str = "") -> str:
        """Of a page of the project: `site.path("/customers")`."""
        return f"{self.url}/dashboard/projects/{self.project_id}{path}"


@dataclass
class Visitor:
    """Somebody at a browser. Whatever the browser complains about (a script that fails, content that the policy
    refuses, a file that is not there) is a failure of the test."""

    context: BrowserContext
    site: Site
    complaints: list[str] = field(default_factory=list)

    async def open(self, path: str = "") -> Page:
        page = await self.context.new_page()
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        await page.goto(self.site.path(path))
        return page


@asynccontextmanager
async def visiting(
    browser: Browser, site: Site, role: Role | None = Role.OWNER, **options: Any
) -> AsyncIterator[Visitor]:
    """Somebody who is signed in with this role (with no session for None) until the end of the block."""
    # No animations: drawing them without a graphics card would take most of the time of these tests.
    context = await browser.new_context(ignore_https_errors=True, reduced_motion="reduce", **options)
    if role is not None:
        await context.add_cookies([{"name": SESSION, "value": await site.token(role), "url": site.url, "secure": True}])
    visitor = Visitor(context, site)
    try:
        yield visitor
        assert not visitor.complaints, visitor.complaints
    finally:
        await context.close()


@asynccontextmanager
async def opened(database: Database, folder: Path, *, deliver: bool = True) -> AsyncIterator[Site]:
    """A site of its own over real TLS, until the end of the block."""
    made: list[Dashboard] = []

    def pages(settings: Settings) -> Any:
        def make(services: Services) -> Dashboard:
            made.append(Dashboard(services, settings))
            return made[0]

        return make

    async with posting(database, folder, pages) as post:
        with socket(AF_INET, SOCK_STREAM) as listening:
            listening.bind(("127.0.0.1", 0))
            listener = Listener(post.client.app, listening, post.settings)
            serving = asyncio.create_task(listener.serve())
            port = listening.getsockname()[1]
            values = {name: getattr(post, name) for name in post.__dataclass_fields__}
            site = Site(**values, url=f"https://127.0.0.1:{port}", dashboard=made)
            try:
                if deliver:
                    async with delivering(site):
                        yield site
                else:
                    yield site
            finally:
                made[0].closing.set()
                listener.stop()
                await serving
