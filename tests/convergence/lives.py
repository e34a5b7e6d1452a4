"""Simulated users over HTTP: on test clocks they buy, cancel, fail to pay, sign in, restore others' purchases, transfer
purchases and are erased.

A life is a clock with a few users who get in each other's way. Its seed alone decides what is tried and in which order;
what the service makes of it also depends on who is killed meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import json
from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError

DAY = 86_400_000
STEPS = ("PT1H", "PT9H", "P1D", "P3D", "P8D", "P16D", "P31D")
SUBSCRIPTIONS = ("pro_monthly", "pro_yearly", "team_monthly")
PRODUCTS = (*SUBSCRIPTIONS, "pro_lifetime", "coins_100")
# Actions that end a subscription, or give access for long, are rarer than those that continue it.
WEIGHTS = {
    "purchase": 8,
    "cancel": 6,
    "uncancel": 5,
    "change_product": 5,
    "fail_billing": 5,
    "recover_billing": 5,
    "pause": 3,
    "resume": 3,
    "extend": 3,
    "renew": 2,
    "refund": 2,
    "reverse_refund": 2,
    "issue_invoice": 1,
    "store_outage": 1,
    "expire": 1,
    "grant": 1,
    "revoke": 1,
    "transfer": 3,
    "log_in": 5,
    "restore": 4,
    "erase": 1,
}
# Actions that make no sense in the present state are refused; then another one is tried.
TRIES = 4
AT_ONCE = 24
# The number of different receipts in each life.
RECEIPTS = 6


class Lives:
    """All lives of a run, several at a time. `http` sends the API key. The service may be killed at any moment."""

    def __init__(self, http: Client, base_url: str, project_id: str, app_key: str, *, seed: int, together: int) -> None:
        self._http = http
        self._app_key = app_key
        # Every id of an erased customer, because erasure makes no event. And customers whose purchases went to an
        # erased one: a TRANSFER that is delivered after the erasure no longer names its source.
        self.erased: set[str] = set()
        self._v1 = f"{base_url}/v1"
        self._v2 = f"{base_url}/v2/projects/{project_id}"
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self.did: Counter[str] = Counter()
        self.refused = 0
        self._seed, self._together = seed, together
        self._lives: list[_Life] = []

    @property
    def count(self) -> int:
        return len(self._lives)

    @property
    def ids(self) -> list[str]:
        """Every id that any user ever had."""
        return [id for life in self._lives for id in (*life.ids, *life.members.values())]

    async def go_on(self, seconds: float) -> None:
        ends = time.monotonic() + seconds

        async def one_after_the_other() -> None:
            while time.monotonic() < ends:
                life = _Life(self._seed + len(self._lives))
                self._lives.append(life)
                await self._live(life, ends)

        await asyncio.gather(*(one_after_the_other() for _ in range(self._together)))

    async def _live(self, life: _Life, ends: float) -> None:
        made = await self._post(f"{self._v2}/test_clocks", {"name": life.name})
        assert made is not None
        life.id, life.now = made["id"], made["now_ms"]
        await asyncio.gather(*(self._begin(life, id) for id in life.ids))
        for _ in range(life.steps):
            if time.monotonic() > ends:
                return
            chosen = life.chances.sample(life.ids, life.chances.randint(1, len(life.ids)))
            await asyncio.gather(*(self._act(life, id) for id in chosen))
            moved = await self._post(f"{self._v2}/test_clocks/{life.id}/advance", {"by": life.chances.choice(STEPS)})
            if moved is not None:
                life.now = moved["now_ms"]

    async def _begin(self, life: _Life, user: str) -> None:
        """Create the user. Most buy something at once."""
        await self._post(f"{self._v2}/customers", {"id": user, "test_clock_id": life.id})
        chances = life.of_user[user]
        if chances.random() < 0.8 and await self._post(*self._request(life, user, "purchase", chances)) is not None:
            self.did["purchase"] += 1

    async def _act(self, life: _Life, user: str) -> None:
        chances = life.of_user[user]
        for _ in range(TRIES):
            name = chances.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if name == "log_in" and user not in life.members:
                continue
            if name == "erase":
                await self._erase(life, user)
                return
            if await self._post(*self._request(life, user, name, chances)) is not None:
                self.did[name] += 1
                return
            self.refused += 1

    async def _erase(self, life: _Life, user: str) -> None:
        """Erase the customer, and create a new one with the same id."""
        path = user.replace(":", "%3A")
        listed = await self._send("GET", f"{self._v2}/customers/{path}/aliases?limit=100", None)
        if listed is None:
            return
        told = await self._send("GET", f"{self._v2}/customers/{path}/events?limit=100", None)
        self.erased |= {item["id"] for item in listed["items"]}
        self.erased |= {id for item in (told or {"items": []})["items"] for id in item.get("transferred_from") or ()}
        await self._send("DELETE", f"{self._v1}/subscribers/{path}", None)
        await self._post(f"{self._v2}/customers", {"id": user, "test_clock_id": life.id})
        self.did["erase"] += 1

    def _request(self, life: _Life, user: str, name: str, chances: Random) -> tuple[str, dict[str, Any]]:
        customer = f"{self._v2}/customers/{user.replace(':', '%3A')}/actions"
        other = chances.choice(life.ids)
        match name:
            case "grant":
                ends_at = life.now + chances.randint(1, 60) * DAY if chances.random() < 0.8 else None
                body = {"entitlement_id": chances.choice(("pro", "team")), "expires_at": ends_at}
                return f"{customer}/grant_entitlement", body
            case "revoke":
                return f"{customer}/revoke_granted_entitlement", {"entitlement_id": chances.choice(("pro", "team"))}
            case "transfer":
                return f"{customer}/transfer", {"target_customer_id": other}
            case "log_in":
                # As a new customer, or as an existing one.
                chosen = chances.choice((other, life.members.get(user, other)))
                return f"{self._v1}/subscribers/identify", {"app_user_id": user, "new_app_user_id": chosen}
            case "restore":
                # Few receipts for many users, so that most belong to somebody else already.
                number = chances.randrange(RECEIPTS)
                token = f"test_{number}_{life.name.replace(' ', '')}"
                product = PRODUCTS[number % len(PRODUCTS)]
                return f"{self._v1}/receipts", {"app_user_id": user, "fetch_token": token, "product_id": product}
        return f"{self._v2}/test_store/actions", {"action": name, "app_user_id": user} | _details(name, life, chances)

    async def _post(self, url: str, body: dict[str, Any]) -> Any:
        return await self._send("POST", url, body)

    async def _send(self, method: str, url: str, body: dict[str, Any] | None) -> Any:
        """The reply, or None for a refusal. Repeats the request until there is an answer. If only the answer was lost,
        the repetition is refused or done twice, as with real clients."""
        async with self._at_once:
            while True:
                try:
                    asking = self._http.request(method, url)
                    if body is not None:
                        asking = asking.body_bytes(json.encode(body))
                    if url.endswith("/receipts"):
                        asking = asking.header("authorization", f"Bearer {self._app_key}")
                    response = await asking.build().send()
                    answer = bytes(await response.bytes())
                except PyreqwestError:
                    await asyncio.sleep(0.1)
                    continue
                if response.status >= 500:
                    await asyncio.sleep(0.1)
                    continue
                if response.status == 400 and b"This purchase was refunded" in answer:
                    # Its owner was erased after the refund, and nobody gets it any more.
                    return None
                assert response.status not in {400, 401, 403, 405, 415, 429}, (url, body, answer)
                return json.decode(answer) if response.status < 300 else None


def _details(name: str, life: _Life, chances: Random) -> dict[str, Any]:
    match name:
        case "purchase":
            product = chances.choice(PRODUCTS)
            return {"product_id": product, "trial": product == "pro_monthly" and chances.random() < 0.5}
        case "store_outage":
            return {"product_id": chances.choice(SUBSCRIPTIONS)}
        case "fail_billing":
            return {"grace_days": chances.choice((0, 6, 16))}
        case "change_product":
            when = chances.choice(("now", "at_renewal"))
            return {"new_product_id": chances.choice(SUBSCRIPTIONS), "when": when}
        case "pause":
            return {"resume_at_ms": life.now + chances.randint(20, 60) * DAY}
        case "extend":
            return {"days": chances.randint(1, 20)}
    return {}


class _Life:
    """A clock and its users; every third starts with an anonymous id."""

    def __init__(self, seed: int) -> None:
        self.name = f"life {seed}"
        self.id = ""
        self.now = 0
        self.chances = Random(self.name)
        self.steps = self.chances.randint(4, 20)
        self.ids = list(self._ids(seed, self.chances.randint(2, 12)))
        self.of_user = {id: Random(f"{seed} {id}") for id in self.ids}

        # The ids that anonymous users may log in as.
        anonymous = [id for id in self.ids if id.startswith("$")]
        self.members = {id: f"member{seed}.{place}" for place, id in enumerate(anonymous)}

    def _ids(self, seed: int, users: int) -> Iterator[str]:
        for user in range(users):
            named = f"user{seed}.{user}"
            yield f"$RCAnonymousID:{self.chances.getrandbits(128):032x}" if user % 3 == 2 else named
