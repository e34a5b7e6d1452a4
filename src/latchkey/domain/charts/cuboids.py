"""Cuboids: for which sets of dimensions sums are stored.

Sums by country alone have few rows, however many payments are behind them: one for each country and day. Sums by all
dimensions have nearly one row for each fact. A question is answered from the smallest cuboid that has its dimensions.
`FULL` has all of them and answers everything.

Every fact is in each cuboid once; in those with variants or attributes once for each of its variants or attributes.
"""

from __future__ import annotations

from typing import NamedTuple

from latchkey.domain.charts.fact import Dimensions, Kind, Question

_EXPERIMENT, _ATTRIBUTE = "experiment:", "attribute:"

# These have a tuple of values: "experiment id:variant id", "name=value".
TAGS = ("variants", "attributes")

_CORE = ("product", "duration", "store", "platform", "offering")

# Retention is always of one duration, so the sums of these are by duration in every cuboid.
_OF_ONE_DURATION = frozenset({Kind.RETAINED, Kind.RETAINED_SOON})


class Cuboid(NamedTuple):
    # Stored: never change or reuse one.
    number: int
    dimensions: frozenset[str]

    @property
    def tag(self) -> str | None:
        return next((one for one in TAGS if one in self.dimensions), None)

    def dimensions_of(self, kind: Kind) -> frozenset[str]:
        return self.dimensions | {"duration"} if kind in _OF_ONE_DURATION else self.dimensions


def _cuboid(number: int, *dimensions: str) -> Cuboid:
    return Cuboid(number, frozenset(dimensions))


FULL = _cuboid(0, *Dimensions._fields)

# From small to large; the first one that has the dimensions of a question answers it.
CUBOIDS: tuple[Cuboid, ...] = (
    _cuboid(1),
    _cuboid(3, "duration"),
    # A product has one duration, so it costs nothing beside it.
    _cuboid(2, "product", "duration"),
    _cuboid(4, "store"),
    _cuboid(6, "platform"),
    _cuboid(8, "offering"),
    _cuboid(9, "variants"),
    _cuboid(10, "attributes"),
    _cuboid(7, "app_version"),
    _cuboid(5, "country"),
    _cuboid(11, *_CORE),
    _cuboid(19, "duration", "country"),
    _cuboid(20, "store", "country"),
    _cuboid(21, "platform", "country"),
    _cuboid(22, "offering", "country"),
    _cuboid(18, "product", "duration", "country"),
    _cuboid(24, "duration", "app_version"),
    _cuboid(25, "store", "app_version"),
    _cuboid(26, "platform", "app_version"),
    _cuboid(27, "offering", "app_version"),
    _cuboid(23, "product", "duration", "app_version"),
    _cuboid(16, "country", "variants"),
    _cuboid(28, "app_version", "variants"),
    _cuboid(14, *_CORE, "variants"),
    _cuboid(17, "country", "attributes"),
    _cuboid(29, "app_version", "attributes"),
    _cuboid(15, *_CORE, "attributes"),
    _cuboid(30, "country", "app_version"),
    _cuboid(12, *_CORE, "country"),
    _cuboid(13, *_CORE, "app_version"),
    # Less than half the rows of all dimensions. The store usually tells the platform.
    _cuboid(31, "store", "platform", "country", "app_version"),
)


def _parents() -> dict[int, Cuboid]:
    """Each cuboid can be computed from any other one that has its dimensions, the smallest being the quickest. Facts
    are in a cuboid with tags once for each tag, so cuboids without tags cannot come from these."""
    found: dict[int, Cuboid] = {}
    for place, one in enumerate(CUBOIDS):
        larger = (other for other in CUBOIDS[place + 1 :] if one.dimensions < other.dimensions and one.tag == other.tag)
        found[one.number] = next(larger, FULL)
    return found


PARENTS = _parents()


def cuboid_for(question: Question) -> Cuboid:
    asked = {one.dimension for one in question.filters}
    if question.segment is not None:
        asked.add(question.segment)
    # A row has one variant or attribute, so two experiments, or two attributes, need all dimensions.
    if sum(is_tag(one) for one in asked) > 1:
        return FULL
    names = {column_of(one) for one in asked}
    if _OF_ONE_DURATION.issuperset(question.kinds):
        names.discard("duration")
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
