"""Each extra installs what its commands need. Without it only these commands are unavailable, and say so."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.running import Up, get

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the source distribution, as a release would have them."""
    folder = tmp_path_factory.mktemp("built")
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return folder


def distributions(requirements: list[str], extra: str = "") -> set[str]:
    """The distributions that an installer would install for these, their own dependencies included."""
    found: set[str] = set()
    waiting = [(Requirement(one), extra) for one in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        new = {f"{requirement.name}[{one}]" for one in ("", *requirement.extras)} - found
        found |= new
        for one in new:
            asked = one.partition("[")[2].rstrip("]")
            waiting += [(Requirement(text), asked) for text in importlib.metadata.requires(requirement.name) or ()]
    return {one.partition("[")[0] for one in found}


@pytest.fixture(scope="module")
def install(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Python as `pip install 'latchkey[extra]'` leaves it: our wheel and what it declares, and nothing else.

    Links to the unpacked wheel, which is compiled once, and to what is installed here, because a test must not need a
    package registry.
    """
    unpacked = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(unpacked)
    (metadata,) = unpacked.glob("latchkey-*.dist-info/METADATA")
    required = re.findall(r"^Requires-Dist: (.*)$", metadata.read_text(), re.MULTILINE)

    def install(extra: str, home: Path | None = None) -> Path:
        home = home or tmp_path_factory.mktemp(extra or "bare")
        venv.create(home, with_pip=False, symlinks=True)
        (site,) = home.glob("lib/python*/site-packages")
        found = list(unpacked.iterdir())
        # An extra that is several others names our own distribution, which is a checkout here.
        for name in distributions(required, extra) - {"latchkey"}:
            distribution = importlib.metadata.distribution(name)
            tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
            found += [Path(str(distribution.locate_file(top))) for top in tops]
        for target in found:
            if not (site / target.name).exists():
                (site / target.name).symlink_to(target)
        return home / "bin" / "python"

    return install


def latchkey(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, by the entry point that the wheel declares."""
    script = (
        "import sys; from importlib.metadata import entry_points; "
        "(entry,) = entry_points(group='console_scripts', name='latchkey'); sys.argv[0] = 'latchkey'; entry.load()()"
    )
    return subprocess.run([python, "-I", "-c", script, *words], capture_output=True, text=True, timeout=300)


def test_a_bare_installation_says_which_extra_to_install(install: Callable[..., Path]) -> None:
    done = latchkey(install(""), "up")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]:
        assert f"  [{extra}] " in done.stderr
    assert "pip install 'latchkey[service,otel]'" in done.stderr


CLIENT = """
import asyncio
from latchkey.client import Client, Unreachable

async def main():
    async with Client("https://127.0.0.1:1", "sk_key", project_id="p", deadline=0.01) as client:
        try:
            await client.customer("ada")
        except Unreachable as error:
            print(error)

asyncio.run(main())
"""


def test_the_client_works_alone(install: Callable[..., Path]) -> None:
    python = install("client")
    done = subprocess.run([python, "-I", "-c", CLIENT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "cannot be reached" in done.stdout
    said = latchkey(python, "customer", "list")
    assert (said.returncode, "Traceback" in said.stderr) == (2, False)
    assert said.stderr.startswith("No commands are installed here.")


CONSUMER = """
import asyncio
from latchkey.consumer import Consumer, Settings

async def main():
    consumer = Consumer(Settings(service_url="https://127.0.0.1:1", project_id="p", api_key="sk_key",
                                 database_url="sqlite:///consumer.db", sweep_seconds=0))
    async with consumer.lifespan():
        print(await consumer.balances("ada"))

asyncio.run(main())
"""


def test_the_consumer_works_alone(install: Callable[..., Path], tmp_path: Path) -> None:
    python = install("consumer")
    done = subprocess.run([python, "-I", "-c", CONSUMER], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("{}\n")
    done = latchkey(python, "consumer", "check")
    assert done.returncode == 2
    assert "LATCHKEY_CONSUMER_SERVICE_URL" in done.stderr
    # The commands of the service are not there, and say what they need.
    listed = set(re.findall(r"^\W*([a-z]+) {2,}", latchkey(python, "--help").stdout, re.MULTILINE))
    assert {"consumer", "version"} <= listed
    assert not {"up", "serve", "doctor"} & listed
    for extra, words in (("up", ("up", "--help")), ("service", ("key", "create", "--name", "x"))):
        done = latchkey(python, *words)
        assert done.returncode == 2, done.stderr
        assert done.stderr == f"`latchkey {words[0]}` needs the extra `{extra}`: pip install 'latchkey[{extra}]'\n"


def test_the_test_phone_works_alone(install: Callable[..., Path], tmp_path: Path) -> None:
    done = latchkey(install("runtime"), "device", "http://app.test", "--data", str(tmp_path))
    assert done.returncode == 1
    assert "https://" in done.stderr
    assert "not installed" not in done.stderr


def test_the_tools_for_assistants_work_alone(install: Callable[..., Path]) -> None:
    done = latchkey(install("mcp"), "mcp", "--url", "https://127.0.0.1:1")
    assert done.returncode == 1, done.stderr
    assert "LATCHKEY_API_KEY" in done.stderr


def test_the_service_works_alone(install: Callable[..., Path], tmp_path: Path) -> None:
    python = install("service")
    listed = latchkey(python, "--help").stdout
    for command in ("serve", "migrate", "key", "receiver"):
        assert re.search(rf"^\W*{command} {{2,}}", listed, re.MULTILINE), command
    # It starts a consumer too, and says so before it creates a folder.
    done = latchkey(python, "up", "--data", str(tmp_path / "data"))
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert done.stderr == "`latchkey up` needs the extra `up`: pip install 'latchkey[up]'\n"
    done = latchkey(python, "mcp")
    assert (done.returncode, done.stderr) == (2, "`latchkey mcp` needs the extra `mcp`: pip install 'latchkey[mcp]'\n")
    done = latchkey(python, "serve")
    assert done.returncode == 2
    assert "LATCHKEY_DATABASE_URL" in done.stderr
    # What a process of it imports.
    done = subprocess.run(
        [python, "-I", "-c", "import latchkey.process.service"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


# Writes down which files of the repository a process opens, besides the packages that are installed in it.
OBSERVER = """
import os, sys

def observe(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, os.PathLike)):
        path = os.fspath(arguments[0])
        if path.startswith({root!r} + os.sep) and not path.startswith({packages!r} + os.sep):
            with open({opened!r}, "a") as opened:
                print(path, file=opened)

sys.addaudithook(observe)
"""


class Installed(Up):
    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        super().__init__(folder, "--port", "0")


def test_latchkey_up_gives_the_demo_without_the_repository(
    built: Path, install: Callable[..., Path], short_folder: Path
) -> None:
    # As root, PostgreSQL runs as another user, who cannot read the folders of pytest.
    python = install("up", short_folder / "venv")
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    for link in (site / "latchkey", *site.glob("latchkey-*.dist-info")):
        link.unlink()
    opened = short_folder / "opened"
    script = OBSERVER.format(root=str(ROOT), packages=sys.prefix, opened=str(opened))
    (site / "sitecustomize.py").write_text(script)
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    words = ["install", "--no-deps", "--no-index", "--no-compile", str(next(built.glob("*.whl")))]
    subprocess.run([*pip, *words], check=True, capture_output=True, timeout=300)

    with Installed(python.with_name("latchkey"), short_folder / "installed") as up:
        up.wait_until_ready()
        up.call("POST", "test_store/actions", {"action": "purchase", "app_user_id": "ada", "product_id": "pro_monthly"})
        assert "pro" in up.call("GET", "/v1/subscribers/ada")["subscriber"]["entitlements"]
        status, sign_in = up.get("/dashboard/sign-in")
        assert status == 200
        for path in re.findall(rb'(?:href|src)="(/dashboard/static/[^"]+)"', sign_in):
            assert up.get(path.decode())[0] == 200
        # Its examples are files of the repository's folder `contract`, which are in the wheel.
        assert b"ada@example.com" in up.get("/openapi.json")[1]
        consumer = up.connection["consumer"]
        assert get(consumer["base_url"], up.connection["ca_cert"], "/")[0] == 200
        assert up.terminate() == 0
    assert not opened.exists(), opened.read_text()


def test_what_is_missing_is_named_by_the_file_that_was_installed(
    built: Path, install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a package index has by the name `latchkey` may be another package."""
    python = install("")
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    wheel = next(built.glob("*.whl"))
    (metadata,) = site.glob("latchkey-*.dist-info")
    copied = shutil.copytree(metadata, site / "copied")
    (copied / "direct_url.json").write_text(json.dumps({"url": wheel.as_uri(), "archive_info": {}}))
    metadata.unlink()
    copied.rename(metadata)
    done = latchkey(python, "up")
    assert done.returncode == 2, done.stderr
    assert f"uvx --from '{wheel}[up]' latchkey up" in done.stderr
    assert f"pipx install --force '{wheel}[up]'" in done.stderr
    # uvx runs the command without the extra and says where it is, so it is asked once to run it with the extra.
    monkeypatch.setenv("UV", shutil.which("echo") or "")
    done = latchkey(python, "up", "--port", "0")
    assert done.stdout == f"tool run --from {wheel}[up] latchkey up --port 0\n"
    monkeypatch.setenv("LATCHKEY_UP_HAS_ITS_EXTRA", "1")
    assert latchkey(python, "up").returncode == latchkey(python, "serve").returncode == 2


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
