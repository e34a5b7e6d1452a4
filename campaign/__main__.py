"""`make campaign` and `make chaos`: rounds of random trouble, the seeds that failed, and a table of what was run."""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
from msgspec import DecodeError, Struct, field, json

from campaign.parts import PARTS, play

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
FAULTS = ROOT / ".campaign"
# A round waits for conditions, up to five minutes for each. One that takes this much longer hangs, which is a fault.
PATIENCE = 1_200
# In the same folder, a line for each round that is not written down yet; and all that are, so that campaigns of
# several days and machines add up.
ROUNDS = "rounds.jsonl"
MEASURED = ROOT / "campaign" / "measured.jsonl"
# Shorter rounds would only start and stop.
SHORTEST = 15
SEEDS = 1_000_000


class Round(Struct):
    """What one round tells."""

    what: str
    seed: int
    seconds: float
    held: bool
    skipped: str = ""
    figures: dict[str, int] = field(default_factory=dict)


def replay(what: str, seed: int, seconds: float) -> str:
    return f"make chaos WHAT={what} SEED={seed} SECONDS={seconds:.0f}"


def in_a_process(what: str, seed: int, seconds: float, faults: Path) -> Round:
    """As `make chaos` does it. What fails is kept as a file: the command, and everything that the round printed."""
    began = time.monotonic()
    words = [sys.executable, "-m", "campaign", "round", what, "--seed", str(seed), "--seconds", f"{seconds:.0f}"]
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(words, cwd=ROOT, stdout=printed, stderr=printed)
        try:
            process.wait(seconds + PATIENCE)
        except subprocess.TimeoutExpired:
            for one in (*psutil.Process(process.pid).children(recursive=True), process):
                one.kill()
            process.wait()
        printed.seek(0)
        output = printed.read()
    try:
        told = json.decode(output.rstrip().rpartition(b"\n")[2], type=Round)
    except DecodeError:
        output += b"\nIt did not end by itself.\n"
        told = Round(what, seed, round(time.monotonic() - began, 1), held=False)
    if not told.held and not told.skipped:
        (faults / f"{what}-{seed}.txt").write_bytes(replay(what, seed, seconds).encode() + b"\n\n" + output)
    return told


def rounds_in(*files: Path) -> list[Round]:
    """Those of every campaign that kept its rounds there."""
    return [one for file in files if file.exists() for one in json.Decoder(Round).decode_lines(file.read_bytes())]


def write_down(rounds: Path, measured: Path, page: Path) -> None:
    """Move the rounds to those that were measured before, and write the table of all of them."""
    with measured.open("ab") as kept:
        kept.write(rounds.read_bytes())
    rounds.unlink()
    page.write_text(written(page.read_text(), table_of(rounds_in(measured))))


Play = Callable[[str, int, float, Path], Round]


def campaign(hours: float, jobs: int, parts: Sequence[str], faults: Path, play: Play = in_a_process) -> list[Round]:
    """Several rounds at a time, because some wait more than they work. The part that is furthest behind its share of
    the time is next."""
    faults.mkdir(exist_ok=True)
    ends = time.monotonic() + hours * 3_600
    spent = dict.fromkeys(parts, 0.0)
    rounds: list[Round] = []
    lock = threading.Lock()

    def lane() -> None:
        while spent and (left := ends - time.monotonic()) > SHORTEST:
            with lock:
                what = min(spent, key=lambda name: spent[name] / PARTS[name].percent)
                seconds = min(PARTS[what].seconds, left)
                spent[what] += seconds
            told = play(what, secrets.randbelow(SEEDS), seconds, faults)
            with lock, (faults / ROUNDS).open("ab") as kept:
                kept.write(json.encode(told) + b"\n")
                rounds.append(told)
                if told.skipped:
                    spent.pop(what, None)
                elif what in spent:
                    spent[what] += told.seconds - seconds
                verdict = told.skipped or ("held" if told.held else f"FAILED: {replay(what, told.seed, seconds)}")
                figures = ", ".join(f"{count} {name}" for name, count in told.figures.items())
                print(f"{what} {told.seed}: {told.seconds:.0f} s, {figures}: {verdict}", flush=True)

    lanes = [threading.Thread(target=lane, daemon=True) for _ in range(jobs)]
    for one in lanes:
        one.start()
    try:
        for one in lanes:
            one.join()
    except KeyboardInterrupt:
        print("Stopped: rounds that were not over do not count.")
    return rounds


