"""A command imports only what it needs, because the imports are most of its start."""

import subprocess
import sys

import pytest

from latchkey.cli import main
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


def test_only_what_answers_requests_loads_the_web_framework() -> None:
    others = (
        "latchkey.process.service",
        "latchkey.subjects.purchase_intake.command",
        "latchkey.subjects.purchase_intake.command.app_command",
    )
    assert not {"fastapi", "latchkey.process.dashboard_application"} & imported(f"import {', '.join(others)}")


def test_libraries_of_stores_exports_and_assistants_are_loaded_when_they_are_used() -> None:
    loaded = imported("from latchkey.process.service import load; load(['api'])")
    assert "fastapi" in loaded
    assert not {"appstoreserverlibrary", "stripe", "requests", "pyarrow", "obstore", "mcp"} & loaded
    assert not {"alembic", "fastapi"} & imported("import latchkey.process.up.consumer_server")


def test_ctrl_c_while_code_is_loaded_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "command_line", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
