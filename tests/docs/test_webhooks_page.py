"""docs/webhooks.md says what the code does."""

import re
from pathlib import Path

from latchkey.domain.retry import JITTER, SCHEDULE
from latchkey.subjects.webhooks.usecases import registry as webhooks

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


def test_the_table_of_retries_is_the_schedule() -> None:
    [row] = re.findall(r"^\| next attempt in \| (.*) \|$", PAGE, re.MULTILINE)
    words = [cell.split() for cell in row.split(" | ")]
    assert tuple(int(number) * _SECONDS[unit] for number, unit in words) == SCHEDULE
    assert f"up to {JITTER:.0%}".replace("%", " %") in PAGE


def test_the_numbers_in_the_page_are_the_limits() -> None:
    assert f"up to {webhooks.MOST_RETRIES} of up to {webhooks.LONGEST_WAIT_SECONDS // 86_400} days" in PAGE
    assert f"1 to {webhooks.LARGEST_IN_FLIGHT} | 100 |" in PAGE
    assert webhooks.OVERLAP_SECONDS == 86_400
    assert f"at most {webhooks.LONGEST_OVERLAP_SECONDS // 86_400}" in PAGE
