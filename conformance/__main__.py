"""`make conformance`: run the suite, say what does not hold, and with `--write` write docs/conformance.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from conformance.statements import STATEMENTS, Statement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
# By statement, then by test: `passed`, `failed`, or why it was not run.
Outcomes = Mapping[str, Mapping[str, str]]

INTRODUCTION = """# Conformance

Every statement of Latchkey's specification, and what a run of the suite saw. `make conformance` repeats it: it starts a
`latchkey up` in a temporary folder and asks it over HTTPS, as a stranger would; `make conformance BASE=https://…` asks
[another service](#another-service). The suite is in `conformance/` and imports nothing from the service. This page is
written by the run (`make conformance WRITE=1`).

- **holds**: every test that shows the statement passed.
- **does not hold**: one of them failed.
- **not run**: a test that shows it could not be run here, for the reason beside its name.
- **not testable**: no test can show it, for the reason in its row.
- **not shown**: no test shows it yet.

*Open* is what the specification leaves to the service. *Reading* says, where a statement can be read in two ways, which
one the tests take.

## Another service

The suite sells, so it needs a project of its own, and the service must be able to deliver webhooks to servers that the
suite starts. On the machine of a `latchkey serve`, with a certificate for those servers:

```sh
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -keyout suite.key -out suite.pem \\
  -subj /CN=suite -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE
export LATCHKEY_WEBHOOK_ALLOW_NETWORKS=127.0.0.0/8 LATCHKEY_WEBHOOK_EXTRA_CA=$PWD/suite.pem   # then start the service
latchkey project create conformance                                    # prints the project's id
latchkey key create --project proj_... --name conformance              # prints the key
latchkey config apply --project proj_... conformance/catalog.yaml
export CONFORMANCE_RECEIVER_CERT=suite.pem CONFORMANCE_RECEIVER_KEY=suite.key
CONFORMANCE_PROJECT=proj_... CONFORMANCE_KEY=sk_... make conformance BASE=https://billing.example.com
```

`CONFORMANCE_CA` names the authority of the service's own certificate if it is not a public one. With the account of a
person who may change webhooks (`CONFORMANCE_EMAIL`, `CONFORMANCE_PASSWORD`) and the public key of an app
(`CONFORMANCE_PUBLIC_KEY`, from `latchkey key create --app conformance`) more statements are shown; those about the
stores and the phone need a `latchkey up`. The service reaches the suite at `CONFORMANCE_RECEIVER_HOST`, 127.0.0.1 if
nothing is said.
"""


VERDICTS = ("holds", "does not hold", "not run", "not testable", "not shown")


def verdict(statement: Statement, tests: Mapping[str, str]) -> str:
    if not tests:
        return "not testable" if statement.untestable else "not shown"
    if "failed" in tests.values():
        return "does not hold"
    return "holds" if set(tests.values()) == {"passed"} else "not run"


def page(outcomes: Outcomes, seconds: float) -> str:
    told = ", ".join(f"{len(numbers)} {words}" for words, numbers in tally(outcomes).items())
    lines = [INTRODUCTION, f"The last run took {seconds:.0f} seconds: {len(STATEMENTS)} statements, {told}.", ""]
    for section, statements in groupby(STATEMENTS.values(), key=lambda statement: statement.section):
        lines += [f"## {section}", "| | statement | | test |", "|---|---|---|---|"]
        for statement in statements:
            tests = outcomes.get(statement.number, {})
            names = "<br>".join(shown(name, tests[name]) for name in sorted(tests)) or statement.untestable or ""
            reading = f"<br>*Reading:* {statement.reading}" if statement.reading else ""
            text = (statement.text + reading).replace("|", "\\|")
            lines.append(f"| {statement.number} | {text} | {verdict(statement, tests)} | {names} |")
        lines.append("")
    return "\n".join(lines)


def shown(test: str, outcome: str) -> str:
    return f"`{test}`" if outcome in {"passed", "failed"} else f"`{test}`: {outcome}"


def tally(outcomes: Outcomes) -> dict[str, list[str]]:
    """The numbers of the statements, by verdict."""
    by_verdict: dict[str, list[str]] = {word: [] for word in VERDICTS}
    for number, statement in STATEMENTS.items():
        by_verdict[verdict(statement, outcomes.get(number, {}))].append(number)
    return {word: numbers for word, numbers in by_verdict.items() if numbers}


def summary(outcomes: Outcomes) -> Iterator[str]:
    found = tally(outcomes)
    yield f"{len(STATEMENTS)} statements: {', '.join(f'{len(numbers)} {word}' for word, numbers in found.items())}"
    for number in found.get("does not hold", ()):
        yield f"  {number} does not hold: {STATEMENTS[number].text}"
    reasons: dict[str, list[str]] = {}
    for number in found.get("not run", ()):
        for reason in sorted(set(outcomes[number].values()) - {"passed"}):
            reasons.setdefault(reason, []).append(number)
    for reason, numbers in reasons.items():
        yield f"  not run, {reason}: {', '.join(numbers)}"


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
    print("\n".join(summary(outcomes)))
    if given.write:
        PAGE.write_text(page(outcomes, seconds))
        print(f"written: {PAGE.relative_to(ROOT)}")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
