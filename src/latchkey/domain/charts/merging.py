"""Which stored blocks of sums are merged with new ones.

Each block is a table of sums; a question adds up all of them. Few large blocks are quick to read, but merging a large
block for a few new rows costs much. So new rows are merged with the newest blocks only while these are not much larger.
A row is then rewritten about as often as the number of rows can be doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# A block is not merged with another one beyond this, so that no merge takes long.
MOST_ROWS = 400_000


class Block(NamedTuple):
    """Where a block is stored, and how many rows it has."""

    environment: str
    kind: int
    # Of which cuboid it is; see storage/charts/blocks.py.
    cuboid: int
    # Later ones have higher numbers.
    run: int
    rows: int


def merged_with(rows: int, blocks: Sequence[Block]) -> list[Block]:
    """Of the blocks of one cuboid, those to merge with so many new rows."""
    found: list[Block] = []
    for one in sorted(blocks, key=lambda one: -one.run):
        if one.rows > 2 * rows or one.rows + rows > MOST_ROWS:
            break
        found.append(one)
        rows += one.rows
    return found
