"""Lets a test clock of Latchkey follow the clocks of pretend stores."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from latchkey.cli.connections import Connection
from latchkey.cli.emulate.finding import Found
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.http_client import HttpClient, HttpError

# How long what the stores sent may take to be processed.
PATIENCE = 60.0
_AGAIN = 0.2


async def follow(stores: Sequence[Found], test_clock_id: str, to: Ms) -> Ms:
    """Where the test clock stands then. First everything that the stores sent is processed: a clock that runs ahead of
    a renewal would let the subscription end."""
    found = next((one for one in stores if one.up is not None), None)
    if found is None or (up := found.up) is None:
        raise Refusal(
            "--test-clock works with the stores of a `latchkey up`. For others, move the clock yourself: "
            f'POST /v2/projects/PROJECT/test_clocks/{test_clock_id}/advance with {{"to_ms": {to}}}.'
        )
    apps = [one.app.app_id for one in stores if one.app is not None]
    async with HttpClient(timeout=PATIENCE, extra_ca=found.authority, use_proxy=False) as http:
        clock = f"/test_clocks/{quote(test_clock_id, safe='')}"
        # A clock that stands later than the store stays where it is. A name that is wrong is told before waiting.
        to = max(to, (await _ask(http, up, "GET", clock))["now_ms"])
        for app_id in apps:
            until = time.monotonic() + PATIENCE
            waiting = f"/store_notifications?status=waiting&limit=1&app_id={app_id}"
            while (await _ask(http, up, "GET", waiting))["items"]:
                if time.monotonic() > until:
                    raise Refusal(
                        "Latchkey has not processed everything that the store sent, so the test clock was not moved. "
                        "See `latchkey journal list --status waiting`."
                    )
                await asyncio.sleep(_AGAIN)
        now: Ms = (await _ask(http, up, "POST", f"{clock}/advance", {"to_ms": to}))["now_ms"]
    return now


async def _ask(http: HttpClient, up: Connection, method: str, path: str, body: Any = None) -> Any:
    url = f"{up.base_url}/v2/projects/{up.project_id}{path}"
    headers = {"Content-Type": "application/json"}
    raw = None if body is None else msgspec.json.encode(body)
    try:
        reply = await http.ask(method, url, authorization=f"Bearer {up.api_key}", headers=headers, body=raw)
    except HttpError as error:
        raise Refusal(f"{up.base_url} does not answer. Is `latchkey up` still running?") from error
    said = msgspec.json.decode(reply.body)
    if reply.status >= 300:
        raise Refusal(str(said.get("message", f"The service answered {reply.status}.")))
    return said
