"""A POST without a task, as the worker sends nearly all of its deliveries."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from latchkey.subjects.webhooks.delivery.sending.reply import AttemptResult, Reply
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from tests.patience import until
from tests.subjects.webhooks.delivery.certificates import Certificates
from tests.subjects.webhooks.delivery.conftest import now_ms
from tests.subjects.webhooks.delivery.test_sender import BODY, Here


class Waiting:
    """Waits for the result of a post."""

    def __init__(self) -> None:
        self.result: asyncio.Future[Reply | AttemptResult] = asyncio.get_running_loop().create_future()

    def answered(self, reply: Reply | AttemptResult, /) -> None:
        self.result.set_result(reply)

    def failed(self, error: Exception, /) -> None:
        self.result.set_exception(error)

    async def answer(self) -> AttemptResult:
        reply = await self.result
        return await reply.read() if isinstance(reply, Reply) else reply


@pytest.fixture
async def here(certs: Certificates) -> AsyncIterator[Here]:
    arrivals: list[ReceivedWebhook] = []
    receiver = Receiver(lambda arrival, _: arrivals.append(arrival))
    async with listening(receiver, tls(*certs.good)) as port:
        yield Here(port, arrivals, certs)


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.99", "127.0.0.1"]], ids=["one", "two"])
async def test_who_cancels_hears_nothing_more(certs: Certificates, addresses: Sequence[str]) -> None:
    arrivals: list[ReceivedWebhook] = []
    async with listening(Receiver(lambda arrival, _: arrivals.append(arrival)), tls(*certs.good)) as port:
        here = Here(port, arrivals, certs)
        sender, webhook = here.sender(addresses), here.webhook(f"https://localhost:{port}/hang")
        waiting, other = Waiting(), Waiting()
        looking_up = asyncio.create_task(sender.send(webhook, "ev_0", BODY))
        await until(lambda: len(arrivals) == 1)
        post = sender.begin(webhook, "ev_1", BODY, now_ms(), waiting)
        assert post is not None
        assert sender.begin(webhook, "ev_2", BODY, now_ms(), other) is not None
        await until(lambda: len(arrivals) == 3)
        post.cancel()
    # The receiver has hung up on all of them.
    for answer in (await looking_up, await other.answer()):
        assert answer.error == "the receiver closed the connection before it had answered"
    assert not waiting.result.done()
