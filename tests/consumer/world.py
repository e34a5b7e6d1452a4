"""A consumer with a fake service that the test sets up, users with tokens, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import jwt
import pytest
from msgspec import json
from pyreqwest.exceptions import ConnectError
from pyreqwest.middleware import Next
from pyreqwest.request import Request
from pyreqwest.response import Response, ResponseBuilder
from sqlalchemy import Table, func, select

from latchkey.client.client import Client
from latchkey.client.transport import Patience
from latchkey.consumer.billing_service import Checked
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.timestamps import DAY, to_iso
from latchkey.consumer.storage.copy_tables import metadata
from latchkey.http_client import HttpClient
from tests.client.service import active, customer, page
from tests.consumer.hosts import HOSTS
from tests.http.client import Client as Asking
from tests.http.client import Reply, running

NOW = 1_800_000_000_000
SECRET = "webhook secret"
JWT_SECRET = "0123456789abcdef0123456789abcdef"
OPERATOR = "operator token"
both_databases = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
_numbers = itertools.count(1)


@dataclass
class Service:
    """Answers V1, V2 and the feed from what a test puts here."""

    holds: dict[str, dict[str, int | None]] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    # Ids that lead to another customer.
    aliases: dict[str, str] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    feed: list[dict[str, Any]] = field(default_factory=list)
    down: bool = False
    untrusted: bool = False
    nonsense: bool = False
    status: int = 200
    # Something in between answers with this status.
    proxied: int | None = None
    # Of what is asked about these users only.
    statuses: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    # Called between the request and the reply.
    meanwhile: Any = None

    async def __call__(self, request: Request, _: Next) -> Response:
        url = urlsplit(str(request.url))
        path = unquote(url.path)
        self.asked.append(path)
        if self.down:
            raise ConnectError("refused", {"causes": [{"message": "Connection refused"}]})
        if self.untrusted:
            raise ConnectError("tls", {"causes": [{"message": "invalid peer certificate: UnknownIssuer"}]})
        if self.nonsense:
            return await ResponseBuilder().status(200).body_bytes(b"<html>").build()
        if self.proxied is not None:
            return await ResponseBuilder().status(self.proxied).body_bytes(b"<html>").build()
        status = self.statuses.get(path.rsplit("/", 1)[1], self.status)
        status, body = (status, _error("refused")) if status != 200 else self._answer(path, url.query)
        if self.meanwhile is not None:
            doing, self.meanwhile = self.meanwhile, None
            await doing()
        sequence = self.sequences.get(path.rsplit("/", 1)[1])
        said = {**self.headers, **({"Latchkey-Sequence": str(sequence)} if sequence is not None else {})}
        return await ResponseBuilder().status(status).headers(said).body_bytes(json.encode(body)).build()

    def _answer(self, path: str, query: str) -> tuple[int, Any]:
        if path.endswith("/events"):
            after = unquote(query.partition("starting_after=")[2])
            ids = [event["id"] for event in self.feed]
            if after and after not in ids:
                return 404, _error("no such event")
            rest = self.feed[ids.index(after) + 1 :] if after else self.feed
            more = "/v2/projects/p/events?limit=100&starting_after=" + rest[1]["id"] if len(rest) > 2 else None
            return 200, page(*rest[:2], next_page=more)
        asked = path.rsplit("/", 1)[1]
        user = self.aliases.get(asked, asked)
        if user not in self.holds:
            if path.startswith("/v2"):
                return 404, _error("no such customer")
            self.holds[user] = {}
        if path.startswith("/v1"):
            return 200, self._v1(user)
        noted = [
            {"object": "customer.attribute", "name": name, "value": value, "updated_at": 1}
            for name, value in self.attributes.get(user, {}).items()
        ]
        held = [active(id, ends) for id, ends in self.holds[user].items()]
        return 200, {**customer(*held, attributes=page(*noted)), "id": user}

    def _v1(self, user: str) -> Any:
        return {
            "request_date": to_iso(NOW),
            "request_date_ms": NOW,
            "subscriber": {
                "original_app_user_id": user, "original_application_version": None, "first_seen": to_iso(NOW),
                "last_seen": to_iso(NOW), "management_url": None, "original_purchase_date": None,
                "non_subscriptions": {}, "subscriptions": self.subscriptions.get(user, {}),
                "entitlements": {id: written(ends) for id, ends in self.holds[user].items()},
                "subscriber_attributes": {}, "other_purchases": {},
            },
        }  # fmt: skip


def _error(message: str) -> dict[str, Any]:
    return {"object": "error", "type": "invalid_request", "message": message, "retryable": False}


@dataclass
class World:
    consumer: Consumer
    service: Service
    asking: Asking
    clock: Clock

    async def deliver(self, event: Mapping[str, Any], *, secret: str | None = SECRET, **headers: str) -> Reply:
        return await self.post({"api_version": "1.0", "event": event}, secret=secret, **headers)

    async def post(self, body: Any, *, secret: str | None = SECRET, **headers: str) -> Reply:
        sent = {"authorization": f"Bearer {secret}", **headers} if secret is not None else headers
        raw = body if isinstance(body, bytes) else json.encode(body)
        return await self.asking.request("POST", "/webhooks/billing", body=raw, key=None, headers=sent)

    async def get(self, path: str, user: str | None = "ada", method: str = "GET") -> Reply:
        headers = {"authorization": f"Bearer {token(user, self.clock.now)}"} if user is not None else {}
        return await self.asking.request(method, path, key=None, headers=headers)

    async def operate(self, method: str, path: str, token: str = OPERATOR) -> Reply:
        return await self.asking.request(method, path, key=None, headers={"authorization": f"Bearer {token}"})

    async def copy(self, user: str = "ada") -> LocalCopy:
        found = await self.consumer._billing.local(user)
        assert found is not None, f"there is no copy of {user}"
        return found

    async def jobs_done(self) -> None:
        await self.consumer._runner.run_due()

    async def counts(self) -> dict[str, int]:
        async with self.consumer._store.database.reading() as connection:
            found = {
                table.name: await connection.scalar(select(func.count()).select_from(table))
                for table in metadata.sorted_tables
            }
        return {name: count or 0 for name, count in found.items()}

    async def rows(self, table: Table) -> list[dict[str, Any]]:
        async with self.consumer._store.database.reading() as connection:
            return [dict(row._mapping) for row in await connection.execute(select(table))]


@dataclass
class Clock:
    now: int = NOW

    def __call__(self) -> int:
        return self.now


def settings(url: str, **more: Any) -> Settings:
    return Settings(
        **{
            "service_url": "https://service.test", "project_id": "p", "api_key": "sk_key", "webhook_secret": SECRET,
            "database_url": url, "jwt_secret": JWT_SECRET, "operator_token": OPERATOR, "sweep_seconds": 0, **more,
        }
    )  # fmt: skip


@asynccontextmanager
async def world(url: str, host: str = "", **more: Any) -> AsyncIterator[World]:
    """A running consumer, by itself or in an app. Its background jobs run only when the test calls `jobs_done`."""
    service, clock = Service(), Clock()
    hurried = Patience(sleep=lambda _: asyncio.sleep(0))
    identify, jobs, checked = more.pop("identify", None), more.pop("jobs", None), more.pop("checked", False)
    http = HttpClient(middleware=service)
    client = Client("https://service.test", "sk_key", project_id="p", _http=http, patience=hurried, deadline=0.01)
    chosen = settings(url, **{"verify_timeout_ms": 1, **more})
    consumer = Consumer(chosen, client=client, now=clock, identify=identify, jobs=jobs)
    consumer._runner.start = lambda: None  # type: ignore[method-assign]  # jobs run when asked for
    if not checked:
        consumer.check_connection = _unchecked  # type: ignore[method-assign]  # so that tests can count requests
    app = consumer.app
    async with running(app):
        yield World(consumer, service, HOSTS[host](consumer) if host else Asking(app), clock)


async def _unchecked(deadline: float = 0) -> Checked:
    return Checked()


def event(type: str = "INITIAL_PURCHASE", user: str = "ada", **more: Any) -> dict[str, Any]:
    number = next(_numbers)
    return {
        "id": f"evt_{number}", "type": type, "app_user_id": user, "original_app_user_id": user, "aliases": [],
        "event_timestamp_ms": NOW, "environment": "PRODUCTION", "store": "app_store", "product_id": "pro_monthly",
        "period_type": "normal", "purchased_at_ms": NOW, "expiration_at_ms": NOW + 30 * DAY,
        "original_purchase_date_ms": NOW, "entitlements": pro(), **more,
    }  # fmt: skip


def pro(ends: int | None = NOW + 30 * DAY, product: str = "pro_monthly") -> dict[str, Any]:
    return {"pro": written(ends, product)}


def written(ends: int | None, product: str = "pro_monthly") -> dict[str, Any]:
    return {
        "expires_date": to_iso(ends) if ends is not None else None,
        "grace_period_expires_date": None,
        "product_identifier": product,
        "purchase_date": to_iso(NOW),
    }


def v1_subscription(**more: Any) -> dict[str, Any]:
    return {
        "auto_resume_date": None, "billing_issues_detected_at": None, "expires_date": to_iso(NOW + 30 * DAY),
        "grace_period_expires_date": None, "original_purchase_date": to_iso(NOW), "purchase_date": to_iso(NOW),
        "refunded_at": None, "unsubscribe_detected_at": None, "is_sandbox": True, "ownership_type": "PURCHASED",
        "period_type": "normal", "store": "test_store", **more,
    }  # fmt: skip


def token(user: str, _: int = NOW, **claims: Any) -> str:
    # PyJWT reads the real clock.
    return jwt.encode({"sub": user, "exp": 4_000_000_000, **claims}, JWT_SECRET, "HS256")
