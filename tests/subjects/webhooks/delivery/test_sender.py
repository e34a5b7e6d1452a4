"""One POST from this process to a real receiver: what is sent, to which address, and how a failure is described."""

import asyncio
import base64
import hmac
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from standardwebhooks import Webhook as Standard

from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.outgoing_address import Network
from latchkey.server import Listener
from latchkey.settings import Settings
from latchkey.subjects.webhooks.delivery.destination import Outgoing
from latchkey.subjects.webhooks.delivery.sending.reply import Reply
from latchkey.subjects.webhooks.delivery.sending.request import signature
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.storage.lanes import AttemptResult
from latchkey.subjects.webhooks.usecases.registry import new_secret
from latchkey.wire.event import TEST_EVENT
from tests.patience import PATIENCE, until
from tests.subjects.webhooks.delivery.certificates import Certificates
from tests.subjects.webhooks.delivery.conftest import now_ms

LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
BODY = b'{"api_version":"1.0","event":{"id":"ev_1","type":"RENEWAL"}}'


async def send(
    sender: Sender, webhook: Webhook, id: str, body: bytes = BODY, *, is_test: bool = False
) -> AttemptResult:
    return await sender.send(webhook, id, Outgoing(webhook.url, body), is_test=is_test)


class Here:
    def __init__(self, port: int, arrivals: list[ReceivedWebhook], certs: Certificates) -> None:
        self.port = port
        self.arrivals = arrivals
        self.certs = certs

    def sender(
        self, *answers: Sequence[str], allowed: Sequence[Network] = LOOPBACK, timeout_ms: int = 60_000
    ) -> Sender:
        """Each lookup of a name gives the next of these lists; the last one is repeated."""
        asked = list(answers) or [["127.0.0.1"]]
        return Sender(
            now_ms,
            timeout_ms=timeout_ms,
            allowed=allowed,
            extra_ca=self.certs.authority,
            lookup=lambda *_: asked.pop(0) if len(asked) > 1 else asked[0],
        )

    def webhook(self, url: str = "", previous: str | None = None) -> Webhook:
        return Webhook(
            id="wh_1",
            name="x",
            url=url or f"https://localhost:{self.port}/",
            authorization="Bearer open sesame",
            secret=new_secret(),
            previous_secret=previous,
            previous_secret_until=now_ms() + 60_000 if previous else None,
        )


@pytest.fixture
async def here(certs: Certificates) -> AsyncIterator[Here]:
    arrivals: list[ReceivedWebhook] = []
    receiver = Receiver(lambda arrival, _: arrivals.append(arrival))
    async with listening(receiver, tls(*certs.good)) as port:
        yield Here(port, arrivals, certs)


@pytest.mark.parametrize("order", [1, -1])
async def test_every_authority_of_a_bundle_is_trusted(here: Here, tmp_path: Path, order: int) -> None:
    bundle = tmp_path / "bundle.pem"
    parts = [
        here.certs.authority.read_bytes(),
        b"# A comment, as bundles have them.\n",
        here.certs.stranger[0].read_bytes(),
    ]
    bundle.write_bytes(b"".join(parts[::order]))
    sender = Sender(now_ms, timeout_ms=60_000, allowed=LOOPBACK, extra_ca=bundle, lookup=lambda *_: ["127.0.0.1"])
    answer = await send(sender, here.webhook(), "ev_1")
    assert (answer.delivered, answer.error) == (True, None)


@pytest.mark.parametrize("authorization", [None, "Bearer open sesame"])
@pytest.mark.parametrize("is_test", [False, True])
async def test_the_log_shows_the_headers_that_were_sent(here: Here, authorization: str | None, is_test: bool) -> None:
    webhook = replace(here.webhook(), authorization=authorization)
    id = 'ev_"1"'
    answer = await send(here.sender(), webhook, id, is_test=is_test)
    shown = {name.lower(): value for name, value in json.decode(answer.request_headers).items()}
    if authorization is not None:
        assert shown.pop("authorization") == "Bearer ••••"
    sent = here.arrivals[0].headers
    assert shown == {name: sent[name] for name in shown}
    assert set(shown) == {
        *("content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature"),
        *([TEST_EVENT.lower()] if is_test else []),
    }


