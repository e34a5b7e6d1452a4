"""All charts, in the order in which they are listed, and what a reader may choose in one project."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.subjects.charts.rules.customer_charts import (
    CONVERSION_TO_PAYING,
    CUSTOMERS_NEW,
    CUSTOMERS_PAYING,
    EXPERIMENT_RESULTS,
    INITIAL_CONVERSION,
    TRIAL_CONVERSION_RATE,
    TRIALS_CHART,
    TRIALS_MOVEMENT,
    TRIALS_NEW,
)
from latchkey.subjects.charts.rules.definition import Choice, Definition
from latchkey.subjects.charts.rules.revenue_charts import (
    ARR,
    COHORT_EXPLORER,
    LTV_PER_CUSTOMER,
    LTV_PER_PAYING_CUSTOMER,
    MRR,
    MRR_MOVEMENT,
    REFUND_RATE,
    REVENUE_CHART,
)
from latchkey.subjects.charts.rules.subscription_charts import (
    ACTIVES,
    ACTIVES_MOVEMENT,
    ACTIVES_NEW,
    BILLING_RECOVERY,
    CHURN,
    RENEWAL_RATE,
    SUBSCRIPTION_RETENTION,
    SUBSCRIPTION_STATUS,
)

CHARTS = (
    MRR,
    MRR_MOVEMENT,
    ARR,
    REVENUE_CHART,
    REFUND_RATE,
    LTV_PER_CUSTOMER,
    LTV_PER_PAYING_CUSTOMER,
    COHORT_EXPLORER,
    ACTIVES,
    ACTIVES_MOVEMENT,
    ACTIVES_NEW,
    CHURN,
    SUBSCRIPTION_RETENTION,
    SUBSCRIPTION_STATUS,
    RENEWAL_RATE,
    BILLING_RECOVERY,
    TRIALS_CHART,
    TRIALS_MOVEMENT,
    TRIALS_NEW,
    TRIAL_CONVERSION_RATE,
    CUSTOMERS_NEW,
    CUSTOMERS_PAYING,
    INITIAL_CONVERSION,
    CONVERSION_TO_PAYING,
    EXPERIMENT_RESULTS,
)
BY_NAME = {one.name: one for one in CHARTS}


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
