"""Test events, rotated secrets, and that no secret of a webhook is in a reply, an error, a log or a table."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import json
from standardwebhooks.webhooks import Webhook as Verifier

from latchkey import logs
from latchkey.logs import LogStream
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, tls
from latchkey.subjects.webhooks.usecases.samples import TYPES
from latchkey.wire.event import Envelope
from tests.http.client import NOW, Reply
from tests.http.doings import did
from tests.http.management import delete, get, patch, walk
from tests.http.receiving import HOOKS, Post, delivering


async def tried(post: Post, id: str, type: str = "TEST") -> dict[str, Any]:
    reply = await post.call("POST", f"{id}/test", {"type": type})
    assert reply.status == 200, reply
    said: dict[str, Any] = reply.json()
    return said


def signature(secret: str, arrival: ReceivedWebhook) -> str:
    """The signature that the Standard Webhooks library computes for the same message."""
    at = datetime.fromtimestamp(int(arrival.headers["webhook-timestamp"]), UTC)
    return Verifier(secret).sign(arrival.headers["webhook-id"], at, arrival.body.decode())


async def test_every_type_arrives_signed_and_marked(post: Post) -> None:
    made = await post.hook(authorization_header="Bearer hush-hush")
    for type in TYPES:
        said = await tried(post, made["id"], type)
        assert (said["status"], said["delivered"], said["body"]) == (200, True, '{"message":"ok"}')
        assert "error" not in said
        assert 0 <= said["milliseconds"] < 60_000
        arrival = post.arrivals[-1]
        event = json.decode(arrival.body, type=Envelope).event
        assert event.type == said["event_type"] == type
        assert event.id == said["event_id"] == arrival.headers["webhook-id"]
        assert event.id.startswith("test_")
        assert event.environment == "SANDBOX"
        assert "sequence" not in json.decode(arrival.body)["event"]
        assert arrival.headers["authorization"] == "Bearer hush-hush"
        assert arrival.headers["content-type"] == "application/json"
        assert arrival.headers["latchkey-test-event"] == said["request_headers"]["Latchkey-Test-Event"] == "true"
        assert arrival.headers["webhook-signature"] == signature(made["signing_secret"], arrival)
        assert said["request_body"] == json.decode(arrival.body)
        assert said["request_headers"]["Authorization"] == "Bearer ••••"
    assert len({arrival.event.id for arrival in post.arrivals}) == len(TYPES)


async def test_a_test_changes_nothing(post: Post) -> None:
    made = await post.hook("/status/500")
    del made["signing_secret"]
    for type in TYPES:
        assert (await tried(post, made["id"], type))["status"] == 500
    assert await post.shown(made["id"]) == made
    assert (await post.shown(f"{made['id']}/deliveries"))["items"] == []
    assert await walk(post, "events") == []
    assert await walk(post, "customers") == []


async def test_a_test_looks_as_the_filters_would_let_it_through(post: Post) -> None:
    made = await post.hook(environment="production", app_id="app_demo", event_types=["EXPIRATION"])
    said = await tried(post, made["id"], "RENEWAL")
    event = said["request_body"]["event"]
    assert (event["environment"], event["app_id"]) == ("PRODUCTION", "app_demo")


@pytest.mark.parametrize(
    ("url", "status", "error"),
    [
        ("/status/204", 204, "answered 204 instead of 200"),
        ("/garbage", None, "the answer is not HTTP"),
        ("https://nowhere.invalid/", None, "name not found: nowhere.invalid"),
    ],
)
async def test_a_failure_is_told_in_words(post: Post, url: str, status: int | None, error: str) -> None:
    made = await post.hook(url if url.startswith("/") else "/", enabled=False)
    if not url.startswith("/"):
        await patch(post, f"{HOOKS}/{made['id']}", {"url": url})
    said = await tried(post, made["id"])
    assert (said["delivered"], said["status"], said["error"]) == (False, status, error)


async def test_while_a_rotation_overlaps_both_secrets_sign(post: Post) -> None:
    first = await post.hook()
    id, path = first["id"], f"{first['id']}/rotate_signing_secret"
    reply = await post.call("POST", path, {"overlap_seconds": 60})
    second = reply.json()
    assert reply.status == 200
    assert second["signing_secret"] != first["signing_secret"]
    assert second["previous_secret_expires_at"] == NOW + 60_000
    assert "signing_secret" not in await post.shown(id)

    await tried(post, id)
    both = [signature(one["signing_secret"], post.arrivals[-1]) for one in (second, first)]
    assert post.arrivals[-1].headers["webhook-signature"].split() == both

    post.clock.now += 60_000
    await tried(post, id)
    assert post.arrivals[-1].headers["webhook-signature"] == signature(second["signing_secret"], post.arrivals[-1])


@pytest.mark.parametrize(
    ("body", "expires", "signatures"), [({"overlap_seconds": 0}, None, 1), (None, NOW + 86_400_000, 2)]
)
async def test_without_an_overlap_only_the_new_secret_signs_and_by_default_both_for_a_day(
    post: Post, body: dict[str, int] | None, expires: int | None, signatures: int
) -> None:
    made = await post.hook()
    new = (await post.call("POST", f"{made['id']}/rotate_signing_secret", body)).json()
    assert new["previous_secret_expires_at"] == expires
    await tried(post, made["id"])
    signed = post.arrivals[-1].headers["webhook-signature"].split()
    assert signed[0] == signature(new["signing_secret"], post.arrivals[-1])
    assert len(signed) == signatures


async def test_a_new_authorization_is_sent_from_the_next_event_on(post: Post) -> None:
    id = (await post.hook(authorization_header="Bearer one"))["id"]
    await patch(post, f"{HOOKS}/{id}", {"authorization_header": "Bearer two"})
    await tried(post, id)
    assert post.arrivals[-1].headers["authorization"] == "Bearer two"
    await patch(post, f"{HOOKS}/{id}", {"authorization_header": None})
    said = await tried(post, id)
    assert "authorization" not in post.arrivals[-1].headers
    assert "Authorization" not in said["request_headers"]


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
    await patch(post, f"{HOOKS}/{made['id']}", {"url": echo, "authorization_header": f"Bearer {FIRST}"})
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
