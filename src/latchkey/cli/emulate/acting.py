"""Talks to a running pretend store through its control API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from latchkey.cli.emulate.folder import Folder
from latchkey.cli.instants import shown
from latchkey.domain.refusal import Refusal
from latchkey.http_client import HttpClient, HttpError

FOLDERS = {"apple": Path(".latchkey-apple"), "google": Path(".latchkey-google")}
# A year of a life in one move sends dozens of notifications.
_PATIENCE = 600.0


def folder_of(given: Path | None) -> Folder:
    """The one that was named, else the one pretend store that runs here."""
    if given is not None:
        return Folder(given)
    here = [Folder(one) for one in FOLDERS.values() if Folder(one).control.exists()]
    if len(here) > 1:
        raise Refusal("Two pretend stores run here; say which with --folder .latchkey-apple or .latchkey-google.")
    if not here:
        raise Refusal("No pretend store runs here. Start one with `latchkey emulate apple`, or name its --folder.")
    return here[0]


def ask(folder: Path | None, method: str, path: str, body: Any = None) -> Any:
    """What the control API answers. Its refusals are raised with their own message."""
    return asyncio.run(_ask(folder_of(folder).control_url(), method, path, body))


async def _ask(control_url: str, method: str, path: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    raw = msgspec.json.encode(body) if body is not None else None
    async with HttpClient(timeout=_PATIENCE, https_only=False, use_proxy=False) as http:
        try:
            reply = await http.ask(method, control_url + path, headers=headers, body=raw)
        except HttpError as error:
            raise Refusal(f"The pretend store at {control_url} does not answer. Is it still running?") from error
    try:
        said = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        said = {}
    if reply.status != 200:
        wrong = said.get("error") if isinstance(said, dict) else None
        raise Refusal(str(wrong or f"The pretend store answered {reply.status}."))
    return said


def options(words: list[str]) -> dict[str, Any]:
    """`grace_days=16 trial=true reason=voluntary` as JSON values."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Refusal(f"{word!r} is not an option such as grace_days=16.")
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found


def show_purchases(console: Console, purchases: list[dict[str, Any]]) -> None:
    table = _table("purchase", "buyer", "product", "access", "until", "renews", "more")
    for one in purchases:
        table.add_row(
            _short(one["purchase"]),
            one["buyer"],
            one["product_id"],
            "yes" if one["active"] else "no",
            shown(one["access_ends_at"]) or "no end",
            "yes" if one["auto_renew"] else "no",
            _more(one),
        )
    console.print(table)


def show_notifications(console: Console, notifications: list[dict[str, Any]]) -> None:
    table = _table("at", "notification", "purchase", "state", "attempts", "last answer")
    for one in notifications:
        last = one["attempts"][-1] if one["attempts"] else {}
        answered = last.get("status") or last.get("answer") or last.get("did", "")
        table.add_row(
            one["at"],
            one["kind"],
            _short(one["purchase"] or ""),
            one["state"],
            str(len(one["attempts"])),
            str(answered),
        )
    console.print(table)


def _table(*columns: str) -> Table:
    """Nothing is cut: ids are there to be copied, and a narrow terminal wraps."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for one in columns:
        table.add_column(one, overflow="fold")
    return table


def _more(one: dict[str, Any]) -> str:
    said = {
        "in_trial": "trial",
        "billing_problem": "payment failed",
        "grace_ends_at": "grace",
        "refunded_at": "refunded",
        "next_product_id": f"then {one['next_product_id']}",
        "resumes_at": "pause",
        "replaced": "replaced",
    }
    notes = [words for field, words in said.items() if one[field]]
    return ", ".join(notes if one["acknowledged"] else [*notes, "not acknowledged"])


def _short(id: str) -> str:
    """A purchase token of Google has 150 characters. Its beginning is enough to name it."""
    return id if len(id) <= 24 else id[:24]
