"""Every state that any release has stored is read, and means what it meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from latchkey.domain.purchases.purchase import Reason
from latchkey.storage.customers.state_format import VERSION, decode, encode
from latchkey.usecases.rendering.view import look_at, view_for_reading
from tests.storage.golden_states import FIELDS, FOLDER, Kept, answer, answers_of, kept, lines, moments, release, row_of

# Empty in every stored state: they are stored in other tables.
NEVER_STORED = ("currency_transactions", "joined")
# A one-time purchase or grant ends for two of the reasons only, see `tick_purchase`.
OTHER_REASONS = set(Reason) - {Reason.DEVELOPER_INITIATED, Reason.UNKNOWN}
NEVER_HAPPENS = {f"purchases[].expired.reason = {reason.value}" for reason in OTHER_REASONS}


def name_of(path: Path) -> str:
    return f"{path.parent.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", kept(), ids=name_of)
def test_a_state_of_every_release_gets_the_answers_it_got_then(path: Path) -> None:
    known = json.decode(answers_of(path).read_bytes(), type=Kept)
    row = row_of(path.read_bytes(), known.next_due_at)
    for at in moments(known):
        assert answer(look_at(row, at)) == known.answers[str(at)]
        assert answer(view_for_reading(row, at)) == known.answers[str(at)]


@pytest.mark.parametrize("path", kept(), ids=name_of)
def test_nothing_of_an_old_state_is_lost_when_it_is_stored_anew(path: Path) -> None:
    customer = decode(path.read_bytes())
    assert decode(encode(customer)) == customer
    old, new = json.decode(path.read_bytes()), json.decode(encode(customer))
    if old.pop("v", 0) == VERSION:
        assert lost(old, new) == []


def lost(old: Any, new: Any, path: str = "") -> list[str]:
    """The paths at which the new value lacks something of the old one; the new one may have more fields."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [where for name in old for where in lost(old[name], new.get(name), f"{path}.{name}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [where for index, one in enumerate(old) for where in lost(one, new[index], f"{path}[{index}]")]
    return [] if old == new else [path]


def test_the_states_of_this_release_are_kept() -> None:
    assert (FOLDER / release()).is_dir(), (
        "The states of this release are not kept yet. Run `python -m tests.storage.golden_states record` and commit."
    )


def test_a_changed_form_of_the_state_has_a_new_version() -> None:
    path = FIELDS / f"{VERSION}.txt"
    recorded = path.read_text().splitlines() if path.exists() else []
    now = list(lines())
    gone = [line for line in recorded if line not in now]
    assert not gone, (
        f"Stored states have these, and the code no longer does: {gone}. Rows in the database keep the old form. Raise "
        "VERSION in storage/customers/state_format.py, add a step to STEPS that converts the old form, and run "
        "`python -m tests.storage.golden_states record`. Decision 63 says which release may write the new form."
    )
    new = [line for line in now if line not in recorded]
    lacking = [line for line in new if line.endswith("(required)") and not any(parent_of(line, one) for one in new)]
    assert not lacking or not recorded, f"States in the database lack these, so give them defaults: {lacking}."
    assert not new, (
        f"New in stored states: {new}. A process of the release before would drop a new field, and cannot read a new "
        "value, so only the release after this one may set them: see decision 63. Then run `python -m "
        "tests.storage.golden_states record`."
    )


def parent_of(line: str, other: str) -> bool:
    """Whether the other line is of the object that this field belongs to."""
    return other.partition(": ")[0] == line.partition(": ")[0].rpartition(".")[0]


def test_the_states_of_this_release_use_every_field_and_every_variant() -> None:
    used: set[str] = set()
    for path in kept():
        if path.parent.parent.name == release():
            used.update(uses(json.decode(path.read_bytes())))
    wanted: set[str] = set()
    for line in lines():
        path_of, _, type = line.partition(": ")
        if line.startswith(NEVER_STORED):
            continue
        if " = " in line:
            wanted.add(line)
        elif not type.startswith(("object", "array", "map", "enum")):
            wanted.add(path_of)
        if " or null" in type:
            wanted.add(f"{path_of} = null")
    unused = sorted(wanted - used - NEVER_HAPPENS)
    assert not unused, "Add a life to golden_lives.py that uses these."


def uses(value: Any, path: str = "") -> Iterator[str]:
    """Every path with its value, and every path whose value is not 0, false or empty."""
    if isinstance(value, dict):
        for name, one in value.items():
            inner = f"{path}{{}}" if path in ("attributes", "balances") else f"{path}.{name}" if path else name
            yield from uses(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from uses(one, f"{path}[]")
    else:
        yield f"{path} = {'null' if value is None else value}"
        # A 0, false or empty text does not show that the field is used.
        if value:
            yield path