async def test_a_changed_webhook_is_sent_its_new_secret_at_once(here: Here) -> None:
    sender, webhook = here.sender(), here.webhook()
    await send(sender, webhook, "ev_1")
    changed = replace(webhook, secret=new_secret())
    await send(sender, changed, "ev_2")
    for one, arrival in zip((webhook, changed), here.arrivals, strict=True):
        Standard(one.secret).verify(BODY, arrival.headers)


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (["10.0.0.5"], "address not allowed: hooks.example is 10.0.0.5 (private)"),
        (["8.8.8.8", "127.0.0.1"], "address not allowed: hooks.example is 127.0.0.1 (loopback)"),
        (["169.254.169.254"], "link-local"),
        (["::ffff:192.168.0.1"], "private"),
        (["64:ff9b::a00:1"], "NAT64"),
    ],
)
async def test_a_name_with_any_address_that_is_not_public_is_refused(
    here: Here, addresses: list[str], words: str
) -> None:
    answer = await send(here.sender(addresses, allowed=()), here.webhook("https://hooks.example/"), "ev_1")
    assert answer.status is None
    assert words in (answer.error or "")


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "017700000001", "[::ffff:127.0.0.1]", "[::1]"])
async def test_an_address_in_any_notation_is_refused(here: Here, host: str) -> None:
    answer = await send(here.sender(allowed=()), here.webhook(f"https://{host}:{here.port}/"), "ev_1")
    assert "address not allowed" in (answer.error or "")
    assert here.arrivals == []


async def test_the_connection_goes_to_the_address_that_was_checked(here: Here) -> None:
    # A second lookup would give another address (DNS rebinding); there must be none.
    sender = here.sender(["127.0.0.1"], ["10.0.0.5"])
    webhook = here.webhook()
    for _ in range(3):
        assert (await send(sender, webhook, "ev_1")).delivered
    assert len(here.arrivals) == 3


async def test_where_the_first_address_is_dead_the_next_is_tried(here: Here) -> None:
    answer = await send(here.sender(["127.0.0.99", "127.0.0.1"]), here.webhook(), "ev_1")
    assert answer.delivered


async def test_a_certificate_for_another_name_says_so(here: Here) -> None:
    answer = await send(here.sender(), here.webhook(f"https://other.example:{here.port}/"), "ev_1")
    assert answer.error == "certificate belongs to another name"


async def test_a_receiver_that_never_answers_is_given_up(here: Here) -> None:
    answer = await send(here.sender(timeout_ms=300), here.webhook(f"https://localhost:{here.port}/hang"), "ev_1")
    assert answer.error == "timed out after 0.3 s"
    assert answer.took_ms < 60_000


@pytest.mark.parametrize(
    "headers", [b"content-length: 1000000", b"transfer-encoding: chunked"], ids=["long", "chunked"]
)
async def test_a_body_that_never_ends_is_not_waited_for_until_the_timeout(certs: Certificates, headers: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n4\r\nhalf")
        # Until the sender gives up.
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls(*certs.good)) as server:
        here = Here(server.sockets[0].getsockname()[1], [], certs)
        # The request itself would be given up only after an hour.
        said = await send(here.sender(timeout_ms=3_600_000), here.webhook(), "ev_1")
    assert (said.delivered, said.status, said.response_body[-4:]) == (True, 200, b"half")


async def test_the_log_keeps_only_the_beginning_of_long_headers(certs: Certificates) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-long: " + b"a" * 200_000 + b"\r\nx-short: b\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls(*certs.good)) as server:
        here = Here(server.sockets[0].getsockname()[1], [], certs)
        said = await send(here.sender(), here.webhook(), "ev_1")
    assert said.delivered
    logged = dict(json.decode(said.response_headers))
    assert logged.keys() == {"content-length", "x-long", "x-short"}
    assert 16_000 < len(logged["x-long"]) <= 16 * 1024
    assert len(said.response_headers) < 17_000