# The columns of the table; every other figure stands beside them by its name.
COLUMNS = ("lives", "kills", "failovers", "requests", "committed", "lost", "doubled", "undocumented 5xx")


def table(rounds: Iterable[Round]) -> list[str]:
    """A row for each part, and their sum."""
    rounds = list(rounds)
    lines = [
        f"| part | rounds | minutes | {' | '.join(COLUMNS)} | faults found | also |",
        f"|---|{'--:|' * (len(COLUMNS) + 3)}---|",
    ]
    for name in (*PARTS, "all"):
        mine = [one for one in rounds if name in (one.what, "all") and not one.skipped]
        reasons = {one.skipped for one in rounds if one.what == name and one.skipped}
        if not mine:
            lines.append(f"| {name} | {' | ' * (len(COLUMNS) + 3)}{'; '.join(reasons) or 'not run'} |")
            continue
        figures: dict[str, int] = {}
        for one in mine:
            for figure, count in one.figures.items():
                figures[figure] = figures.get(figure, 0) + count
        cells = [f"{figures.pop(column):,}" if column in figures else "" for column in COLUMNS]
        also = "" if name == "all" else ", ".join(f"{count:,} {figure}" for figure, count in figures.items())
        failed = sum(not one.held for one in mine)
        minutes = sum(one.seconds for one in mine) / 60
        lines.append(f"| {name} | {len(mine)} | {minutes:.0f} | {' | '.join(cells)} | {failed} | {also} |")
    return lines


def table_of(rounds: Sequence[Round]) -> str:
    failed = sum(not (one.held or one.skipped) for one in rounds)
    return "\n".join([
        f"{len(rounds)} rounds with fresh seeds on {os.cpu_count()} cores, until {datetime.now(UTC):%Y-%m-%d}; "
        f"{failed} of them failed. *Kills* are `kill -9` of a process of the service or of the consumer amid traffic; "
        "*committed* are events.",
        "",
        *table(rounds),
    ])  # fmt: skip


def written(page: str, section: str) -> str:
    """The page with this under its heading `Measured`."""
    before, heading, rest = page.partition("\n## Measured\n")
    assert heading, "the page has no heading `Measured`"
    _, following, after = rest.partition("\n## ")
    return f"{before}{heading}\n{section}\n{following}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("round")
    one.add_argument("what", choices=PARTS)
    one.add_argument("--seed", type=int, default=secrets.randbelow(SEEDS))
    one.add_argument("--seconds", type=float, default=60.0)
    many = commands.add_parser("campaign")
    many.add_argument("--hours", type=float, default=2.0)
    many.add_argument("--jobs", type=int, default=3, help="rounds at a time")
    many.add_argument("--write", action="store_true", help="write the table of all of them into docs/reliability.md")
    many.add_argument("parts", nargs="*", help="only these parts", default=[])
    given = parser.parse_args()
    if given.command == "round":
        return play(given.what, given.seed, given.seconds)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    rounds = campaign(given.hours, given.jobs, given.parts or list(PARTS), FAULTS)
    print(f"\n{table_of(rounds_in(MEASURED, FAULTS / ROUNDS))}")
    if given.write:
        write_down(FAULTS / ROUNDS, MEASURED, PAGE)
        print(f"written: {PAGE.relative_to(ROOT)}")
    failed = [one for one in rounds if not (one.held or one.skipped)]
    if failed:
        print(f"{len(failed)} rounds failed; the first line of each file in {FAULTS.name}/ replays one.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
