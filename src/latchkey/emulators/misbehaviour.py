"""How an emulator misbehaves on demand. Everything is drawn from one seed, so a run can be repeated.
docs/emulators.md says what each option and each fault of the API does.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from latchkey.domain.instants import HOUR, Ms
from latchkey.domain.refusal import Invalid
from latchkey.emulators.control_requests import invalid_if

Handler = Callable[[Request], Awaitable[Response]]

Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ApiFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: Literal["down", "busy", "error", "truncated", "slow", "lost"]
    probability: Probability = 1.0
    times: int | None = None
    status: Annotated[int, msgspec.Meta(ge=500, le=599)] = 503
    retry_after: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 1
    seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 1.0


class Misbehaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    seed: int = 0
    drop: Probability = 0.0
    duplicate: Probability = 0.0
    reorder: Probability = 0.0
    late: Probability = 0.0
    late_by_hours: Annotated[float, msgspec.Meta(ge=0, le=24 * 365)] = 6.0
    lie: Probability = 0.0
    lies: tuple[str, ...] = ()
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 0
    api: ApiFault | None = None


class Fate(msgspec.Struct, frozen=True):
    drop: bool = False
    copies: int = 1
    late_by: Ms = 0
    # How many later ones overtake it.
    overtaken_by: int = 0


class Dice:
    """Misbehaviour that is drawn. `lies` are those that this store knows."""

    def __init__(self, lies: frozenset[str]) -> None:
        self._known = lies
        self.wanted = Misbehaviour()
        self._random = random.Random(0)  # noqa: S311 - nothing secret is drawn
        self._calls_left: int | None = None

    def want(self, wanted: Misbehaviour) -> None:
        known = ", ".join(sorted(self._known))
        if unknown := sorted(set(wanted.lies) - self._known):
            raise Invalid(f"This store cannot lie about {', '.join(unknown)}; it can about {known}.")
        invalid_if(wanted.lie and not wanted.lies, f"`lie` needs `lies`, some of {known}.", "lies")
        self.wanted = wanted
        self._random = random.Random(wanted.seed)  # noqa: S311 - as above
        self._calls_left = wanted.api.times if wanted.api else None

    def fate(self) -> Fate:
        wanted, chance = self.wanted, self._random.random
        # Always as many draws, so that one setting does not move the others.
        drop, twice, late, behind, places = chance(), chance(), chance(), chance(), self._random.randint(1, 3)
        return Fate(
            drop=drop < wanted.drop,
            copies=2 if twice < wanted.duplicate else 1,
            late_by=int(wanted.late_by_hours * HOUR) if late < wanted.late else 0,
            overtaken_by=places if behind < wanted.reorder else 0,
        )

    def lie(self) -> str | None:
        chance, which = self._random.random(), self._random.random()
        lies = self.wanted.lies
        return lies[int(which * len(lies))] if lies and chance < self.wanted.lie else None

    def api_fault(self) -> ApiFault | None:
        fault = self.wanted.api
        if fault is None or self._calls_left == 0 or self._random.random() >= fault.probability:
            return None
        if self._calls_left is not None:
            self._calls_left -= 1
        return fault


_PAGE = "<html><body><h1>{status}</h1><p>The server is temporarily unable to service your request.</p></body></html>"


class BrokenResponse(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI calls it
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


def faulty(dice: Dice, handler: Handler, *, busy: bytes = b"{}") -> Handler:
    """`busy` is the body with which this store says that there were too many calls."""

    async def answer(request: Request) -> Response:
        fault = dice.api_fault()
        if fault is None:
            return await handler(request)
        match fault.kind:
            case "down":
                return BrokenResponse()
            case "busy":
                return Response(busy, 429, {"Retry-After": str(fault.retry_after)}, "application/json")
            case "error":
                return Response(_PAGE.format(status=fault.status), fault.status, media_type="text/html")
            case "slow":
                await asyncio.sleep(fault.seconds)
                return await handler(request)
            case "lost":
                await handler(request)
                return Response("upstream connect error", 502, media_type="text/plain")
            case "truncated":
                whole = await handler(request)
                half = bytes(whole.body)[: len(whole.body) // 2]
                return Response(half, whole.status_code, media_type=whole.media_type)

    return answer
