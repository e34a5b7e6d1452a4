"""The README's five minutes, run exactly as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Running, Up
from tests.machine import ensure

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def home(short_folder: Path) -> Iterator[Path]:
    """A folder like the project's own, with the service running in `.latchkey`."""
    ensure("curl")
    home = short_folder / "readme"
    home.mkdir()
    (home / ".venv").symlink_to(Path(sys.executable).parents[1])
    with Up(home / ".latchkey", "--port", "0") as up:
        up.wait_until_ready()
        yield home
        assert up.ctrl_c() == 0


def blocks(heading: str) -> list[str]:
    section = README.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def shell(home: Path, script: str) -> str:
    done = subprocess.run(["bash", "-euc", script], cwd=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_five_minutes_to_the_first_webhook(home: Path) -> None:
    with Running("receiver", "--data", home / ".latchkey") as receiver:
        receiver.wait_for("Ctrl-C ends it")
        shown = shell(home, blocks("Five minutes to the first webhook")[0])
        assert '"type":"INITIAL_PURCHASE"' in shown
        assert "ada has pro until" in shown
        receiver.wait_for("INITIAL_PURCHASE")
        assert re.search(r"INITIAL_PURCHASE +ada +#1 +answered 200", receiver.output)
        assert receiver.ctrl_c() == 0
    listed = shell(
        home,
        blocks("Five minutes to the first webhook")[0].split("\n\n")[0]
        + "\nlk $LK_BASE_URL/v2/projects/$LK_PROJECT_ID/integrations/webhooks",
    )
    assert '"name":"latchkey receiver"' not in listed, "the receiver takes its webhook along when it ends"


def test_a_year_in_a_second(home: Path) -> None:
    preparation = blocks("Five minutes to the first webhook")[0].split("\n\n")[0]
    clock, customer, purchase, advance = blocks("A year in a second")[0].strip().splitlines()
    found = re.search(r"clk_\w+", shell(home, f"{preparation}\n{clock}"))
    assert found is not None
    rest = "\n".join((customer, purchase, advance)).replace("clk_...", found.group())
    assert '"events_count":12' in shell(home, f"{preparation}\n{rest}")
