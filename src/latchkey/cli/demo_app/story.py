"""What the page shows of a user: only from the consumer's local copy, as an app's own server would. The page has
nothing inline and nothing from other hosts, so that the policy can be strict."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

from msgspec import Struct

from latchkey.cli.demo_app.arrivals import ArrivedEvent
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.timestamps import Ms
from latchkey.runtime.bridge_script import web_module

ENTITLEMENT = "pro"

State = Literal["free", "pro", "trouble", "cancelled", "ended"]

_STATES: dict[str | None, State] = {
    "active": "pro",
    "trial": "pro",
    "paused": "cancelled",
    "billing_issue": "trouble",
    "cancelled": "cancelled",
    "expired": "ended",
}


class Story(Struct, frozen=True, kw_only=True):
    user: str
    state: State
    # The time of the user's test clock.
    now: Ms
    until: Ms | None
    # Newest first.
    events: Sequence[ArrivedEvent]


def tell(user: str, copy: LocalCopy | None, now: Ms, events: Sequence[ArrivedEvent]) -> Story:
    known = copy.subscription if copy is not None else None
    held = copy.entitlements.get(ENTITLEMENT) if copy is not None else None
    return Story(
        user=user,
        state=_STATES.get(known.subscription_status, "free") if known is not None and known.exists else "free",
        now=now,
        until=held.expires_at if held is not None else None,
        events=events,
    )


_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_OWN = ("style.css", "scene.css", "app.js", "server.js", "words.js", "icon.svg")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


def policy() -> dict[str, str]:
    return {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def _read(name: str) -> tuple[str, str]:
    content = files("latchkey.cli.demo_app").joinpath("web", name).read_text(encoding="utf-8")
    return content, _KINDS[name.rsplit(".")[-1]]


# Content and type by path.
PAGES = {
    "/": _read("index.html"),
    **{f"/demo/{name}": _read(name) for name in _OWN},
    # The same module that an app uses in its own web content.
    "/demo/push.js": (web_module(), _KINDS["js"]),
}
