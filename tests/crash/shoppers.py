"""Clients that keep buying while the test breaks something, and the check of what must hold afterwards."""

from __future__ import annotations

import contextlib
import http.client
import sqlite3
import threading
from typing import Any

from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.subjects.api_keys.usecases import create_secret_key
from tests.cli.running import Up, ask
from tests.crash.books import audit
from tests.databases import drained
from tests.http.client import Reply


def is_documented(reply: Reply) -> bool:
    """Whether it is JSON with a request id, and an error in one of the two documented shapes."""
    if "x-request-id" not in reply.headers or reply.headers.get("content-type") != "application/json":
        return False
    said = reply.json()
    return reply.status < 400 or said.keys() >= {"code", "message"} or said.keys() >= {"type", "message"}


class Shop:
    """The service of `latchkey up`, as somebody with an API key sees it."""

    def __init__(self, up: Up, key: str) -> None:
        self.connection: dict[str, Any] = up.connection
        self.folder = up.folder
        self._key = key

    @classmethod
    async def open(cls, up: Up) -> Shop:
        async with Database(up.connection["database_url"]) as database:
            issued = await create_secret_key(
                database, up.connection["project_id"], "shoppers", real_now(), rate_limit=1_000_000
            )
        return cls(up, issued.plaintext)

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        there = self.connection
        return ask(there["base_url"], method, path, body, authority=there["ca_cert"], key=self._key)

    def buy(self, user: str) -> Reply:
        path = f"/v2/projects/{self.connection['project_id']}/test_store/actions"
        return self.ask("POST", path, {"action": "purchase", "app_user_id": user, "product_id": "pro_yearly"})

    def is_ready(self) -> bool:
        return self.ask("GET", "/readyz").status == 200

    async def has_lost_nothing(self, bought: list[str]) -> None:
        """Every purchase that was answered with 200 is stored once, and the consumer has processed its event."""
        async with Database(self.connection["database_url"]) as database:
            await drained(database)
            customers, events = await audit(database)
            for user in bought:
                assert len(customers[user].subscriptions) == 1
                assert [event["type"] for event in events[user]] == ["INITIAL_PURCHASE"]
            told = {event["id"] for one in events.values() for event in one}
        with contextlib.closing(sqlite3.connect(self.folder / "consumer" / "consumer.db")) as copy:
            known = {row[0] for row in copy.execute("select event_id from billing_processed_events")}
        assert told <= known


class Shopper(threading.Thread):
    """Buys as a new customer each time, so that each answer of 200 stands for one customer."""

    def __init__(self, shop: Shop, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.shop = shop
        self.bought: list[str] = []
        self.replies: list[Reply] = []
        self._enough = threading.Event()

    def run(self) -> None:
        count = 0
        while not self._enough.wait(0.02):
            count += 1
            user = f"{self.name}-{count}"
            # A killed process sends no answer: nothing was acknowledged.
            with contextlib.suppress(OSError, http.client.HTTPException):
                reply = self.shop.buy(user)
                self.replies.append(reply)
                if reply.status == 200:
                    self.bought.append(user)

    def stop(self) -> None:
        self._enough.set()
        self.join()
