"""What a reader may choose for a chart in one project."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.charts.definitions.definition import Choice, Definition


@dataclass(frozen=True, slots=True)
class Dimension:
    # As in `sums.Filter`.
    id: str
    title: str
    group: str | None
    # The most frequent first.
    values: tuple[Choice, ...]
    can_filter: bool
    can_segment: bool


@dataclass(frozen=True, slots=True)
class Options:
    # With the project's experiments as the choices of the selector `experiment`.
    definition: Definition
    dimensions: tuple[Dimension, ...]