@pytest.mark.parametrize(("last", "kept"), [(b"ok", b"all ok"), (b"", b"all ")], ids=["comes later", "never comes"])
async def test_a_body_that_is_not_there_with_the_status_is_waited_for(
    certs: Certificates, last: bytes, kept: bytes
) -> None:
    go_on = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nx-two: a\r\nx-two: b\r\n\r\nall ")
        await go_on.wait()
        writer.write(last)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls(*certs.good)) as server:
        here = Here(server.sockets[0].getsockname()[1], [], certs)
        reply = await here.sender().post(here.webhook(), "ev_1", Outgoing(here.webhook().url, BODY), now_ms())
        assert isinstance(reply, Reply)
        assert reply.at_once() is None
        go_on.set()
        said = await reply.read()
    assert (said.delivered, said.status, said.response_body) == (True, 200, kept)
    assert [value for name, value in json.decode(said.response_headers) if name == "x-two"] == ["a", "b"]


@pytest.mark.parametrize("length", [1, 24, 64, 65, 200])
def test_a_signature_is_hmac_whatever_the_length_of_the_secret(length: int) -> None:
    key = bytes(range(length))
    secret = "whsec_" + base64.b64encode(key).decode()
    expected = base64.b64encode(hmac.digest(key, b"ev_1.1800000000." + BODY, "sha256")).decode()
    assert signature([secret], "ev_1", 1_800_000_000, BODY) == f"v1,{expected}"


def test_a_sealed_secret_opens_only_in_its_own_place_and_with_its_own_key() -> None:
    sealer = Sealer(bytes(32))
    sealed = sealer.seal("open sesame", "wh_1/authorization")
    assert b"sesame" not in sealed
    assert sealer.unseal(sealed, "wh_1/authorization") == "open sesame"
    assert sealer.seal("open sesame", "wh_1/authorization") != sealed
    for other, place in ((sealer, "wh_2/authorization"), (Sealer(bytes(31) + b"1"), "wh_1/authorization")):
        with pytest.raises(UnsealableError, match="LATCHKEY_SECRET_KEY"):
            other.unseal(sealed, place)


async def test_http2_is_spoken_where_it_is_offered(certs: Certificates) -> None:
    spoken: list[str] = []

    async def application(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "http":
            spoken.append(scope["http_version"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = Listener(application, listening, Settings(tls_cert=certs.good[0], tls_key=certs.good[1]))
        serving = asyncio.create_task(server.serve())
        sender = Sender(now_ms, timeout_ms=60_000, allowed=LOOPBACK, extra_ca=certs.authority)
        webhook = Webhook(id="wh_1", name="x", url=f"https://localhost:{port}/", secret=new_secret())
        answers = [await send(sender, webhook, "ev_1", b"{}") for _ in range(3)]
        await sender.close()
        server.stop()
        await asyncio.wait_for(serving, PATIENCE)
    assert [one.status for one in answers] == [200, 200, 200], answers
    assert set(spoken) == {"2"}


class Waiting:
    """Waits for the result of a post."""

    def __init__(self) -> None:
        self.result: asyncio.Future[Reply | AttemptResult | Exception] = asyncio.get_running_loop().create_future()

    async def answer(self) -> AttemptResult:
        reply = await self.result
        assert not isinstance(reply, Exception)
        return await reply.read() if isinstance(reply, Reply) else reply


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.99", "127.0.0.1"]], ids=["one", "two"])
async def test_who_cancels_a_post_without_a_task_hears_nothing_more(
    certs: Certificates, addresses: Sequence[str]
) -> None:
    arrivals: list[ReceivedWebhook] = []
    async with listening(Receiver(lambda arrival, _: arrivals.append(arrival)), tls(*certs.good)) as port:
        here = Here(port, arrivals, certs)
        sender, webhook = here.sender(addresses), here.webhook(f"https://localhost:{port}/hang")
        waiting, other = Waiting(), Waiting()
        looking_up = asyncio.create_task(send(sender, webhook, "ev_0"))
        await until(lambda: len(arrivals) == 1)
        post = sender.begin(webhook, "ev_1", Outgoing(webhook.url, BODY), now_ms(), waiting.result.set_result)
        assert post is not None
        assert sender.begin(webhook, "ev_2", Outgoing(webhook.url, BODY), now_ms(), other.result.set_result) is not None
        await until(lambda: len(arrivals) == 3)
        post.cancel()
    # The receiver has hung up on all of them.
    for answer in (await looking_up, await other.answer()):
        assert answer.error == "the receiver closed the connection before it had answered"
    assert not waiting.result.done()
