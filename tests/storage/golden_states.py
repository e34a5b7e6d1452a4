"""The states that releases have stored, kept to be read by every later one.

    golden/<release>/states/<life>.json    a state, byte for byte as that release stored it; never changed
    golden/<release>/answers/<life>.json   what today's V1 and V2 say of it at three moments
    golden/fields/<version>.txt            the fields of a state of each version

`python -m tests.storage.golden_states record` adds the states of the release in pyproject.toml, and the fields of the
current version; it refuses to change what is there. `… answers` writes all answers anew: do that only when V1 or V2 are
meant to say something else, and read the difference before you commit it. Decision 63 says when to do which.
"""

from __future__ import annotations

import dataclasses
import sys
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import json

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.storage.customers.state_format import VERSION, encode
from latchkey.usecases.engine.passing_time import next_due_at
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.view import LastSeen, Row, View, look_at
from tests.storage.golden_lives import CATALOG, LIVES

FOLDER = Path(__file__).parent / "golden"
FIELDS = FOLDER / "fields"
# After the end of a life: at once, in the period after, and when everything is over.
LATER = (0, 45 * DAY, 400 * DAY)


def release() -> str:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    return str(project["project"]["version"])


def kept() -> list[Path]:
    """Every state of every release."""
    return sorted(FOLDER.glob("*/states/*.json"))


def answers_of(state: Path) -> Path:
    return state.parent.parent / "answers" / state.name


@dataclasses.dataclass(frozen=True)
class Kept:
    """`next_due_at` of a state's row, and what V1 and V2 answer at each moment."""

    next_due_at: Ms | None
    answers: dict[str, Any]


def answer(view: View) -> Any:
    """What V1 and V2 answer, as plain JSON."""
    said = {"v1": v1.subscriber(view, with_attributes=True), "v2": v2.customer(view)}
    return json.decode(json.encode(said))


def row_of(state: bytes, due: Ms | None, catalog: Catalog = CATALOG) -> Row:
    return Row(1, state, catalog, None, due, LastSeen(0))


def moments(kept: Kept) -> list[Ms]:
    return [int(moment) for moment in kept.answers]


def lines(shape: Any = Customer, path: str = "") -> Iterator[str]:
    """Every field of a state with its type, and whether a state may lack it."""
    types = get_type_hints(shape)
    for field in dataclasses.fields(shape):
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        yield from _field(types[field.name], f"{path}{field.name}", "" if optional else " (required)")


def _field(type: Any, path: str, note: str) -> Iterator[str]:
    origin, parts = get_origin(type), get_args(type)
    if dataclasses.is_dataclass(type):
        yield f"{path}: object{note}"
        yield from lines(type, f"{path}.")
    elif origin in (Union, UnionType):
        (inner,) = (part for part in parts if part is not NoneType)
        yield from _field(inner, path, f" or null{note}")
    elif origin is tuple:
        yield f"{path}: array{note}"
        yield from _field(parts[0], f"{path}[]", "")
    elif origin is not None:
        yield f"{path}: map{note}"
        yield from _field(parts[1], f"{path}{{}}", "")
    elif issubclass(type, StrEnum):
        # Each value on a line of its own: a new one is an addition.
        yield f"{path}: enum{note}"
        yield from (f"{path} = {one.value}" for one in type)
    else:
        yield f"{path}: {type.__name__}{note}"


def record() -> None:
    """Keep the states of this release, and the fields of this version."""
    folder = FOLDER / release()
    for life in LIVES:
        book = life()
        path = folder / "states" / f"{life.__name__}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(state := encode(book.customer))
            due = next_due_at(book.customer)
            said = {str(book.now + later): answer(look_at(row_of(state, due), book.now + later)) for later in LATER}
            write_answers(path, Kept(due, said))
    fields, now = FIELDS / f"{VERSION}.txt", list(lines())
    if fields.exists() and (gone := set(fields.read_text().splitlines()) - set(now)):
        sys.exit(f"Version {VERSION} has lost {sorted(gone)}. Raise VERSION and add a step: see decision 63.")
    FIELDS.mkdir(parents=True, exist_ok=True)
    fields.write_text("\n".join(now) + "\n")


def write_answers(state: Path, kept: Kept) -> None:
    path = answers_of(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.format(json.encode(kept), indent=1) + b"\n")


def answer_anew() -> None:
    for path in kept():
        known = json.decode(answers_of(path).read_bytes(), type=Kept)
        said = {str(at): answer(look_at(row_of(path.read_bytes(), known.next_due_at), at)) for at in moments(known)}
        write_answers(path, Kept(known.next_due_at, said))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record"]:
            record()
        case ["answers"]:
            answer_anew()
        case _:
            sys.exit(__doc__)
