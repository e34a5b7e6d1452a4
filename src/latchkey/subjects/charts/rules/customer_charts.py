"""The charts of trials, customers and experiments."""

from functools import partial

from latchkey.subjects.charts.rules.chart import ChartRequest, Series
from latchkey.subjects.charts.rules.columns import Columns, flow, level, negative, share, sum_of
from latchkey.subjects.charts.rules.definition import (
    CONVERSION_TIMEFRAME,
    CUSTOMERS,
    EXPERIMENTS,
    OF_CUSTOMERS,
    TRIALS,
    WINDOWS,
    Definition,
    Drawing,
    Selector,
    Unit,
)
from latchkey.subjects.charts.rules.facts import Kind

_trials = partial(Definition, group=TRIALS)
_customers = partial(Definition, group=CUSTOMERS)


@_trials(
    name="trials",
    title="Active trials",
    words="Free trials that run at the end of each period, cancelled ones included.",
    kinds=(Kind.TRIAL,),
    is_level=True,
)
def trials(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("trials", "Active trials", columns.level(Kind.TRIAL))]


@_trials(
    name="trials_movement",
    title="Active trials movement",
    words=(
        "What changed the number of active trials in each period: trials that began, trials that ended with a payment, "
        "and trials that ended without one."
    ),
    differs="RevenueCat shows the two kinds of ended trials as one.",
    kinds=(Kind.TRIAL_STARTED, Kind.TRIAL_ENDED),
    drawing=Drawing.STACKED_BARS,
    segments=(),
)
def trials_movement(columns: Columns, _: ChartRequest) -> list[Series]:
    new = columns.flow(Kind.TRIAL_STARTED)
    converted, lost = negative(columns.flow(Kind.TRIAL_ENDED, 1)), negative(columns.flow(Kind.TRIAL_ENDED, 2))
    return [
        flow("new", "New", new),
        flow("converted", "Converted", converted),
        flow("expired", "Ended without a payment", lost),
        flow("movement", "Movement", sum_of(new, converted, lost), is_net=True),
    ]


@_trials(
    name="trials_new",
    title="New trials",
    words="Free trials that began in each period, whenever the customer was first seen.",
    kinds=(Kind.TRIAL_STARTED,),
    drawing=Drawing.BARS,
)
def trials_new(columns: Columns, _: ChartRequest) -> list[Series]:
    return [flow("trials_new", "New trials", columns.flow(Kind.TRIAL_STARTED))]


@_trials(
    name="trial_conversion_rate",
    title="Trial conversion rate",
    words=(
        "Of the trials that began in each period, the share that was followed by a payment of the same subscription, "
        "however late. A conversion whose payment was refunded does not count. A period is incomplete while any of its "
        "trials still runs."
    ),
    differs="RevenueCat does not mark periods whose trials still run.",
    unit=Unit.SHARE,
    kinds=(Kind.TRIAL_STARTED,),
    weight="trials",
)
def trial_conversion_rate(columns: Columns, _: ChartRequest) -> list[Series]:
    started, converted = columns.flow(Kind.TRIAL_STARTED), columns.flow(Kind.TRIAL_STARTED, 1)
    return [
        share("conversion_rate", "Conversion rate", converted, started),
        flow("trials", "Trials started", started, is_drawn=False),
        flow("converted", "Converted", converted, is_drawn=False),
        flow("pending", "Still running", columns.flow(Kind.TRIAL_STARTED, 0), is_drawn=False),
        flow("lost", "Ended without a payment", columns.flow(Kind.TRIAL_STARTED, 2), is_drawn=False),
        flow("refunded", "Converted and refunded", columns.flow(Kind.TRIAL_STARTED, 3), is_drawn=False),
    ]


@_customers(
    name="customers_new",
    title="New customers",
    words=(
        "Customers first seen in each period, buyers or not: on their first contact or their first purchase, whichever "
        "was earlier. A merged customer counts once. A purchase that was transferred counts for the customer who has "
        "it now, so a transfer can move the day. A customer who bought only in the sandbox counts there."
    ),
    kinds=(Kind.CUSTOMER,),
    drawing=Drawing.BARS,
    filters=OF_CUSTOMERS,
    segments=OF_CUSTOMERS,
)
def customers_new(columns: Columns, _: ChartRequest) -> list[Series]:
    return [flow("customers", "New customers", columns.flow(Kind.CUSTOMER))]


