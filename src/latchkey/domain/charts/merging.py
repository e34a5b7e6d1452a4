"""Which stored blocks of sums are merged with new ones, and how they are split by time.

Each block is a table of sums; a question adds up all that have its days. Few large blocks are quick to read, but
merging a large block for a few new rows costs much. So new rows are merged with the newest blocks only while these are
not much larger. A row is then rewritten about as often as the number of rows can be doubled.

What has many rows is split by quarters of a year, and each part is merged with blocks of its own quarter only. So a
question about one year does not read the others, in whatever order the facts came: a renewal changes the cohort of
years ago, and a rebuild meets the purchases in no order at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple, TypeAlias

from latchkey.domain.charts.fact import Day, date_of, day_of

# A block is not merged with another one beyond this, so that no merge takes long.
MOST_ROWS = 400_000
# What has more rows than this is split by quarters.
SPLIT_ROWS = 40_000

# Quarters of a year since the year 0.
Quarter: TypeAlias = int


class Block(NamedTuple):
    """Where a block is stored, how many rows it has, and of which days."""

    environment: str
    kind: int
    # Of which cuboid it is; see storage/charts/blocks.py.
    cuboid: int
    # Later ones have higher numbers.
    run: int
    rows: int
    first: Day
    last: Day

    @property
    def quarter(self) -> Quarter | None:
        """None if it has days of several."""
        first = quarter_of(self.first)
        return first if first == quarter_of(self.last) else None


def quarter_of(day: Day) -> Quarter:
    when = date_of(day)
    return when.year * 4 + (when.month - 1) // 3


def start_of(quarter: Quarter) -> Day:
    return day_of(date(quarter // 4, quarter % 4 * 3 + 1, 1))


def merged_with(rows: int, blocks: Sequence[Block]) -> list[Block]:
    """Of the blocks of one cuboid (and quarter), those to merge with so many new rows."""
    found: list[Block] = []
    for one in sorted(blocks, key=lambda one: -one.run):
        if one.rows > 2 * rows or one.rows + rows > MOST_ROWS:
            break
        found.append(one)
        rows += one.rows
    return found


def loose(rows: int, blocks: Sequence[Block]) -> list[Block]:
    """Of the blocks of one cuboid, those that are not split by quarters, before so many rows are added."""
    if rows + sum(one.rows for one in blocks) <= SPLIT_ROWS:
        return list(blocks)
    return [one for one in blocks if one.quarter is None and one.rows <= SPLIT_ROWS]
