"""The numbered statements, and the mark that says which of them a test shows."""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

FILE = Path(__file__).with_name("statements.toml")
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Statement:
    number: str
    section: str
    text: str
    reading: str | None
    # Why no test can show it.
    untestable: str | None


def read_statements() -> Iterator[Statement]:
    for section in tomllib.loads(FILE.read_text())["section"]:
        readings, untestable = section.get("readings", {}), section.get("untestable", {})
        title = f"{section['number']} {section['title']}"
        for number, text in section["statements"].items():
            yield Statement(number, title, text, readings.get(number), untestable.get(number))


STATEMENTS = {statement.number: statement for statement in read_statements()}


def shows(*numbers: str) -> Callable[[Test], Test]:
    """Mark a test with the statements that it shows. A number may be a range: `2.5.1-13`."""
    every = [number for given in numbers for number in _spread(given)]
    unknown = [number for number in every if number not in STATEMENTS]
    if unknown:
        raise ValueError(f"statements.toml has no {', '.join(unknown)}")

    def mark(test: Test) -> Test:
        return pytest.mark.shows(*every)(test)  # type: ignore[no-any-return]  # a mark gives back what it marks

    return mark


def _spread(numbers: str) -> Iterator[str]:
    first, _, last = numbers.partition("-")
    section, _, start = first.rpartition(".")
    for count in range(int(start), int(last or start) + 1):
        yield f"{section}.{count}"
