"""The section "Soak" of docs/reliability.md, written by a run."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.soak.plot import draw
from bench.soak.sampling import Sample
from bench.table import Row, shown_number

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "reliability.md", DOCS / "images" / "soak.svg"
TITLE, HEADING = "# Reliability\n", "## Soak\n"
_SECTION = re.compile(r"^## Soak\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
WORDS = """
`make soak HOURS=3 RATE=100` runs `latchkey up` as a user starts it and lives with it: purchases every second, half of
them App Store receipts and half of the test store, by new and by returning customers; subscriptions of a few minutes
that renew, are cancelled, refunded and expire; test clocks that are moved and deleted; reads by both APIs, charts,
pages of the dashboard that stay open, and two receivers of webhooks. Every 10 seconds it looks at each process, table
and folder, and at the end it compares the last quarter of the run with the second (the first is warm-up). Memory is
judged by its slope after the warm-up. Tables that keep facts, or rows for a time that the run does not reach
([how long](retention.md)), may grow, but a purchase must go on adding as many bytes. `make soak DRAW=soak.jsonl` judges
and draws the samples of an earlier run, `WRITE=1` writes this section.
"""


def write(samples: Sequence[Sample], rows: Sequence[Row]) -> None:
    """The picture, and our section of the page; other sections stay as they are."""
    PICTURE.write_text(draw(samples))
    text = PAGE.read_text() if PAGE.exists() else TITLE
    section = f"{HEADING}{WORDS}\n{_result(samples, rows)}\n"
    text = _SECTION.sub(lambda _: f"{section}\n", text) if HEADING in text else f"{text.rstrip()}\n\n{section}"
    PAGE.write_text(text.rstrip() + "\n")


def _result(samples: Sequence[Sample], rows: Sequence[Row]) -> str:
    last, broken = samples[-1], [row for row in rows if row.holds is False]
    words = "nothing grew that should not" if not broken else f"{len(broken)} of {len(rows)} rows grew (✗)"
    lines = [
        f"The last run, {datetime.now(UTC):%d %B %Y}: {last.at / 3600:.1f} hours, {last.purchases:,} purchases, "
        f"{last.events:,} events, {sum(last.errors.values()):,} failed requests; {words}.",
        "",
        "![What each process, table and folder took during the run](images/soak.svg)",
        "",
        "| | second quarter | last quarter | at most | |",
        "|---|--:|--:|---|---|",
    ]
    for row in rows:
        if row.ceiling is not None and row.value >= 0.005:
            mark = {True: "✓", False: "✗", None: ""}[row.holds]
            before, now = (f"{shown_number(value)} {row.unit}".strip() for value in (row.ceiling, row.value))
            lines.append(f"| {row.name} | {before} | {now} | {row.bar} | {mark} |")
    return "\n".join(lines)
