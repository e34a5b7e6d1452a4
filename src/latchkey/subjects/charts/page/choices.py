"""What the form of a chart offers, with titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latchkey.dashboard.page import Visit
from latchkey.domain.purchases.purchase import Environment as Named
from latchkey.subjects.charts.page.figures import value_title
from latchkey.subjects.charts.page.view import (
    RANGES,
    UNKNOWN,
    Environment,
    Offered,
    View,
    filterable,
    query_of,
    segmentable,
    without,
)
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT, Choice, title_of
from latchkey.subjects.charts.usecases import chosen_attributes, usual_environment
from latchkey.usecases.experiments.experiments import list_experiments
from latchkey.usecases.sandbox.clocks import newest_clocks

# How many values of a dimension can be ticked.
MOST_VALUES = 100


@dataclass(frozen=True, slots=True)
class Applied:
    """A filter with its values to tick."""

    dimension: str
    title: str
    # Value as in an address, title, whether it is ticked.
    values: Sequence[tuple[str, str, bool]]
    # The query of the page without this filter.
    without: str


def choices_of(view: View, offered: Offered) -> dict[str, Sequence[object]]:
    """The options of each field of the form; selectors with their names and titles."""
    definition = view.definition
    segments = [(one, dimension_title(one, offered)) for one in segmentable(definition, offered)]
    used = {one.dimension for one in view.request.filters} | {view.adding}
    filters = [(one, dimension_title(one, offered)) for one in filterable(definition, offered) if one not in used]
    return {
        "ranges": list(RANGES.items()),
        "environments": [(one.slug, one.title) for one in offered.environments],
        "currencies": [(one, one) for one in offered.currencies],
        "segments": [("", "Nothing"), *segments] if segments else [],
        "filters": [("", "Choose…"), *filters],
        "selectors": [
            (one.name, one.title, [(choice.id, choice.title) for choice in one.choices or offered.choices[one.name]])
            for one in definition.selectors
        ],
    }


def shown_filters(view: View) -> list[str]:
    """The dimensions whose values the form shows: those of filters, and the one that was just added."""
    used = [one.dimension for one in view.request.filters]
    return used if not view.adding or view.adding in used else [*used, view.adding]


def applied(view: View, offered: Offered, values: Mapping[str, Sequence[str]]) -> list[Applied]:
    """`values` has what can be ticked, by dimension. Ticked values are listed even if nothing is counted for them."""
    ticked = {one.dimension: one.values for one in view.request.filters}
    found = []
    for dimension in shown_filters(view):
        chosen = ticked.get(dimension, ())
        listed = [*values.get(dimension, ()), *(one for one in chosen if one not in values.get(dimension, ()))]
        found.append(
            Applied(
                dimension,
                dimension_title(dimension, offered),
                [(one or UNKNOWN, value_title(dimension, one), one in chosen) for one in listed],
                query_of(without(view, dimension), offered),
            )
        )
    return found


def asked_words(view: View, offered: Offered) -> str:
    """In one line, for the page and for paper: what is shown."""
    request = view.request
    said = [view.environment.title]
    if not view.definition.is_snapshot:
        said += [f"{request.first} to {request.last}", f"by {request.resolution}"]
    if request.segment:
        said.append(f"broken down by {dimension_title(request.segment, offered).lower()}")
    for one in request.filters:
        values = " or ".join(value_title(one.dimension, value) for value in one.values)
        said.append(f"{dimension_title(one.dimension, offered)}: {values}")
    if view.definition.has_money:
        said.append(request.currency)
    return " · ".join(said)


def dimension_title(dimension: str, offered: Offered) -> str:
    return offered.dimensions.get(dimension) or title_of(dimension)


# How many test clocks a menu lists.
MOST_CLOCKS = 20
CURRENCIES = ("USD", "EUR", "GBP", "AUD", "CAD", "JPY", "BRL", "KRW", "CNY", "MXN", "SEK", "PLN")


async def offered_to(visit: Visit) -> Offered:
    database, project_id = visit.database, visit.project_id
    clocks = await newest_clocks(database, project_id, None, MOST_CLOCKS)
    experiments = await list_experiments(database, project_id)
    attributes = await chosen_attributes(database, project_id)
    dimensions = {EXPERIMENT + one.id: f"Experiment: {one.name}" for one in experiments}
    dimensions |= {ATTRIBUTE + one: f"Attribute: {one}" for one in attributes}
    return Offered(
        environments=[
            *(Environment(one, one.capitalize(), visit.now) for one in Named),
            *(
                Environment(one.clock.id, f"Test clock: {one.clock.name or one.clock.id}", one.clock.now)
                for one in clocks
            ),
        ],
        currencies=CURRENCIES,
        dimensions=dimensions,
        choices={"experiment": [Choice(one.id, one.name) for one in experiments]},
        usual=await usual_environment(visit.services.charts, project_id, visit.now),
    )
