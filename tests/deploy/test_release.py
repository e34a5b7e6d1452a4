"""`make dist`: what a release has in it, that it can be built again byte for byte, and what the image is built of."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from release import bill_of_materials, provenance
from release.distributions import build
from tests.tracked import ROOT, tracked

EPOCH = 1_800_000_000
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text(encoding="utf-8")


def copy(paths: list[Path], folder: Path) -> Path:
    for path in paths:
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project as they are here, in a folder of their own that is no repository."""
    return copy(tracked(), tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def released(source: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    files = build(source, tmp_path_factory.mktemp("dist"), EPOCH)
    files.append(bill_of_materials.write(source, files[0], EPOCH))
    return [*files, provenance.write(source, files, "c0ffee", EPOCH)]


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(released: list[Path]) -> None:
    with zipfile.ZipFile(released[0]) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    names = [path.relative_to(ROOT).as_posix() for path in tracked()]
    ours = {name.removeprefix("src/") for name in names if name.startswith("src/latchkey/")}
    examples = {f"latchkey/{name}" for name in names if re.match(r"contract/(v1|v2|rcbilling)/", name)}
    assert inside == ours | examples
    assert len(examples) > 100


def test_the_source_distribution_has_what_is_tracked_and_nothing_else(source: Path, released: list[Path]) -> None:
    with tarfile.open(released[1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert inside == {path.relative_to(ROOT).as_posix() for path in tracked()} | {"PKG-INFO"}


def test_the_same_source_gives_the_same_bytes_elsewhere(source: Path, released: list[Path], tmp_path: Path) -> None:
    elsewhere = shutil.copytree(source, tmp_path / "elsewhere")
    for path in elsewhere.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (0, 0))
    before = os.umask(0o077)
    try:
        again = build(elsewhere, tmp_path / "dist", EPOCH)
    finally:
        os.umask(before)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in released[:2]]


def test_the_bill_of_materials_has_what_is_locked_and_nothing_for_development(
    source: Path, released: list[Path]
) -> None:
    bill: dict[str, Any] = json.loads(released[2].read_text())
    assert released[2].name == f"latchkey-{VERSION}.cdx.json"
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    lock = bill_of_materials.read_lock(source / "requirements.lock")
    found = {one["name"]: one for one in bill["components"]}
    for name, one in found.items():
        hashes = [each["content"] for each in one["externalReferences"][0]["hashes"]]
        assert (one["version"], hashes) == lock[name]
        assert hashes
    assert found["msgspec"]["scope"] == "required"
    assert found["duckdb"]["scope"] == "optional"
    assert {one["value"] for one in found["sqlalchemy"]["properties"]} == {"consumer", "up"}
    assert not {"pytest", "mypy", "hatchling", "latchkey"} & found.keys()
    # The image has a part of it.
    assert bill_of_materials.read_lock(source / "deploy/docker/requirements.lock").keys() < found.keys()
    refs = {one["bom-ref"] for one in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert {one["ref"] for one in bill["dependencies"]} == refs
    assert {each for one in bill["dependencies"] for each in one["dependsOn"]} < refs


def test_of_a_package_that_is_locked_twice_the_version_for_this_python_counts(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lines = ["one==1.0 ; python_full_version < '3.11'", "one==2.0 ; python_full_version >= '3.11'", "two[extra]==3.0"]
    lock.write_text("".join(f"{line} \\\n    --hash=sha256:{number}\n" for number, line in enumerate(lines)))
    assert bill_of_materials.read_lock(lock) == {"one": ("2.0", ["1"]), "two": ("3.0", ["2"])}


def test_make_dist_releases_the_last_commit_and_says_how(tmp_path: Path) -> None:
    tracked()
    words = ["make", "--assume-old", ".venv/.ready", f"PYTHON={sys.executable}", "dist", f"FOLDER={tmp_path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert ".whl latchkey up" in done.stdout
    (statement,) = tmp_path.glob("*.provenance.json")
    made: dict[str, Any] = json.loads(statement.read_text())
    digests = {one["name"]: one["digest"]["sha256"] for one in made["subject"]}
    others = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert digests == {name: digest for name, digest in others.items() if name != statement.name}
    assert len(digests) == 3
    definition = made["predicate"]["buildDefinition"]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": commit}
    assert definition["externalParameters"]["command"] == "make dist"
    assert {"python", "hatchling"} <= made["predicate"]["runDetails"]["builder"]["version"].keys()
    # A file for everybody names no folder and no user of the machine that built it.
    assert str(Path.home()) not in statement.read_text()
    assert str(ROOT) not in statement.read_text()


def test_the_image_builds_the_same_wheel_from_what_it_copies(released: list[Path], tmp_path: Path) -> None:
    """What the recipe does, without an engine: its context, its build, and the step that compiles templates."""
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    ]
    paths = [path for path in tracked() for word in copied if path.is_relative_to(ROOT / word)]
    context = copy(paths, tmp_path / "context")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheels")]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    subprocess.run(words, cwd=context, env=environment, check=True, capture_output=True, timeout=300)
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.read_bytes() == released[0].read_bytes()

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (step,) = re.findall(r'bin/python -c "(.+)"', DOCKERFILE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run([sys.executable, "-c", step], cwd=tmp_path, env=environment, check=True, timeout=300)
    assert list((tmp_path / "installed/latchkey/dashboard/__pycache__/templates").iterdir())


def test_every_file_that_names_the_version_names_this_one() -> None:
    (image,) = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text(encoding="utf-8"))["images"]
    assert image["newTag"] == VERSION
    assert json.loads((ROOT / "clients/javascript/package.json").read_text(encoding="utf-8"))["version"] == VERSION
    assert f"-t latchkey:{VERSION} " in (ROOT / "deploy/README.md").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == VERSION
    for page in ("README.md", "docs/tutorials/go-live.md", "docs/versions.md", "deploy/README.md"):
        named = re.findall(r"latchkey-([\d.]+)-py3", (ROOT / page).read_text(encoding="utf-8"))
        assert set(named) <= {VERSION}, page
