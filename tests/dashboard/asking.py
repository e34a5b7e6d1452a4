"""Requests to the dashboard without a browser: for status codes and headers, and for what no browser would send."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.types import Message

from latchkey.dashboard.cookie import SESSION
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import sessions
from tests.dashboard.site import Site
from tests.http.client import Reply

HOST = "dashboard.test"
# An event stream never ends; read it for so many seconds.
LIVE = 0.2


@dataclass(frozen=True)
class Person:
    """Somebody with a session, or without one."""

    site: Site
    token: str | None = None
    csrf: str = ""
    email: str = ""

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, headers=headers)

    async def post(self, path: str, form: Mapping[str, Any] | None = None, **headers: str) -> Reply:
        """As our own form would send it, with this session's token in it."""
        filled = {"csrf": self.csrf, **(form or {})}
        return await self.ask("POST", path, body=urlencode(filled, doseq=True).encode(), headers=headers)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str | None = "application/x-www-form-urlencoded",
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> Reply:
        """`path` is sent as it is. In the names of headers, an underscore stands for a dash."""
        sent = {"host": HOST}
        if self.token:
            sent["cookie"] = f"{SESSION}={self.token}"
        if method == "POST" and content_type is not None:
            sent["content-type"] = content_type
        sent.update({name.replace("_", "-"): value for name, value in (headers or {}).items()})
        raw_path, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "https",
            "path": raw_path, "raw_path": raw_path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": (address, 1), "server": (HOST, 443), "state": {},
        }  # fmt: skip
        return await self._exchange(scope, body)

    async def _exchange(self, scope: dict[str, Any], body: bytes) -> Reply:
        given, began = False, asyncio.Event()
        started: dict[str, Any] = {}
        received = bytearray()

        async def receive() -> Message:
            nonlocal given
            if given:
                await asyncio.Event().wait()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert not started, "a reply began twice"
                started.update(message)
                began.set()
            else:
                received.extend(message.get("body", b""))

        answering = asyncio.ensure_future(self.site.client.app(scope, receive, send))
        beginning = asyncio.ensure_future(began.wait())
        await asyncio.wait({answering, beginning}, return_when=asyncio.FIRST_COMPLETED)
        beginning.cancel()
        live = any(value.startswith(b"text/event-stream") for _, value in started.get("headers", ()))
        done, _ = await asyncio.wait({answering}, timeout=LIVE if live else None)
        if not done:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        else:
            answering.result()
        assert started, "there was no reply"
        headers: dict[str, str] = {}
        for raw, value in started["headers"]:
            name, text = raw.decode(), value.decode("latin-1")
            # The only header that may come twice; a line for each cookie.
            headers[name] = f"{headers[name]}\n{text}" if name == "set-cookie" and name in headers else text
        return Reply(started["status"], headers, bytes(received))


async def somebody(site: Site, role: Role | None = Role.OWNER, *, password: str | None = None) -> Person:
    """Somebody new with this role in the project, signed in."""
    return await signed_in(site, await site.person(role, password=password))


async def signed_in(site: Site, email: str) -> Person:
    """Somebody known, signed in once more."""
    account = await site.account(email)
    token = await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", site.clock.now)
    return await known(site, token)


async def known(site: Site, token: str) -> Person:
    session = await sessions.find_session(site.database, token, None, site.clock.now)
    assert session is not None
    return Person(site, token, session.csrf, session.account.email)


def cookie_of(reply: Reply, name: str = SESSION) -> str:
    """The session that a reply sets, or another cookie."""
    [value] = [line.removeprefix(f"{name}=") for line in set_cookies(reply) if line.startswith(f"{name}=")]
    return value.partition(";")[0]


def set_cookies(reply: Reply) -> list[str]:
    return reply.headers["set-cookie"].splitlines()
