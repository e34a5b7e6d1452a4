"""Files that `-m` leaves out as a whole, such as `make quick` does. They are not even imported: collecting the tests of
the API's document takes each test process two seconds, because it builds the application for their names."""

import re
from pathlib import Path

_LEAVES_OUT = re.compile(r"\bnot (\w+)")
_MARKS = re.compile(r"^pytestmark = (\[.*?^\]|[^\n]*)", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def is_left_out(path: Path, expression: str) -> bool:
    """Whether every test of this file has a mark that the expression excludes. Only expressions of the form
    `not a and not b` are understood; with any other one nothing is left out here."""
    if path.suffix != ".py" or not path.name.startswith("test_"):
        return False
    if not re.fullmatch(r"not \w+( and not \w+)*", expression):
        return False
    return bool(marks_of(path.read_text(encoding="utf-8")) & set(_LEAVES_OUT.findall(expression)))


def marks_of(text: str) -> set[str]:
    """The marks that a file gives to all its tests."""
    found = _MARKS.search(text)
    return set(_MARK.findall(found[1])) if found else set()
