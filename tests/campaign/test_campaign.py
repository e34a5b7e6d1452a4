"""A campaign in small: what it starts, what it keeps of a failure, and that its table adds up."""

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from campaign.__main__ import (
    COLUMNS,
    PAGE,
    ROOT,
    ROUNDS,
    SHORTEST,
    Round,
    campaign,
    in_a_process,
    main,
    replay,
    rounds_in,
    table,
    table_of,
    write_down,
    written,
)
from campaign.parts import PARTS, play
from campaign.requests import Requests
from tests.http.routes import BODIES, NAMES, document


def test_the_page_says_what_each_part_does_and_checks() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    assert rows == {name: f"{part.does} | {part.checks}" for name, part in PARTS.items()}


def test_the_parts_share_all_of_the_time() -> None:
    assert sum(part.percent for part in PARTS.values()) == 100


@pytest.mark.processes
@pytest.mark.thorough
@pytest.mark.parametrize("what", ["fuzz", "stores"])
def test_a_round_with_a_fixed_seed_holds_and_tells_what_it_did(what: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert play(what, 7, 1) == 0
    told = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (told["what"], told["seed"], told["held"]) == (what, 7, True)
    assert sum(told["figures"].values()) > 0, told


def test_what_fails_is_kept_with_the_command_that_replays_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process of its own, like every round. It fails because a whole disk is given to be filled up."""
    monkeypatch.setenv("SMALL_DISK", str(tmp_path))
    faults = tmp_path / "faults"
    faults.mkdir()
    told = in_a_process("disk", 7, 1, faults)
    assert not told.held
    [kept] = faults.iterdir()
    command, _, output = kept.read_text().partition("\n\n")
    assert command == "make chaos WHAT=disk SEED=7 SECONDS=1"
    assert f"SMALL_DISK={tmp_path} is not small" in output
    # `make test` itself may run this: a make inside another tells which folder it enters and leaves.
    words = [*shlex.split(command), "--dry-run", "--no-print-directory"]
    dry = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert dry.stdout.splitlines()[-1].split()[1:] == shlex.split("-m campaign round disk --seed 7 --seconds 1")


def test_a_campaign_ends_with_failure_if_one_round_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(what: str, seed: int, seconds: float, faults: Path) -> Round:
        return Round(what, seed, 1_000, held=what != "disk", skipped="NOT RUN" if what == "restarts" else "")

    # Shorter rounds than the shortest do not begin.
    hours = (SHORTEST + 0.1) / 3_600
    ran = campaign(hours, 1, list(PARTS), tmp_path, failing)
    assert ran, "there was time for one"
    again = campaign(hours, 1, ["fuzz"], tmp_path, failing)
    assert rounds_in(tmp_path / ROUNDS) == [*ran, *again], "campaigns add up"
    monkeypatch.setattr("campaign.__main__.campaign", lambda *_: [failing("disk", 5, 60, tmp_path)])
    monkeypatch.setattr(sys, "argv", ["campaign", "campaign", "--hours", "1"])
    assert main() == 1
    assert "1 rounds failed" in capsys.readouterr().out


def test_the_table_adds_up() -> None:
    rounds = [
        Round("delivery", 1, 60, True, figures={"kills": 40, "committed": 1_000, "lost": 0, "database crashes": 1}),
        Round("delivery", 2, 66, True, figures={"kills": 41, "committed": 1_500, "lost": 0, "database crashes": 2}),
        Round("consumer", 3, 120, False, figures={"kills": 50, "committed": 700, "lost": 2, "lives": 90}),
        Round("restarts", 4, 0, False, skipped="NOT RUN, needs haproxy or nginx"),
    ]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table(rounds)[2:]]
    rows = {name: values for name, *values in cells}
    assert list(rows) == [*PARTS, "all"]
    names = ["rounds", "minutes", *COLUMNS, "faults", "also"]
    everything = dict(zip(names, rows["all"], strict=True))
    assert (everything["rounds"], everything["kills"], everything["committed"]) == ("3", "131", "3,200")
    assert (everything["lost"], everything["lives"], everything["faults"]) == ("2", "90", "1")
    assert dict(zip(names, rows["delivery"], strict=True))["also"] == "3 database crashes"
    assert "needs haproxy or nginx" in rows["restarts"][-1]
    assert "not run" in rows["disk"][-1]


def test_only_the_section_of_the_measurement_is_written_anew() -> None:
    page = "# A\n\nb\n\n## Measured\n\nold\n\n## Soak\n\nc\n"
    assert written(page, "new") == "# A\n\nb\n\n## Measured\n\nnew\n\n## Soak\n\nc\n"
    assert written("# A\n\n## Measured\n", "new") == "# A\n\n## Measured\n\nnew\n"


def test_what_is_written_down_is_the_table_of_all_campaigns(tmp_path: Path) -> None:
    measured, page = tmp_path / "measured.jsonl", tmp_path / "page.md"
    page.write_text("# A\n\n## Measured\n\nold\n")
    for seed, kills in ((1, 40), (2, 41)):
        rounds = tmp_path / ROUNDS
        rounds.write_bytes(msgspec.json.encode(Round("delivery", seed, 60, True, figures={"kills": kills})) + b"\n")
        write_down(rounds, measured, page)
        assert not rounds.exists(), "the next campaign does not count them again"
    assert [one.seed for one in rounds_in(measured)] == [1, 2]
    assert page.read_text() == written("# A\n\n## Measured\n", table_of(rounds_in(measured)))
    assert "| delivery | 2 | 2 |  | 81 |" in page.read_text()


def test_a_seed_makes_the_same_requests_again_and_they_reach_every_operation() -> None:
    described = document()

    def made(seed: str, count: int) -> list[bytes]:
        requests = Requests(seed, 1, described, BODIES, NAMES, ("sk_a", "pk_b"), "localhost:1")
        return [requests.next().data for _ in range(count)]

    assert made("7", 300) == made("7", 300) != made("8", 300)
    requests = Requests("7", 1, described, BODIES, NAMES, ("sk_a", "pk_b"), "localhost:1")
    reached = Counter(sent.operation.path for sent in (requests.next() for _ in range(8_000)) if sent.operation)
    assert reached.keys() == described["paths"].keys() - {"/metrics"}
    assert replay("fuzz", 7, 240) == "make chaos WHAT=fuzz SEED=7 SECONDS=240"
