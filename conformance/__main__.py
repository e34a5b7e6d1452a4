"""`make conformance`: run the suite, say what does not hold, and with `--write` write docs/conformance.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from conformance.statements import STATEMENTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
Outcomes = Mapping[str, Mapping[str, str]]  # by statement, then by test

INTRODUCTION = """# Conformance

Every statement of Latchkey's specification, and what a run of the suite saw. `make conformance` repeats it: it starts a
`latchkey up` in a temporary folder and asks it over HTTPS, as a stranger would. `make conformance BASE=https://…` asks
any other address (the variables are in `conformance/service.py`). The suite is in `conformance/` and imports nothing
from the service. This page is written by the run (`make conformance WRITE=1`).

- **holds**: every test that shows the statement passed.
- **does not hold**: one of them failed.
- **not run**: its test, or what the test needs, could not be run.
- **not shown**: no test shows it yet.

*Open* is what the specification leaves to the service. *Reading* says, where a statement can be read in two ways, which
one the tests take.
"""


def verdict(tests: Mapping[str, str]) -> str:
    if not tests:
        return "not shown"
    if "failed" in tests.values():
        return "does not hold"
    return "not run" if "skipped" in tests.values() else "holds"


def page(outcomes: Outcomes, seconds: float) -> str:
    counts = tally(outcomes)
    told = ", ".join(f"{count} {words}" for words, count in counts.items())
    lines = [INTRODUCTION, f"The last run took {seconds:.0f} seconds: {len(STATEMENTS)} statements, {told}.", ""]
    for section, statements in groupby(STATEMENTS.values(), key=lambda statement: statement.section):
        lines += [f"## {section}", "| | statement | | test |", "|---|---|---|---|"]
        for statement in statements:
            tests = outcomes.get(statement.number, {})
            names = "<br>".join(f"`{name}`" for name in sorted(tests))
            reading = f"<br>*Reading:* {statement.reading}" if statement.reading else ""
            text = (statement.text + reading).replace("|", "\\|")
            lines.append(f"| {statement.number} | {text} | {verdict(tests)} | {names} |")
        lines.append("")
    return "\n".join(lines)


def tally(outcomes: Outcomes) -> dict[str, int]:
    verdicts = [verdict(outcomes.get(number, {})) for number in STATEMENTS]
    words = ("holds", "does not hold", "not run", "not shown")
    return {word: verdicts.count(word) for word in words if word in verdicts}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md")
    parser.add_argument("tests", nargs="*", help="only these tests, as pytest takes them")
    given = parser.parse_args()
    if given.write and given.tests:
        parser.error("--write needs a whole run")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        tests = given.tests or [str(ROOT / "conformance")]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rs", *tests],
            cwd=ROOT,
            env={**os.environ, "CONFORMANCE_RESULTS": str(results)},
            check=False,
        )
        if not results.exists():
            return run.returncode or 1
        outcomes: Outcomes = json.loads(results.read_text())
    seconds = time.monotonic() - began
    print(f"{len(STATEMENTS)} statements: {', '.join(f'{n} {word}' for word, n in tally(outcomes).items())}")
    for number, shown in outcomes.items():
        if verdict(shown) == "does not hold":
            print(f"  {number} does not hold: {STATEMENTS[number].text}")
    if given.write:
        PAGE.write_text(page(outcomes, seconds))
        print(f"written: {PAGE.relative_to(ROOT)}")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
