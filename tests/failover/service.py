"""The whole service in one process that can be watched from outside, and buyers who never give up."""

import asyncio
import base64
import http.client
import json
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from latchkey import logs
from latchkey.database.pool import Database
from latchkey.process.service import run_process
from latchkey.settings import load
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from tests.cli.running import ask
from tests.forks import Process, announce
from tests.http.client import Reply
from tests.subjects.webhooks.delivery.processes import SECRET_KEY

ROLES = ("api", "clock", "delivery")


class Service(Process):
    """All roles, without the supervisor that would start it again: a process that ends fails the test."""

    def __init__(self, folder: Path, database_url: str, authority: Path) -> None:
        self.log = folder / "service.log"
        environment = {
            "LATCHKEY_DATABASE_URL": database_url,
            "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
            "LATCHKEY_BEHIND_PROXY": "true",
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(authority),
            "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            "LATCHKEY_WEBHOOK_TIMEOUT_MS": "5000",
            "LATCHKEY_SHUTDOWN_DELAY_SECONDS": "0",
            "LATCHKEY_ADDRESS_REQUESTS_PER_MINUTE": "0",
            "LATCHKEY_LOG_FORMAT": "json",
        }
        super().__init__(_serve, log=self.log, environment=environment)
        self.address = f"http://127.0.0.1:{self.announced}"

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [said for line in lines if (said := json.loads(line)).get("event") == event]

    def ready(self) -> tuple[int, str]:
        """The status of /readyz, and its reason."""
        reply = ask(self.address, "GET", "/readyz")
        return reply.status, reply.json().get("reason", "")


@dataclass
class Buyer(threading.Thread):
    """Buys coins for a few customers, one purchase after the other. Like a phone, it repeats a purchase until it is
    answered with 200."""

    address: str
    key: str
    label: str
    pause: float = 0.02
    # The token of each acknowledged purchase, and whose it is; when the answers came; and every other answer.
    bought: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    refused: list[Reply] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._enough = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        number = 0
        while not self._enough.is_set():
            number += 1
            user = f"{self.label}{number % 5}"
            token = f"test_{number}_{self.label}"
            body = {"app_user_id": user, "fetch_token": token, "product_id": "coins_100"}
            while not self._enough.is_set():
                try:
                    reply = ask(self.address, "POST", "/v1/receipts", body, key=self.key)
                except (OSError, http.client.HTTPException):
                    # The service was killed: no answer is no promise.
                    self._enough.wait(0.1)
                    continue
                if reply.status == 200:
                    self.bought[token] = user
                    self.times.append(time.monotonic())
                    break
                self.refused.append(reply)
                self._enough.wait(0.05)
            self._enough.wait(self.pause)

    def stop(self) -> None:
        self._enough.set()
        self.join()

    def first_after(self, moment: float) -> float | None:
        return next((at for at in list(self.times) if at > moment), None)


async def open_shop(database: Database) -> Demo:
    """The demo's project, with keys that may ask as often as they like."""
    demo = await ensure_demo(database, 0, secret_key=None, public_key=None)
    await database.pool.execute("update api_keys set rate_limit = 1000000")
    return demo


async def _serve(stop: asyncio.Event) -> None:
    logs.configure("info", "json")
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        listening.setblocking(False)
        announce_port = partial(announce, listening.getsockname()[1])
        await run_process(load(os.environ), ROLES, listening, stop, ready=announce_port)
