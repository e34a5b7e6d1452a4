"""docs/export.md describes every column as the code does."""

import re
from pathlib import Path
from typing import get_args

import pytest

from latchkey.subjects.exports.rules import Every
from latchkey.subjects.exports.usecases.writer import WHAT
from latchkey.subjects.exports.wire import ROWS, columns
from latchkey.subjects.exports.wire import RowKind as Kind

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (\w+)(, always)? \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize("what", ROWS)
def test_every_column_is_described(what: str) -> None:
    heading = "## " + what.replace("_", " ").capitalize()
    [_, section] = PAGE.split(f"\n{heading}\n")
    described = ROW.findall(section.split("\n## ")[0])
    assert described == [
        (one.name, one.kind, "" if one.nullable else ", always", one.doc.replace("|", "\\|"))
        for one in columns(ROWS[what])
    ]


def test_every_type_and_every_choice_is_named() -> None:
    for kind in Kind:
        assert f"\n| {kind} |" in PAGE
    for word in (*WHAT, *get_args(Every)):
        assert f"`{word}`" in PAGE
