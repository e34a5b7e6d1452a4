"""Secrets of webhooks: in no reply, no error, no log and no table, whatever happens and whatever a receiver does."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import json

from latchkey import logs
from latchkey.delivery.receiver import tls
from latchkey.log_stream import LogStream
from tests.api.client import Reply
from tests.api.doings import did
from tests.api.management import delete, get, patch
from tests.api.receiving import HOOKS, Post, delivering

FIRST, SECOND, BAD = "first-s3cret", "second-s3cret", "bad-s3cret"


@pytest.fixture
async def echo(post: Post) -> AsyncIterator[str]:
    """The URL of a receiver that answers with whatever it was sent, in its headers and its body."""
    authority = post.settings.webhook_extra_ca
    assert authority is not None
    context: ssl.SSLContext = tls(authority.parent / "server.pem", authority.parent / "server.key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        body = head + await reader.readexactly(length)
        told = b" ".join(head.split(b"\r\n"))
        writer.write(b"HTTP/1.1 307 x\r\nlocation: /?%s\r\nx-told: %s\r\n" % (told.replace(b" ", b"+"), told))
        writer.write(b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()


async def test_no_secret_leaves_by_any_reply_or_the_log(
    post: Post, echo: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a service: lines of JSON on the stderr of this moment, whatever logging an earlier test has set up.
    monkeypatch.setattr(logs, "_json_stream", LogStream(sys.stderr))
    monkeypatch.setattr(logs, "_writes_info", True)
    replies: list[Reply] = []

    async def keep(call: Any) -> Any:
        replies.append(await call)
        return replies[-1].json()

    made = (await post.call("POST", "", {"name": "x", "url": echo, "authorization_header": f"Bearer {FIRST}"})).json()
    id, secrets = (
        made["id"],
        [FIRST, SECOND, BAD, made["signing_secret"], made["signing_secret"].removeprefix("whsec_")],
    )
    made.pop("signing_secret")
    assert not any(secret in str(made) for secret in secrets)
    async with delivering(post):
        await did(post, "purchase", "ada", "pro_yearly")
        await post.settled(id, "waiting", attempts=1)
        [one] = (await keep(post.call("GET", f"{id}/deliveries")))["items"]
        said = await keep(post.call("POST", f"{id}/test", {"type": "RENEWAL"}))
        # The receiver did echo it; what is shown of that is masked.
        assert "Bearer ••••" in said["body"]
        assert "Bearer ••••" in json.encode(said["headers"]).decode()
        assert "••••" in said["error"]
        detail = await keep(post.call("GET", f"{id}/deliveries/{one['id']}"))
        assert "Bearer ••••" in detail["attempts"][0]["response_body"]
        await keep(patch(post, f"{HOOKS}/{id}", {"authorization_header": f"Bearer {SECOND}"}))
        for wrong in (f"Bearer {BAD}\n", [BAD], {"Bearer": BAD}, f"Bearer {BAD}" * 1000):
            await keep(patch(post, f"{HOOKS}/{id}", {"authorization_header": wrong}))
            await keep(post.call("POST", "", {"name": "x", "url": echo, "authorization_header": wrong}))
        await keep(patch(post, f"{HOOKS}/{id}", {"authorization_header": f"Bearer {BAD}", "colour": 1}))
        rotated = (await post.call("POST", f"{id}/rotate_signing_secret")).json()
        secrets += [rotated["signing_secret"], rotated.pop("signing_secret").removeprefix("whsec_")]
        assert not any(secret in str(rotated) for secret in secrets)
        await keep(post.call("POST", f"{id}/test", {"type": "TEST"}))
        await keep(post.call("POST", f"{id}/deliveries/{one['id']}/resend"))
        await keep(post.call("GET", ""))
        await keep(post.call("GET", id))
        await keep(post.call("GET", f"{id}/deliveries?status=waiting"))
        await keep(post.call("POST", f"{id}/replay", {"since_ms": post.clock.now - 1, "status": "all"}))
        await keep(get(post, "operational_events"))
        await keep(delete(post, f"{HOOKS}/{id}"))
    log = capsys.readouterr()
    for secret in secrets:
        assert not [reply for reply in replies if secret.encode() in reply.body or secret in str(reply.headers)]
        assert secret not in log.out + log.err
    assert "webhooks" in log.out + log.err


async def test_no_table_holds_a_secret_in_the_clear(post: Post, echo: str) -> None:
    made = await post.hook(authorization_header=f"Bearer {FIRST}")
    await patch(post, f"{HOOKS}/{made['id']}", {"url": echo})
    rotated = (await post.call("POST", f"{made['id']}/rotate_signing_secret")).json()
    async with delivering(post):
        await did(post, "purchase", "ada", "pro_yearly")
        await post.settled(made["id"], "waiting", attempts=1)
    tables = await post.database.pool.fetch(
        "select relname from pg_class where relkind in ('r', 'p') and relnamespace = $1",
        await post.database.pool.fetchval("select 'public'::regnamespace::oid"),
    )
    assert {"webhooks", "attempts", "deliveries"} <= {row["relname"] for row in tables}
    for table in tables:
        rows = await post.database.pool.fetch(f'select t::text as row from "{table["relname"]}" t')
        stored = "\n".join(row["row"] for row in rows)
        for secret in (FIRST, made["signing_secret"][6:], rotated["signing_secret"][6:]):
            assert secret not in stored, table["relname"]
            assert secret.encode().hex() not in stored, table["relname"]
