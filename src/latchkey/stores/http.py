"""HTTP to the stores: one client with time limits, a bounded answer and no redirects.

A store that is down (no connection, a timeout, 429, 5xx) is `NoAnswer`. An answer that nobody can use (a redirect, one
without end) is `StoreDown`. Every other answer is given back, also a 4xx: what it means is the store's own business.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from latchkey.domain.instants import DAY, Ms
from latchkey.http_client import HttpClient, HttpConnectTimeoutError, HttpError, HttpTimeoutError, parse_retry_after
from latchkey.stores.errors import NoAnswer, StoreDown, read_json

T = TypeVar("T")

TIMEOUT = timedelta(seconds=15)
CONNECT_TIMEOUT = timedelta(seconds=5)
# A page of Apple's transaction history has 20 signed transactions of about 5 KB.
LARGEST_ANSWER = 4 * 1024 * 1024
# Apple writes Retry-After as an instant in milliseconds. No store asks anybody to wait for 30 years in seconds.
_AN_INSTANT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StoreResponse:
    """A complete answer with a status below 500 that is neither a redirect nor 429."""

    status: int
    # Names in lower case.
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self, type: type[T], store: str) -> T:
        """The body as `type`. An answer in another form comes from a proxy or a store in trouble: StoreDown."""
        wrong = StoreDown(f"{store} answered {self.status} with a body of an unexpected form.")
        return read_json(self.body, type, wrong)


class StoreHttp:
    """Keeps connections open. `store` is the name that messages use, such as "Apple"."""

    def __init__(
        self,
        store: str,
        now: Callable[[], Ms],
        *,
        timeout: timedelta = TIMEOUT,
        extra_ca: bytes | None = None,
        largest_answer: int = LARGEST_ANSWER,
    ) -> None:
        self.store = store
        self._now = now
        self._timeout = timeout
        self._extra_ca = extra_ca
        self._largest_answer = largest_answer
        self._http: HttpClient | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> StoreResponse:
        """`body` is sent as it is; its content type is one of `headers`."""
        if self._http is None:
            self._http = HttpClient(
                timeout=self._timeout.total_seconds(),
                connect_timeout=min(CONNECT_TIMEOUT, self._timeout).total_seconds(),
                user_agent="latchkey",
                extra_ca=self._extra_ca,
                # An emulator on this machine may speak plain HTTP; `allowed_address` refuses it elsewhere.
                https_only=False,
            )
        sent = {"accept": "application/json", **{name.lower(): value for name, value in (headers or {}).items()}}
        if json is not None:
            sent["content-type"], body = "application/json", msgspec.json.encode(json)
        elif form is not None:
            sent["content-type"], body = "application/x-www-form-urlencoded", urlencode(form).encode()
        if query:
            url += ("&" if "?" in url else "?") + urlencode(query)
        try:
            response = await self._http.ask(
                method,
                url,
                authorization=sent.pop("authorization", None),
                headers=sent,
                body=body,
                most_bytes=self._largest_answer,
            )
        # The client's own messages may repeat the URL, which can hold a purchase token.
        except HttpConnectTimeoutError:
            raise NoAnswer(f"{self.store} could not be reached: no connection in time.") from None
        except (HttpTimeoutError, TimeoutError):
            raise NoAnswer(f"{self.store} did not answer within {self._timeout.total_seconds():g} s.") from None
        except (HttpError, OSError):
            raise NoAnswer(f"{self.store} could not be reached: the connection failed.") from None
        if len(response.body) > self._largest_answer:
            raise StoreDown(f"{self.store} answered more than {self._largest_answer} bytes.")
        return self._usable(StoreResponse(response.status, dict(response.headers()), response.body))

    async def close(self) -> None:
        client, self._http = self._http, None
        if client is not None:
            await client.close()

    def _usable(self, answer: StoreResponse) -> StoreResponse:
        status = answer.status
        wait = retry_after(answer.headers.get("retry-after"), self._now())
        if status == 429:
            raise NoAnswer(f"{self.store} answered 429: too many requests.", wait)
        if status >= 500:
            raise NoAnswer(f"{self.store} answered {status}.", wait)
        if status == 408:
            raise StoreDown(f"{self.store} answered 408.", wait)
        if 300 <= status < 400:
            raise StoreDown(f"{self.store} answered {status}, a redirect. Redirects are not followed.")
        return answer


def in_path(id: str) -> str:
    """One segment of a path, whatever signs the id has."""
    return quote(id, safe="")


def retry_after(value: str | None, now: Ms) -> Ms | None:
    """Milliseconds to wait by a Retry-After header: seconds, a date, or an instant in epoch milliseconds."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit() and len(text) <= 15 and int(text) >= _AN_INSTANT:
        return min(max(0, int(text) - now), DAY)
    seconds = parse_retry_after(value, now / 1000)
    return None if seconds is None else round(seconds * 1000)
