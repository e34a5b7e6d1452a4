"""The suite of the specification, without running it: every statement is on the page, and no test claims another."""

import ast
import re
from pathlib import Path

from conformance.__main__ import PAGE
from conformance.statements import STATEMENTS, _spread

SUITE = Path(__file__).parents[2] / "conformance"


def claimed() -> dict[str, set[str]]:
    """The tests that show each statement, by the marks in their source."""
    found: dict[str, set[str]] = {number: set() for number in STATEMENTS}
    for file in SUITE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "shows":
                    for given in mark.args:
                        assert isinstance(given, ast.Constant)
                        for number in _spread(str(given.value)):
                            found[number].add(f"{file.name}::{node.name}")
    return found


def on_the_page() -> dict[str, tuple[str, str, set[str]]]:
    rows = re.findall(r"^\| ([\d.]+) \| (.*) \| ([a-z ]+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return {number: (text, verdict, set(re.findall(r"`([^`]+)`", tests))) for number, text, verdict, tests in rows}


def test_the_page_lists_every_statement_with_its_reading() -> None:
    page = on_the_page()
    assert list(page) == list(STATEMENTS)
    for number, statement in STATEMENTS.items():
        assert page[number][0].startswith(statement.text.replace("|", "\\|")), number
        assert statement.reading is None or statement.reading in page[number][0], number


def test_every_statement_holds_by_its_tests_or_has_a_reason_why_none_can_show_it() -> None:
    tests = claimed()
    for number, (_, verdict, names) in on_the_page().items():
        assert names == tests[number], f"{number}: run `make conformance WRITE=1`"
        assert verdict == ("holds" if names else "not testable"), number
        assert bool(names) != bool(STATEMENTS[number].untestable), f"{number} has neither a test nor a reason, or both"


def test_every_test_of_the_suite_shows_a_statement() -> None:
    names = {
        f"{file.name}::{name}"
        for file in SUITE.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    assert names == {name for tests in claimed().values() for name in tests}


def test_the_suite_imports_nothing_from_the_service() -> None:
    for file in SUITE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in modules if name.split(".")[0] in {"latchkey", "tests"}], file.name
