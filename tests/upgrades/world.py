"""Users who meet either release with each request, what both releases answer, and what a receiver got."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from msgspec import json
from pyreqwest.client import Client
from standardwebhooks.webhooks import Webhook as Verifier

from latchkey.delivery.receiver import Arrival
from tests.convergence.lives import WEIGHTS, Lives

# Lives are told this address; each request then goes to one of the real ones.
EITHER = "https://either"
# These say when the request was, when a key was last used, and how deliveries go at the moment.
MOVING = ("request_date", "request_date_ms", "last_used_at", "health")

WITHOUT_ERASURE = {name: weight for name, weight in WEIGHTS.items() if name != "erase"}
WITH_ERASURE = WEIGHTS | {"erase": 6}
# The product of these lives that credits virtual currency.
CURRENCY = "coins_100"


class Mixed(Lives):
    """Users whose requests go to the old release and to the new one in turn. Nothing is killed, so none may fail.

    The last release answers 500 to a receipt of virtual currency whose owner was erased and had it from another
    customer. So nobody is erased while it runs alone, and after that such receipts go to the new release."""

    weights = WITHOUT_ERASURE
    patient = False

    def __init__(self, http: Client, project: str, app_key: str, *, users: int, clocks: int) -> None:
        super().__init__(http, EITHER, project, app_key, seed=17, users=users, clocks=clocks)
        self.addresses: tuple[str, ...] = ()
        self.sent: Counter[str] = Counter()
        self._turns = itertools.count()

    async def _send(self, method: str, url: str, body: dict[str, Any] | None) -> Any:
        address = self.addresses[next(self._turns) % len(self.addresses)]
        if url.endswith("/receipts") and body is not None and body["product_id"] == CURRENCY:
            address = self.addresses[-1]
        answer = await super()._send(method, url.replace(EITHER, address, 1), body)
        self.sent[address] += 1
        return answer


class Received:
    """What arrived at a receiver, by path."""

    def __init__(self) -> None:
        self.arrivals: dict[str, list[Arrival]] = defaultdict(list)

    def told(self, arrival: Arrival, _: str) -> None:
        self.arrivals[arrival.path].append(arrival)

    def ids(self, path: str) -> set[str]:
        return {one.event.id for one in self.arrivals[path]}

    def check_signatures(self, path: str, secret: str) -> None:
        verifier = Verifier(secret)
        for one in self.arrivals[path]:
            verifier.verify(one.body, one.headers)

    def is_in_order(self, path: str, places: dict[str, tuple[int, int]]) -> bool:
        """Whether each customer's events came first in the order of their sequence. `places` has the customer's record
        and the sequence of each event."""
        last: dict[int, int] = defaultdict(int)
        seen: set[str] = set()
        for one in self.arrivals[path]:
            if one.event.id in seen:
                continue
            seen.add(one.event.id)
            customer, sequence = places[one.event.id]
            if sequence < last[customer]:
                return False
            last[customer] = sequence
        return True


class Answers:
    """Everything that one API says of the project and of these users."""

    def __init__(self, http: Client, address: str, project: str) -> None:
        self._http = http
        self._address = address
        self._project = f"/v2/projects/{project}"
        self._few = asyncio.Semaphore(16)

    async def all(self, users: Iterable[str]) -> dict[str, Any]:
        users = list(users)
        paths = [path for user in users for path in self._of_user(user)]
        answers = await asyncio.gather(*(self._get(path) for path in paths))
        lists = ("events", "customers", "products", "entitlements", "test_clocks", "integrations/webhooks", "api_keys")
        pages = await asyncio.gather(*(self.whole(f"{self._project}/{name}") for name in lists))
        return dict(zip(paths, answers, strict=True)) | dict(zip(lists, pages, strict=True))

    def _of_user(self, user: str) -> list[str]:
        id = quote(user, safe="")
        customer = f"{self._project}/customers/{id}"
        of_customer = ("", "/events?limit=100", "/aliases", "/virtual_currencies", "/subscriptions")
        return [f"/v1/subscribers/{id}", *(customer + more for more in of_customer)]

    async def whole(self, path: str) -> list[Any]:
        """A list with all its pages."""
        items: list[Any] = []
        following: str | None = f"{path}?limit=100"
        while following is not None:
            status, page = await self._get(following)
            assert status == 200, (following, page)
            items += page["items"]
            following = page["next_page"]
        return items

    async def _get(self, path: str) -> tuple[int, Any]:
        async with self._few:
            response = await self._http.get(self._address + path).build().send()
            body = json.decode(bytes(await response.bytes()))
        assert response.status in (200, 404), (path, response.status, body)
        for one in (body, *body.get("items", ())):
            for name in MOVING:
                one.pop(name, None)
        return response.status, body


def differences(old: Any, new: Any, path: str = "") -> dict[str, Any]:
    """Where the new answer is not what the old one said. It may have fields that the old one does not know, and other
    words for people in an error: programs read its type and param."""
    if isinstance(old, dict) and isinstance(new, dict):
        words = {"message"} if old.get("object") == "error" or "doc_url" in old else set()
        found = [differences(old[name], new.get(name), f"{path} {name}".strip()) for name in old.keys() - words]
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        found = [differences(one, other, f"{path} {place}".strip()) for place, (one, other) in pairs]
    else:
        found = [{path: (old, new)}] if old != new else []
    return {name: both for one in found for name, both in one.items()}
