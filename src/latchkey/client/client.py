"""The client: V1, V2 and the feed of events, with typed responses."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw

from latchkey.client.client_errors import BadAnswer, UnusableId
from latchkey.client.transport import Patience, Transport
from latchkey.http_client import Closing, HttpClient, HttpResponse
from latchkey.wire.event import Event
from latchkey.wire.v1 import SubscriberResponse
from latchkey.wire.v2 import ActiveEntitlement, Attribute, Customer, Page

DEADLINE = 30.0
LARGEST_PAGE = 100
# The sequence of the customer's last event in the response.
SEQUENCE_HEADER = "latchkey-sequence"

T = TypeVar("T")


class Client(Closing):
    """Reads users' entitlements. Use it as a context manager, or call `close`.

    `deadline` is the longest time, in seconds, that one read may take with all its attempts; every method also takes
    its own. `project_id` is only needed for V2.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        project_id: str = "",
        ca_cert: Path | str | None = None,
        deadline: float = DEADLINE,
        patience: Patience | None = None,
        _http: HttpClient | None = None,
    ) -> None:
        ca_pem = Path(ca_cert).read_bytes() if ca_cert is not None else None
        self._transport = Transport(base_url, api_key, ca_pem=ca_pem, patience=patience or Patience(), http=_http)
        self._project = f"/v2/projects/{_segment(project_id)}" if project_id else None
        self._deadline = deadline

    async def subscriber(self, app_user_id: str, *, deadline: float | None = None) -> SubscriberResponse:
        """V1: the user with all entitlements ever granted, subscriptions and attributes. An unknown user is created."""
        return await self._read(f"/v1/subscribers/{_segment(app_user_id)}", SubscriberResponse, deadline)

    async def customer(self, customer_id: str, *, deadline: float | None = None) -> Customer:
        """V2: the user's active entitlements and attributes, with the first page of each list."""
        return (await self.customer_as_of(customer_id, deadline=deadline))[0]

    async def customer_as_of(self, customer_id: str, *, deadline: float | None = None) -> tuple[Customer, int | None]:
        """Like `customer`, with the sequence of the last event that the response includes, if the service says so."""
        path = self._customer(customer_id)
        response = await self._get(path, deadline)
        sequence = response.header(SEQUENCE_HEADER) or ""
        return _decoded(response, path, Customer), int(sequence) if sequence.isdecimal() else None

    async def rest(self, page: Page[T], item: type[T], *, deadline: float | None = None) -> list[T]:
        """The items after a page that was part of another response; most lists end with their first page."""
        return [found async for found in self._items(page.next_page, item, deadline)]

    def active_entitlements(
        self, customer_id: str, *, deadline: float | None = None
    ) -> AsyncIterator[ActiveEntitlement]:
        path = f"{self._customer(customer_id)}/active_entitlements?limit={LARGEST_PAGE}"
        return self._items(path, ActiveEntitlement, deadline)

    def attributes(self, customer_id: str, *, deadline: float | None = None) -> AsyncIterator[Attribute]:
        return self._items(f"{self._customer(customer_id)}/attributes?limit={LARGEST_PAGE}", Attribute, deadline)

    def events(self, *, after: str | None = None, deadline: float | None = None) -> AsyncIterator[Event]:
        """All events of the project, oldest first, after the event with this id."""
        return self._items(_feed_path(self._v2, after), Event, deadline)

    async def event_page(self, *, after: str | None = None, deadline: float | None = None) -> Page[Raw]:
        """One page of the feed, each event exactly as delivered."""
        return await self._read(_feed_path(self._v2, after), Page[Raw], deadline)

    async def close(self) -> None:
        await self._transport.close()

    @property
    def _v2(self) -> str:
        if self._project is None:
            raise ValueError("V2 needs a project: give `project_id` to the client.")
        return self._project

    def _customer(self, customer_id: str) -> str:
        return f"{self._v2}/customers/{_segment(customer_id)}"

    async def _items(self, path: str | None, item: type[T], deadline: float | None) -> AsyncIterator[T]:
        seen = set()
        while path is not None:
            # A cursor that points to an earlier page would be followed for ever.
            if path in seen or not path.startswith("/"):
                raise BadAnswer(f"The list's next page is {path!r}, which leads nowhere new.")
            seen.add(path)
            page: Page[Any] = await self._read(path, Page[item], deadline)  # type: ignore[valid-type]  # known at run time
            for found in page.items:
                yield found
            path = page.next_page

    async def _read(self, path: str, type: type[T], deadline: float | None) -> T:
        return _decoded(await self._get(path, deadline), path, type)

    async def _get(self, path: str, deadline: float | None) -> HttpResponse:
        return await self._transport.get(path, self._deadline if deadline is None else deadline)


def _decoded(response: HttpResponse, path: str, type: type[T]) -> T:
    try:
        return msgspec.json.decode(response.body, type=type)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"The answer to {path} is not what the API promises: {error}") from error


def _segment(text: str) -> str:
    try:
        if text not in {".", ".."}:
            return quote(text, safe="")
    except UnicodeEncodeError:
        # A lone surrogate.
        pass
    raise UnusableId(f"The id {text!r} cannot be part of a URL.")


def _feed_path(v2: str, after: str | None) -> str:
    cursor = f"&starting_after={quote(after, safe='')}" if after is not None else ""
    return f"{v2}/events?limit={LARGEST_PAGE}{cursor}"
