"""Jinja2 with autoescaping and strict undefined variables."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from latchkey.dashboard import store_form, texts
from latchkey.dashboard.compiled_templates import FOLDER, CompiledTemplates
from latchkey.domain import formats

STATIC = files("latchkey.dashboard") / "static"


def render(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


def are_cold() -> bool:
    """Whether templates have to be compiled: a page has just had to."""
    return _compiled().incomplete


def warm() -> None:
    """Compile all templates before a page needs them. That takes a second of CPU."""
    for name in environment().list_templates():
        environment().get_template(name)
        # Let requests run in between.
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
        # Unlimited, so that none is compiled twice.
        cache_size=-1,
        bytecode_cache=_compiled(),
    )
    made.globals["asset"] = asset
    made.filters.update(
        moment=moment,
        clock=texts.clock,
        day=texts.day,
        duration=texts.duration,
        ago=texts.ago,
        span=texts.span,
        money=texts.money,
        number=texts.number,
        percent=texts.percent,
        pretty=pretty,
        sentence=texts.sentence,
        parted=texts.parted,
        size=texts.size,
        store=texts.store,
        credential=store_form.label,
    )
    return made


@cache
def _compiled() -> CompiledTemplates:
    return CompiledTemplates(FOLDER, Path(__file__), Path(texts.__file__), Path(formats.__file__))


@cache
def asset(name: str) -> str:
    """The URL of a static file. It contains a hash, so browsers can cache it for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/dashboard/static/{name}?v={digest}"


def moment(at: int | None, absent: str = "–") -> Markup | str:
    """An instant in UTC; the script adds the reader's local time."""
    if at is None:
        return absent
    return Markup('<time datetime="{}">{}</time>').format(texts.iso(at), texts.instant(at))


def pretty(value: Any) -> str:
    """JSON over several lines; bytes and strings that contain JSON are decoded first, others are shown unchanged."""
    if isinstance(value, bytes | str):
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
        try:
            return msgspec.json.format(raw, indent=2).decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw.decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
