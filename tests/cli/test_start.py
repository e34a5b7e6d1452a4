"""A command imports only what it needs, because the imports are most of its start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from latchkey.cli.main import command_line


def imported(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after this statement."""
    script = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [(["project", "list"], {"project"}), (["untrust"], {"untrust"}), (["version"], set[str]())],
)
def test_a_named_command_comes_alone(words: list[str], names: set[str]) -> None:
    app = command_line(words)
    found = {group.name for group in app.registered_groups} | {one.name for one in app.registered_commands if one.name}
    assert found == names


@pytest.mark.parametrize("words", [[], ["--help"], ["nonsense"]])
def test_help_and_mistakes_get_all_of_them(words: list[str]) -> None:
    assert {"key", "emulate"} <= {group.name for group in command_line(words).registered_groups}


@pytest.mark.parametrize("module", ["latchkey.cli.child", "latchkey.cli.journal", "latchkey.cli.app"])
def test_only_what_answers_requests_loads_the_web_framework(module: str) -> None:
    assert not {"fastapi", "latchkey.dashboard.application"} & imported(f"import {module}")
