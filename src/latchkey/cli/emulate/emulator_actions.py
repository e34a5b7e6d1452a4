"""Input and output of the commands that act in a store emulator."""

from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from latchkey.cli.output import shown
from latchkey.domain.refusal import Refusal


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
            shown(one["at_ms"]),
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
