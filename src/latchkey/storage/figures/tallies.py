"""Tallies as columns: the tables of the figures have one column for each field of `Tally`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from latchkey.domain.figures.tally import Tally
from latchkey.storage.database import Record

_fields = itemgetter(*Tally._fields)


def tally_of(row: Record) -> Tally:
    """From a row in which the columns may stand in any order."""
    return Tally._make(_fields(row))


def columns(tallies: Iterable[Tally]) -> Iterable[tuple[int, ...]]:
    """The values of each field, in the order of the fields: the queries that write tallies take them in this order."""
    return zip(*tallies, strict=True)
