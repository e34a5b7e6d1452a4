"""A buyer of purchase links: a till in memory, a mailbox, and pages without a browser."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from latchkey.database.sealing import Sealer
from latchkey.subjects.mail.usecases import Mail, MailFolder, send_next
from tests.dashboard.asking import Person
from tests.dashboard.site import Site
from tests.http.client import Reply
from tests.http.management import post
from tests.http.receiving import SECRET_KEY
from tests.http.till import Page, opened_page, services_of

ADA = "ada@example.com"
DEEP_LINK = "notes://"


@dataclass
class Buyer:
    site: Site
    till: Page
    mail: Mail

    async def link(self, **what: Any) -> dict[str, Any]:
        reply = await post(
            self.site, "purchase_links", {"app_id": self.till.app_id, **(what or {"product_id": "pro_yearly"})}
        )
        assert reply.status == 201, reply
        made: dict[str, Any] = reply.json()
        return made

    async def open(self, path: str) -> Reply:
        return await Person(self.site).get(path)

    async def begin(self, link: Mapping[str, Any], product: str = "pro_yearly", user: str = "") -> tuple[str, str]:
        """The payment at the provider, and the path of the page after it."""
        query = f"product={product}" + (f"&app_user_id={user}" if user else "")
        reply = await self.open(f"{path_of(link['url'])}/checkout?{query}")
        assert reply.status == 303, reply
        handle = reply.headers["location"].rpartition("/")[2]
        return handle, path_of(self.till.provider.returns[handle].paid)

    async def buy(self, link: Mapping[str, Any] | None = None, user: str = "", email: str | None = ADA) -> str:
        """Pay, and come back. The page after the payment."""
        handle, done = await self.begin(link or await self.link(), user=user)
        self.till.provider.email = email
        self.till.provider.pays(handle)
        reply = await self.open(done)
        assert reply.status == 200, reply
        return reply.body.decode()

    async def redeem(self, token: str, user: str, key: str | None = None) -> Reply:
        body = {"redemption_token": token, "app_user_id": user}
        return await self.site.client.post("/v1/subscribers/redeem_purchase", body, key=key or self.site.public)

    async def mails(self) -> list[Any]:
        """All that were sent by now."""
        while await send_next(self.mail.database, self.mail.send, lambda: self.site.clock.now):
            pass
        return mails_in(Path(self.mail.folder or ""))

    async def mailed_tokens(self) -> list[str]:
        texts = [mail.get_body(("plain",)).get_content() for mail in await self.mails()]
        return [re.findall(r"/buy/redeem/(\S+)", text)[0] for text in texts]


def mails_in(folder: Path) -> list[Any]:
    files = sorted(folder.glob("*.eml"), key=lambda file: int(file.stem.rpartition("-")[2]))
    return [message_from_bytes(file.read_bytes(), policy=policy.default) for file in files]


def path_of(url: str) -> str:
    return urlsplit(url).path


def token_in(page: str) -> str:
    """Of the button that opens the app."""
    [found] = re.findall(rf'href="{DEEP_LINK}redeem_web_purchase\?redemption_token=([\w-]+)"', page)
    token: str = found
    return token


@asynccontextmanager
async def buying(site: Site, folder: Path, details: Mapping[str, Any] | None = None) -> AsyncIterator[Buyer]:
    till = await opened_page(site, "stripe", details or {"deep_link": DEEP_LINK})
    # The tests of a file share a database.
    till.provider.now, till.provider.series = site.clock.now, f"pay{uuid4().hex}"
    await site.database.pool.execute("delete from outgoing_mails")
    mail = Mail(site.database, MailFolder(folder), "Latchkey <x@example.com>", site.url, Sealer(SECRET_KEY))
    services: Any = services_of(site)
    before = services.mail
    services.mail = services.checkouts.mail = mail
    try:
        yield Buyer(site, till, mail)
    finally:
        services.mail = services.checkouts.mail = before
