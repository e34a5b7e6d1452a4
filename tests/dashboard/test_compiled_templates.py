"""Compiled templates are kept as Python keeps its bytecode, and used only for what they were made from."""

import sys
from pathlib import Path
from unittest import mock

import pytest
from jinja2 import DictLoader, Environment

from latchkey.dashboard.templates import CompiledTemplates, folders
from latchkey.dashboard.templates import environment as dashboard

PAGE = "templates/page.html"


def environment(folder: Path, source: Path, text: str) -> Environment:
    made = Environment(
        loader=DictLoader({PAGE: text}), autoescape=True, bytecode_cache=CompiledTemplates(folder, source)
    )
    made.filters["loud"] = lambda value: str(value).upper()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "__pycache__" / "templates"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The Python file with the options and filters."""
    path = tmp_path / "options.py"
    path.write_text("1")
    return path


@pytest.fixture(autouse=True)
def writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def compiled(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> tuple[str, bool]:
    """The page, and whether its template had to be compiled."""
    compiling = mock.Mock(side_effect=environment.compile)
    monkeypatch.setattr(environment, "compile", compiling)
    page = environment.get_template(PAGE).render(name="Ada")
    assert isinstance(environment.bytecode_cache, CompiledTemplates)
    assert environment.bytecode_cache.incomplete == compiling.called
    return page, compiling.called


def test_a_template_is_compiled_once(folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [compiled(environment(folder, source, "Hello {{ name }}"), monkeypatch) for _ in range(2)]
    assert made == [("Hello Ada", True), ("Hello Ada", False)]
    assert [one.suffix for one in folder.iterdir()] == [f".{sys.implementation.cache_tag}"]


def test_another_text_or_other_options_are_compiled_again(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(environment(folder, source, "Hello {{ 'you'|loud }}"), monkeypatch)
    assert compiled(environment(folder, source, "Bye {{ 'you'|loud }}"), monkeypatch) == ("Bye YOU", True)
    # The compiler has called the filter: its result is in the compiled template.
    source.write_text("2")
    changed = environment(folder, source, "Bye {{ 'you'|loud }}")
    changed.filters["loud"] = lambda value: f"{value}!"
    assert compiled(changed, monkeypatch) == ("Bye you!", True)
    assert len(list(folder.iterdir())) == 1


def test_a_file_that_is_cut_short_is_compiled_again(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(environment(folder, source, "Hello {{ name }}"), monkeypatch)
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        kept.write_bytes(whole[:length])
        assert compiled(environment(folder, source, "Hello {{ name }}"), monkeypatch) == ("Hello Ada", True)
    assert compiled(environment(folder, source, "Hello {{ name }}"), monkeypatch) == ("Hello Ada", False)


def test_where_nothing_can_be_written_pages_are_shown_all_the_same(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.write_text("a file where the folder should be")
    assert compiled(environment(folder, source, "Hello {{ name }}"), monkeypatch) == ("Hello Ada", True)


def test_no_two_folders_have_a_template_of_the_same_name() -> None:
    """The first one would be shown in place of the other."""
    names = [path.name for folder in folders() for path in folder.iterdir()]
    assert sorted(set(names)) == sorted(names)
    assert set(names) == set(dashboard().list_templates())
