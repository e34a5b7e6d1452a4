"""Clients that keep buying while the test breaks something, and the check of what must hold afterwards."""

from __future__ import annotations

import contextlib
import http.client
import json
import sqlite3
import ssl
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.subjects.api_keys.usecases import create_secret_key
from tests.cli.running import Up
from tests.crash.books import audit
from tests.databases import drained


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_documented(self) -> bool:
        """Whether it is JSON with a request id, and an error in one of the two documented shapes."""
        if "x-request-id" not in self.headers or self.headers.get("content-type") != "application/json":
            return False
        said = json.loads(self.body)
        return self.status < 400 or said.keys() >= {"code", "message"} or said.keys() >= {"type", "message"}


class Shop:
    """The service of `latchkey up`, as somebody with an API key sees it."""

    def __init__(self, up: Up, key: str) -> None:
        self.connection: dict[str, Any] = up.connection
        self.folder = up.folder
        self._key = key
        self._trusted = ssl.create_default_context(cafile=self.connection["ca_cert"])

    @classmethod
    async def open(cls, up: Up) -> Shop:
        async with Database(up.connection["database_url"]) as database:
            issued = await create_secret_key(
                database, up.connection["project_id"], "shoppers", real_now(), rate_limit=1_000_000
            )
        return cls(up, issued.plaintext)

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        with closing(
            http.client.HTTPSConnection(urlsplit(self.connection["base_url"]).netloc, timeout=60, context=self._trusted)
        ) as connection:
            headers = {"authorization": f"Bearer {self._key}"}
            if body is not None:
                headers["content-type"] = "application/json"
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())

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
