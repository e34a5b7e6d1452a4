"""Cuboids: for which combinations of dimensions sums are stored.

A cell is one combination of values, such as "country DE, product pro_monthly". A cuboid is a set of dimensions; it has
a cell for each combination of their values. Every fact belongs to one cell of each cuboid (of those with variants or
attributes: to one for each of its variants or attributes).

A question is answered from the smallest cuboid that has its dimensions. Small cuboids make the common questions quick:
a total by country over two years is some hundred rows a country, whatever the number of payments behind it. The last
cuboid has all dimensions and answers everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from latchkey.domain.charts.fact import Dimensions
from latchkey.domain.charts.sums import Question

_EXPERIMENT, _ATTRIBUTE = "experiment:", "attribute:"

# These have a tuple of values: "experiment id:variant id", "name=value".
TAGS = ("variants", "attributes")

_CORE = ("product", "duration", "store", "platform", "offering")


class Cuboid(NamedTuple):
    # Stored: never change or reuse one.
    number: int
    dimensions: frozenset[str]
    # It has many cells, so sums by month are stored too.
    by_month: bool = False

    @property
    def tag(self) -> str | None:
        return next((one for one in TAGS if one in self.dimensions), None)


def _cuboid(number: int, *dimensions: str, by_month: bool = False) -> Cuboid:
    return Cuboid(number, frozenset(dimensions), by_month)


FULL = _cuboid(0, *Dimensions._fields)

# From small to large; the first one that has the dimensions of a question answers it. `FULL` is not in this list: its
# cells are the combinations that facts really have.
CUBOIDS: tuple[Cuboid, ...] = (
    _cuboid(1),
    _cuboid(2, "product"),
    _cuboid(3, "duration"),
    _cuboid(4, "store"),
    _cuboid(5, "country"),
    _cuboid(6, "platform"),
    _cuboid(7, "app_version"),
    _cuboid(8, "offering"),
    _cuboid(9, "variants"),
    _cuboid(10, "attributes"),
    _cuboid(11, *_CORE),
    _cuboid(12, *_CORE, "country", by_month=True),
    _cuboid(13, *_CORE, "app_version", by_month=True),
    _cuboid(14, *_CORE, "variants"),
    _cuboid(15, *_CORE, "attributes", by_month=True),
    _cuboid(16, "country", "variants"),
    _cuboid(17, "country", "attributes", by_month=True),
)


def cells_of(dimensions: Dimensions) -> Iterator[tuple[Cuboid, Dimensions]]:
    """The cells that a fact with these dimensions belongs to, `FULL` excepted."""
    for cuboid in CUBOIDS:
        values = [_values(dimensions, name) if name in cuboid.dimensions else [_NOTHING[name]] for name in _NAMES]
        for chosen in product(*values):
            yield cuboid, Dimensions(*chosen)


_NAMES = Dimensions._fields
_NOTHING = Dimensions()._asdict()


def _values(dimensions: Dimensions, name: str) -> list[object]:
    value = getattr(dimensions, name)
    return [(one,) for one in value] if name in TAGS else [value]


def cuboid_for(question: Question) -> Cuboid:
    asked = {one.dimension for one in question.filters}
    if question.segment is not None:
        asked.add(question.segment)
    # A cell has one variant or attribute, so two experiments, or two attributes, need all dimensions.
    if sum(is_tag(one) for one in asked) > 1:
        return FULL
    names = {column_of(one) for one in asked}
    return next((one for one in CUBOIDS if names <= one.dimensions), FULL)


def is_tag(dimension: str) -> bool:
    return dimension.startswith((_EXPERIMENT, _ATTRIBUTE))


def column_of(dimension: str) -> str:
    """The field of `Dimensions` that a filter or segment is about."""
    if dimension.startswith(_EXPERIMENT):
        return "variants"
    return "attributes" if dimension.startswith(_ATTRIBUTE) else dimension


def prefix_of(dimension: str) -> str:
    """What the variants of an experiment, or the values of an attribute, begin with."""
    if dimension.startswith(_EXPERIMENT):
        return dimension.removeprefix(_EXPERIMENT) + ":"
    return dimension.removeprefix(_ATTRIBUTE) + "="
