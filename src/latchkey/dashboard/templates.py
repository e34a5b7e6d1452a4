"""Jinja2, strict in both senses: everything is escaped, and a name that was not given is an error."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from latchkey.dashboard import texts

STATIC = files("latchkey.dashboard") / "static"


def render(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


def warm() -> None:
    """Compile every template, which takes half a second: while the first visitor types a password, not on each page."""
    for name in environment().list_templates():
        environment().get_template(name)
        # Whoever is being served meanwhile goes first.
        time.sleep(0.01)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("latchkey.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # All of them, so that none is compiled twice.
        cache_size=-1,
    )
    made.globals["asset"] = asset
    made.filters.update(
        moment=moment,
        day=texts.day,
        ago=texts.ago,
        span=texts.span,
        money=texts.money,
        number=texts.number,
        percent=texts.percent,
        pretty=pretty,
        sentence=texts.sentence,
    )
    return made


@cache
def asset(name: str) -> str:
    """The address of one of our files. It changes with the file, so browsers may keep it for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/dashboard/static/{name}?v={digest}"


def moment(at: int | None, absent: str = "–") -> Markup | str:
    """An instant as people read it, in UTC; the script shows the reader's own time beside it."""
    if at is None:
        return absent
    return Markup('<time datetime="{}">{}</time>').format(texts.iso(at), texts.instant(at))


def pretty(value: Any) -> str:
    """JSON over several lines; bytes and text that are JSON are read first, all else is shown as it is."""
    if isinstance(value, bytes | str):
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
        try:
            return msgspec.json.format(raw, indent=2).decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw.decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
