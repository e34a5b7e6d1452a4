"""`make setup`: what it installs is pinned by hashes, and it says what it is doing."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "requirements-uv.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_a_version_and_hashes_and_no_source(name: str) -> None:
    packages = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
    assert packages
    for one in packages:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", one), one
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", one), one
        assert "://" not in one


def test_setup_says_what_it_does_and_every_install_of_a_lock_checks_hashes() -> None:
    words = ["make", "--dry-run", "--always-make", "setup"]
    plan = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout
    for step in ("1/3", "2/3", "3/3"):
        assert f'echo "  {step}' in plan
    installs = [line for line in plan.splitlines() if "-r requirements" in line]
    # uv itself by pip; then everything by uv, or by pip where that fails.
    assert [next(name for name in LOCKS[::-1] if name in line) for line in installs] == [
        "requirements-uv.lock",
        "requirements.lock",
        "requirements.lock",
    ]
    assert all("--require-hashes" in line for line in installs)
