"""What commands print: text for people, or JSON for programs; and instants as people read and type
them."""

import errno
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from latchkey.domain import formats
from latchkey.domain.instants import DAY, EARLIEST, HOUR, LATEST, MINUTE, Ms
from latchkey.domain.refusal import Refusal

OPTION = "--json"
JsonOption = Annotated[bool, typer.Option(OPTION, help="Print JSON instead of text; errors too, on stderr.")]
NameOption = Annotated[str | None, typer.Option("--name", help="The name that people see. Default: the id.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

DONE, FAILED, REFUSED = 0, 1, 2
# The disk is full, a quota is used up, or nobody reads the output any more.
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE})


def is_json(words: Sequence[str]) -> bool:
    """Whether this command line asks for JSON. For errors that come before a command reads its options."""
    return OPTION in (words[: words.index("--")] if "--" in words else words)


def write(value: Any) -> None:
    """One JSON document on stdout. Structs are those of the API, so that both have the same fields."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def write_line(value: Any) -> None:
    """One JSON document on a line, for a stream of them."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def write_list(items: Iterable[Any], *, more: bool = False) -> None:
    """A list has the form of a page of the API. `has_more` says that --limit cut it."""
    write({"object": "list", "items": list(items), "has_more": more})


def write_error(kind: str, message: str, **more: Any) -> None:
    sys.stderr.write(msgspec.json.encode({"error": {"type": kind, "message": message, **more}}).decode() + "\n")


def console(*, markup: bool = True) -> Console:
    return Console(highlight=False, markup=markup)


def told(words: str) -> None:
    """A note for people, on stderr, where stdout holds only what a script reads. `words` may hold markup."""
    Console(stderr=True, highlight=False).print(words, soft_wrap=True)


def bare(text: str) -> None:
    """The one thing on stdout, such as a new key."""
    sys.stdout.write(text + "\n")


def read_secret(source: str) -> str:
    """A secret from a file or (-) from stdin: on the command line, every user of the machine could read it."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise typer.BadParameter(f"{source} cannot be read: {reason}.") from None
    return text.rstrip("\r\n")


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Asks before something that cannot be undone. A program cannot be asked: it has to give --yes."""
    if yes:
        return
    if as_json:
        raise typer.BadParameter("is needed together with --json: nobody can be asked.", param_hint="--yes")
    typer.confirm(question, abort=True)


def table(*columns: str, ids: int = 1) -> Table:
    """A table without lines. The first `ids` columns are copied by people, so they are never cut."""
    made = [Column(one, no_wrap=n < ids, overflow="fold") for n, one in enumerate(columns)]
    return Table(*made, box=None)


# A table is as wide as its words need, up to this: a terminal that is narrower continues a line on the next one.
# Columns that are squeezed into 80 characters would break ids and types in the middle.
_WIDEST = 160


def show_table(table: Table, widest: int = _WIDEST) -> None:
    shown = console()
    needed = shown.measure(table, options=shown.options.update(width=widest)).maximum
    shown.width = max(shown.width, min(needed, widest))
    shown.print(table, soft_wrap=True)


def titled(title: str) -> Table:
    """Names and values below each other, under a title, when something is up."""
    table = Table(title=title, title_justify="left", title_style="bold green", show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other. Empty values are left out."""
    shown = Table(Column(no_wrap=True, style="bold"), Column(overflow="fold"), box=None, show_header=False)
    for name, value in facts:
        if value:
            shown.add_row(plain(name), plain(value))
    console().print(shown)


def show_list(rows: Sequence[Sequence[str]], columns: Sequence[str], nothing: str, more: str = "") -> None:
    if not rows and nothing:
        console().print(nothing)
        return
    made = table(*columns)
    for row in rows:
        made.add_row(*(plain(cell) for cell in row))
    show_table(made)
    if more:
        console().print(more, style="dim", soft_wrap=True)


def plain(text: str) -> str:
    """Text from outside, without what a terminal would obey and without Rich's markup."""
    return escape("".join(one if one.isprintable() else "\ufffd" for one in text))


_UNITS = {"m": MINUTE, "h": HOUR, "d": DAY}


def shown(instant: int | None) -> str:
    return "" if instant is None else formats.instant(instant, seconds=True)


def typed_ahead(text: str, now: Ms) -> Ms:
    """A date and time in UTC, or in how long: 12h, 90d."""
    if ahead := re.fullmatch(r"(\d{1,6})([hd])", text.strip()):
        return min(now + int(ahead[1]) * _UNITS[ahead[2]], LATEST)
    return _moment(text, "in how long: 12h, 90d")


def typed(text: str, now: Ms) -> Ms:
    """A date and time in UTC, or how long ago: 90m, 6h, 3d."""
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text.strip()):
        return max(now - int(ago[1]) * _UNITS[ago[2]], EARLIEST)
    return _moment(text, "how long ago: 90m, 6h, 3d")


def _moment(text: str, otherwise: str) -> Ms:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is not None:
        at = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        if EARLIEST <= at <= LATEST:
            return at
    raise Refusal(f"{text[:50]!r} is not a time. Give a date such as 2027-01-31T08:00, or {otherwise}.")


def typed_duration(text: str | None, option: str) -> str | None:
    if text is None:
        return None
    try:
        return formats.iso_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
