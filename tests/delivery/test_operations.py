from __future__ import annotations

from msgspec import json
from standardwebhooks import Webhook as Standard

from latchkey.delivery.operations import operations_webhook, tell
from latchkey.delivery.receiver import Arrival, Receiver, listening, tls
from latchkey.delivery.role import operations_secret
from latchkey.delivery.sending.sender import Sender
from tests.delivery.conftest import PROJECT, Yard
from tests.delivery.processes import SECRET_KEY
from tests.delivery.test_order import Line
from tests.delivery.test_sender import LOOPBACK


async def test_an_operator_is_told_at_a_url_of_their_own_and_again_until_it_was_heard(yard: Yard) -> None:
    arrivals: list[Arrival] = []
    line = Line(yard, await yard.hook("https://receiver.example/"))
    for number in range(12):
        await yard.buy(f"user{number}")
    for later in (0, 61_000):
        line.now += later
        await line.record(await line.claim(10), 500)

    receiver = Receiver(lambda arrival, _: arrivals.append(arrival))
    sender = Sender(lambda: line.now, timeout_ms=60_000, allowed=LOOPBACK, extra_ca=yard.certs.authority)
    async with listening(receiver, tls(*yard.certs.good)) as port:
        to = operations_webhook(f"https://localhost:{port}/flaky/1", operations_secret(SECRET_KEY))
        assert await tell(yard.database, sender, to, line.now, 2000, lambda: 0.5) == 1
        assert await tell(yard.database, sender, to, line.now, 2000, lambda: 0.5) == 0
        assert await tell(yard.database, sender, to, line.now + 60_000, 2000, lambda: 0.5) == 1
        assert await tell(yard.database, sender, to, line.now + 10**9, 2000, lambda: 0.5) == 0
        await sender.close()
    first, second = arrivals
    assert first.body == second.body
    told = json.decode(second.body)
    assert (told["type"], told["project_id"], told["webhook_id"]) == ("webhook.failing", PROJECT, line.webhook.id)
    Standard(operations_secret(SECRET_KEY)).verify(second.body, second.headers)
