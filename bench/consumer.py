"""Events received by the reference consumer: signature and secret checked, deduplicated, synced and committed before
the response. On both databases, each next to a bare insert with the same server and TLS."""

import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import json
from pyreqwest.client import Client
from sqlalchemy import func, select
from standardwebhooks import Webhook

from bench.ground import Ground
from bench.load import Measured, client, measure
from bench.table import Row
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.copy_tables import jobs, processed_events
from latchkey.domain.instants import DAY, Ms, to_iso
from latchkey.now import real_now
from latchkey.wire.event import Attribute, Entitlement, Envelope, Event

BARS = {"PostgreSQL": 4_000, "SQLite": 4_000}
COUNT = 12_000
# Each has its own history; far enough apart that no event of a user overtakes another.
USERS = 2_000
CONNECTIONS = 64
SECRET = "the secret of the measurement"
SIGNING_SECRET = "whsec_bGF0Y2hrZXkgbWVhc3VyZXMgaXRzZWxmIGhlcmU="
TYPES = ("INITIAL_PURCHASE", "RENEWAL", "CANCELLATION", "UNCANCELLATION", "RENEWAL", "BILLING_ISSUE")


async def run(ground: Ground) -> list[Row]:
    await ground.database.pool.execute("create database consumer")
    urls = {"PostgreSQL": ground.server.url("consumer"), "SQLite": f"sqlite:///{ground.folder / 'consumer.db'}"}
    rows = []
    for name, url in urls.items():
        ceiling = await _bare(ground, url)
        measured, cpu = await _consumer(ground, url)
        ratio, bar = measured.per_second / ceiling.per_second, BARS[name]
        holds = measured.per_second >= bar
        rows += [
            Row(
                f"events received, {name}", measured.per_second, "/s", ceiling.per_second, ratio, f"≥ {bar:,}/s", holds
            ),
            Row(f"events received, {name}, p99", measured.p99_ms, "ms", ceiling.p99_ms),
            Row(f"events received, {name}, processor time of one", cpu, "ms"),
        ]
    return rows


async def _bare(ground: Ground, url: str) -> Measured:
    # In its own file, or in PostgreSQL its own table.
    words = ("insert", url + ".bare" if url.startswith("sqlite") else url)
    tls = (str(ground.certificates.cert), str(ground.certificates.key))
    async with ground.listening("bench.consuming", *words, *tls) as (address, _), _client(ground) as http:
        await measure(_poster(http, address, "warm"), CONNECTIONS, COUNT // 10)
        return await measure(_poster(http, address, "user"), CONNECTIONS, COUNT)


async def _consumer(ground: Ground, url: str) -> tuple[Measured, float]:
    environment = {
        "LATCHKEY_CONSUMER_SERVICE_URL": "https://127.0.0.1:1",
        "LATCHKEY_CONSUMER_PROJECT_ID": ground.project_id,
        "LATCHKEY_CONSUMER_API_KEY": "not asked for anything",
        "LATCHKEY_CONSUMER_WEBHOOK_SECRET": SECRET,
        "LATCHKEY_CONSUMER_SIGNING_SECRETS": SIGNING_SECRET,
        "LATCHKEY_CONSUMER_DATABASE_URL": url,
        "LATCHKEY_CONSUMER_TLS_CERT": str(ground.certificates.cert),
        "LATCHKEY_CONSUMER_TLS_KEY": str(ground.certificates.key),
        "LATCHKEY_CONSUMER_SWEEP_SECONDS": "0",
    }
    serving = ground.listening("bench.consuming", "consumer", environment=environment)
    async with serving as (address, pid), _client(ground) as http:
        await _answers(http, address)
        await measure(_poster(http, address, "warm"), CONNECTIONS, COUNT // 10)
        post = _poster(http, address, "user")
        before = _processor_ms(pid)
        measured = await measure(post, CONNECTIONS, COUNT)
        spent = _processor_ms(pid) - before
    await _kept(url)
    return measured, spent / COUNT


def _processor_ms(pid: int) -> float:
    """The CPU time of a process so far, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def _answers(http: Client, address: str) -> None:
    """Checks the responses before they are timed."""
    body = _body("first", 0, real_now())
    for expected, status, secret in (
        ({"error": "Unauthorized"}, 401, "another secret"),
        ({"message": "Event processed"}, 200, SECRET),
        ({"message": "Event already processed"}, 200, SECRET),
    ):
        response = await http.post(address + PATH).headers(_headers(body, secret)).body_bytes(body).build().send()
        answer = json.decode(bytes(await response.bytes()))
        assert (response.status, answer) == (status, expected), (response.status, answer)


async def _kept(url: str) -> None:
    """Checks that every event was processed once, in order, and that the copies match the last ones."""
    store = ConsumerStorage(url)
    try:
        async with store.database.reading() as connection:
            processed = await connection.scalar(
                select(func.count()).select_from(processed_events).where(processed_events.c.event_id.like("user_%"))
            )
            assert processed == COUNT, f"{processed} events of {COUNT} were processed"
            assert not await connection.scalar(select(func.count()).select_from(jobs)), "some events came late"
            for user in (0, USERS // 2, USERS - 1):
                copy = await store.copies.find(connection, f"user_{user}")
                assert copy is not None
                assert copy.subscription.last_sequence == COUNT // USERS, copy
                assert copy.subscription.subscription_status == "billing_issue", copy
                assert set(copy.held(real_now())) == {"pro"}, copy
    finally:
        await store.close()


PATH = "/webhooks/billing"


def _client(ground: Ground) -> Client:
    return client(ground.certificates.authority)


def _poster(http: Client, address: str, prefix: str) -> Callable[[int], Coroutine[Any, Any, None]]:
    now = real_now()
    bodies = [_body(prefix, number, now) for number in range(COUNT)]
    signed = [_headers(body, SECRET) for body in bodies]

    async def post(number: int) -> None:
        request = http.post(address + PATH).headers(signed[number]).body_bytes(bodies[number]).build()
        response = await request.send()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {await response.text()}")
        await response.bytes()

    return post


def _headers(body: bytes, secret: str) -> dict[str, str]:
    at = datetime.now(UTC)
    return {
        "content-type": "application/json",
        "authorization": f"Bearer {secret}",
        "webhook-id": "msg_bench",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(SIGNING_SECRET).sign("msg_bench", at, body.decode()),
    }


def _body(prefix: str, number: int, now: Ms) -> bytes:
    user, turn = f"{prefix}_{number % USERS}", number // USERS
    ends_at = now + (30 + turn) * DAY
    bought = to_iso(now)
    event = Event(
        id=f"{prefix}_{number}",
        type=TYPES[turn % len(TYPES)],
        app_user_id=user,
        original_app_user_id=user,
        aliases=[user],
        product_id="pro_monthly",
        period_type="normal",
        purchased_at_ms=now,
        expiration_at_ms=ends_at,
        original_purchase_date_ms=now,
        event_timestamp_ms=now + turn,
        environment="PRODUCTION",
        store="app_store",
        entitlements={
            "pro": Entitlement(expires_date=to_iso(ends_at), product_identifier="pro_monthly", purchase_date=bought)
        },
        subscriber_attributes={"$email": Attribute(value=f"{user}@example.com", updated_at_ms=now)},
        price=9.99,
        price_in_purchased_currency=9.99,
        currency="USD",
        takehome_percentage=0.85,
        sequence=turn + 1,
    )
    return json.encode(Envelope(event=event))