@_customers(
    name="customers_paying",
    title="New paying customers",
    words=(
        "Customers whose first payment ever was made in each period. Trials are not payments. By product, store, "
        "country and the like, a customer counts by this first payment, whatever they pay for later, and where."
    ),
    differs="RevenueCat has no such chart.",
    kinds=(Kind.PAYING_CUSTOMER,),
    drawing=Drawing.BARS,
)
def customers_paying(columns: Columns, _: ChartRequest) -> list[Series]:
    return [flow("customers", "New paying customers", columns.flow(Kind.PAYING_CUSTOMER))]


def _conversion(columns: Columns, request: ChartRequest, kind: Kind, title: str, counted: str) -> list[Series]:
    converted, customers = columns.flow(kind, *request.windows), columns.flow(Kind.CUSTOMER)
    return [
        share("conversion_rate", title, converted, customers),
        flow("converted", counted, converted, is_drawn=False),
        flow("customers", "New customers", customers, is_drawn=False),
    ]


@_customers(
    name="initial_conversion",
    title="Initial conversion",
    words=(
        "Of the customers first seen in each period, the share that bought anything or started a trial within the "
        "chosen time. A customer whose purchases were all refunded within it does not count. Filters by product, "
        "duration, store or offering reduce the buyers, never the customers. With such a filter or breakdown a "
        "customer counts by the first purchase only: who bought something else first is not counted for what came "
        "later. Whoever got everything refunded and buys again counts by the purchase that brought them back."
    ),
    unit=Unit.SHARE,
    kinds=(Kind.SEEN_CONVERTED, Kind.CUSTOMER),
    selectors=(CONVERSION_TIMEFRAME,),
    is_of_first_seen=True,
    weight="converted",
)
def initial_conversion(columns: Columns, request: ChartRequest) -> list[Series]:
    return _conversion(columns, request, Kind.SEEN_CONVERTED, "Initial conversion", "Customers who bought or tried")


@_customers(
    name="conversion_to_paying",
    title="Conversion to paying",
    words=(
        "Of the customers first seen in each period, the share that paid anything within the chosen time. A customer "
        "whose payments were all refunded within it does not count. Filters by product, duration, store or offering "
        "reduce the payers, never the customers. With such a filter or breakdown a customer counts by the first "
        "payment only: who paid for something else first is not counted for what came later. Whoever got everything "
        "refunded and pays again counts by the payment that brought them back."
    ),
    unit=Unit.SHARE,
    kinds=(Kind.SEEN_PAYER, Kind.CUSTOMER),
    selectors=(CONVERSION_TIMEFRAME,),
    is_of_first_seen=True,
    weight="converted",
)
def conversion_to_paying(columns: Columns, request: ChartRequest) -> list[Series]:
    return _conversion(columns, request, Kind.SEEN_PAYER, "Conversion to paying", "Paying customers")


experiment_results = Definition(
    name="experiment_results",
    title="Experiment results",
    group=EXPERIMENTS,
    words=(
        "Customers enrolled between the dates, by variant, and what they did after the enrollment within the chosen "
        "time. Intervals hold the true value in 95 of 100 cases. Conversion has Wilson's interval, the difference of "
        "two conversions has Newcombe's. The probability to be better is that of two beta distributions, by their "
        "normal approximation. Revenue per customer has the interval of a mean (normal approximation), with the spread "
        "of what customers paid. An interval is left out where a variant has too little data for it. The first variant "
        "is the one that the others are compared with."
    ),
    differs="RevenueCat's experiment results are in its dashboard only, with other methods.",
    unit=Unit.SHARE,
    kinds=(
        Kind.ENROLLED,
        Kind.ENROLLED_CONVERTED,
        Kind.ENROLLED_PAYER,
        Kind.ENROLLED_REVENUE,
        Kind.ENROLLED_SQUARE,
    ),
    drawing=Drawing.INTERVALS,
    selectors=(
        Selector("experiment", "Experiment", "", ()),
        Selector("conversion_timeframe", "Within", "unbounded", WINDOWS),
    ),
    filters=OF_CUSTOMERS,
    has_comparison=False,
    has_other_money=True,
    segments=(),
)
