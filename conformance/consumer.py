"""The reference consumer as a process, and its database as a file."""

import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.https import Reply, ask, wait_for
from conformance.service import LATCHKEY, ROOT, Service, environment

HOUR = 3_600_000
JWT_SECRET = "a secret of the suite, of at least 32 bytes"
WEBHOOK_SECRET = "webhook-secret-of-the-suite"


def token(user: str, secret: str = JWT_SECRET) -> str:
    """A signed-in user's token, as the app's own server would give it."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = part(json.dumps({"sub": user, "exp": int(time.time()) + 3600}).encode())
    signed = hmac.new(secret.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{part(signed)}"


@dataclass(frozen=True)
class Consumer:
    base: str
    ca: str | None
    database: Path
    log: Path

    def ask(self, method: str, path: str, user: str | None = None, value: Any = None) -> Reply:
        authorization = None if user is None else f"Bearer {token(user)}"
        return ask(self.base, method, path, value, ca=self.ca, authorization=authorization)

    def deliver(self, event: Any, authorization: str | None = f"Bearer {WEBHOOK_SECRET}") -> Reply:
        """An event as the service would send it."""
        return self.send({"api_version": "1.0", "event": event}, authorization)

    def send(self, body: Any, authorization: str | None = f"Bearer {WEBHOOK_SECRET}") -> Reply:
        return ask(self.base, "POST", "/webhooks/billing", body, ca=self.ca, authorization=authorization)

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.database, timeout=10)) as database, database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values).fetchall()]

    def record(self, user: str) -> dict[str, Any] | None:
        found = self.rows(
            "select * from billing_subscriptions where app_user_id = ? or app_user_id in"
            " (select app_user_id from billing_aliases where alias = ?)",
            user,
            user,
        )
        return found[0] if found else None

    def entitlements(self, user: str) -> dict[str, dict[str, Any]]:
        found = self.rows("select * from billing_entitlements where app_user_id = ?", user)
        return {row["entitlement_id"]: row for row in found}

    def processed(self, event_id: str) -> dict[str, Any] | None:
        found = self.rows("select * from billing_processed_events where event_id = ?", event_id)
        return found[0] if found else None

    def wait_until_processed(self, event_id: str) -> None:
        wait_for(lambda: self.processed(event_id), f"the consumer to process {event_id}")


def now_ms() -> int:
    return round(time.time() * 1000)


def iso(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms // 1000))


def event(user: str, type: str, held: Any = None, **more: Any) -> dict[str, Any]:
    """An event as the service sends it. `held` is when the entitlement `pro` ends, or None for no entitlement."""
    now = now_ms()
    pro = {"expires_date": held and iso(held), "product_identifier": "pro_monthly", "purchase_date": iso(now)}
    return {
        "id": str(uuid.uuid4()),
        "type": type,
        "app_user_id": user,
        "original_app_user_id": user,
        "aliases": [],
        "product_id": "pro_monthly",
        "event_timestamp_ms": now,
        "purchased_at_ms": now,
        "expiration_at_ms": held,
        "environment": "PRODUCTION",
        "store": "app_store",
        "entitlements": {} if held is None else {"pro": pro},
        **more,
    }


def told(consumer: Consumer, *events: dict[str, Any]) -> dict[str, Any]:
    """The record after these events."""
    for each in events:
        reply = consumer.deliver(each)
        assert (reply.status, set(reply.json)) == (200, {"message"}), reply
    record = consumer.record(events[-1]["app_user_id"])
    assert record is not None
    return record


@contextmanager
def consuming(
    service: Service,
    folder: Path,
    *,
    address: str | None = None,
    program: Sequence[str | Path] = (LATCHKEY, "consumer"),
    **settings: str,
) -> Iterator[Consumer]:
    """`latchkey consumer`, or a program that has it inside, until the end of the block. `address` is another service
    than the one under test."""
    certificate, key = service.certificates
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = {
        "SERVICE_URL": address or service.base,
        "PROJECT_ID": service.project,
        "API_KEY": service.key,
        "SERVICE_CA": service.ca or "",
        "WEBHOOK_SECRET": WEBHOOK_SECRET,
        "DATABASE_URL": f"sqlite:///{folder}/consumer.db",
        "JWT_SECRET": JWT_SECRET,
        "TLS_CERT": str(certificate),
        "TLS_KEY": str(key),
        "PORT": str(port),
        "SWEEP_SECONDS": "0",
        "LOG_FORMAT": "json",
        **settings,
    }
    given = {f"LATCHKEY_CONSUMER_{name}": value for name, value in names.items() if value and name != "NODE_ENV"}
    if "NODE_ENV" in settings:
        given["NODE_ENV"] = settings["NODE_ENV"]
    for name, value in (("PORT", str(port)), ("SSL_CERTIFICATE", str(certificate)), ("SSL_KEYFILE", str(key))):
        given[f"GRANIAN_{name}"] = value  # for an app that runs in the server of the examples
    log = folder / "consumer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            program,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(**given),
            start_new_session=True,
        )
    consumer = Consumer(f"https://{service.host}:{port}", service.ca, folder / "consumer.db", log)

    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return consumer.ask("GET", "/healthz").status == 200
        except OSError:
            return False

    try:
        wait_for(ready, "the consumer to start", 60)
        yield consumer
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
