"""What a project offers to choose from on its pages of charts."""

from __future__ import annotations

from latchkey.dashboard.charting.asking import Environment, Offered
from latchkey.dashboard.page import Visit
from latchkey.domain.charts.definitions.definition import ATTRIBUTE, EXPERIMENT, Choice
from latchkey.domain.purchases.purchase import Environment as Named
from latchkey.usecases.charts.options import chosen_attributes, usual_environment
from latchkey.usecases.experiments.experiments import list_experiments
from latchkey.usecases.sandbox.clocks import newest_clocks

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
