"""The series of each chart, from columns of sums: a function of the chart's name. The first series is the chart's own:
with segments it is the only one that is drawn."""

from functools import partial

from msgspec.structs import replace

from latchkey.subjects.charts.rules.chart import ChartRequest, Series
from latchkey.subjects.charts.rules.columns import Column, Columns, flow, level, negative, per, share, sum_of
from latchkey.subjects.charts.rules.definition import CHOICES, Unit
from latchkey.subjects.charts.rules.facts import MOVED, Kind

_money = partial(flow, unit=Unit.MONEY)
# For tables and files only.
_count = partial(flow, is_drawn=False)
_amount = partial(flow, unit=Unit.MONEY, is_drawn=False)


def mrr(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("mrr", "MRR", columns.level_money(Kind.ACTIVE), Unit.MONEY)]


def mrr_movement(columns: Columns, _: ChartRequest) -> list[Series]:
    new, returned = columns.flow_money(Kind.NEW), columns.flow_money(Kind.RETURN)
    up, down = columns.flow_money(Kind.EXPANSION, 0), negative(columns.flow_money(Kind.CONTRACTION))
    # Of all products together it is zero; one product gains what another one loses.
    moved = columns.flow_money(Kind.EXPANSION, MOVED)
    churn = negative(columns.flow_money(Kind.CHURN))
    change = sum_of(columns.level_money(Kind.ACTIVE), negative(columns.before_money(Kind.ACTIVE)))
    rest = sum_of(change, negative(sum_of(new, returned, up, down, moved, churn)))
    return [
        _money("new", "New", new),
        _money("reactivation", "Reactivation", returned),
        _money("expansion", "Expansion", up),
        _money("contraction", "Contraction", down),
        *([_money("changed", "Product changes", moved)] if any(moved) else []),
        _money("churn", "Churn", churn),
        *([_money("exchange", "Exchange rates", rest)] if any(rest) else []),
        _money("movement", "Movement", change, is_net=True),
    ]


def arr(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("arr", "ARR", [12 * value for value in columns.level_money(Kind.ACTIVE)], Unit.MONEY)]


def revenue(columns: Columns, request: ChartRequest) -> list[Series]:
    """The chosen revenue type comes first in the columns, then all types."""

    def net(type: int) -> Column:
        return sum_of(columns.flow_money(Kind.PAYMENT, type=type), negative(columns.flow_money(Kind.REFUND, type=type)))

    titles = {one.id: one.title for one in CHOICES["revenue_types"]}
    chosen = request.selectors["revenue_type"]
    others = [
        _amount(id if id != "revenue" else "revenue_before_taxes", title, net(place))
        for place, (id, title) in enumerate(titles.items(), 1)
        if id != chosen
    ]
    transactions = sum_of(columns.flow(Kind.PAYMENT), negative(columns.flow(Kind.REFUND)))
    return [
        _money("revenue", titles[chosen], net(0), is_net=True),
        _money("gross", "Payments", columns.flow_money(Kind.PAYMENT)),
        _money("refunds", "Refunds", negative(columns.flow_money(Kind.REFUND))),
        *others,
        _count("transactions", "Transactions less refunds", transactions),
    ]


def refund_rate(columns: Columns, _: ChartRequest) -> list[Series]:
    paid, refunded = columns.flow(Kind.PAYMENT), columns.flow(Kind.REFUNDED_PAYMENT)
    return [
        share("refund_rate", "Refund rate", refunded, paid),
        _count("payments", "Payments", paid),
        _count("refunded", "Refunded since", refunded),
    ]


def ltv_per_customer(columns: Columns, request: ChartRequest) -> list[Series]:
    revenue, customers = columns.flow_money(Kind.SEEN_REVENUE, *request.windows), columns.flow(Kind.CUSTOMER)
    return [
        per("ltv", "LTV per customer", revenue, customers),
        _amount("revenue", "Revenue", revenue),
        _count("customers", "New customers", customers),
    ]


def ltv_per_paying_customer(columns: Columns, request: ChartRequest) -> list[Series]:
    revenue = columns.flow_money(Kind.SEEN_REVENUE, *request.windows)
    payers = columns.flow(Kind.SEEN_PAYER, *request.windows)
    return [
        per("ltv", "LTV per paying customer", revenue, payers),
        _amount("revenue", "Revenue", revenue),
        _count("payers", "Paying customers", payers),
    ]


def actives(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("actives", "Active subscriptions", columns.level(Kind.ACTIVE))]


def actives_movement(columns: Columns, _: ChartRequest) -> list[Series]:
    new, returned, churn = columns.flow(Kind.NEW), columns.flow(Kind.RETURN), negative(columns.flow(Kind.CHURN))
    # Of all products together it is zero; one product gains what another one loses.
    changed = sum_of(columns.flow(Kind.EXPANSION), negative(columns.flow(Kind.CONTRACTION)))
    return [
        flow("new", "New", new),
        flow("returned", "Returned", returned),
        *([flow("changed", "Product changes", changed)] if any(changed) else []),
        flow("churned", "Churned", churn),
        flow("movement", "Movement", sum_of(new, returned, changed, churn), is_net=True),
    ]


def actives_new(columns: Columns, request: ChartRequest) -> list[Series]:
    is_segment = request.segment is not None
    total = flow("new", "New paid subscriptions", columns.flow(Kind.NEW), is_drawn=is_segment)
    if is_segment:
        return [total]
    return [
        total,
        flow("direct", "Bought directly", columns.flow(Kind.NEW, 0)),
        flow("intro", "With an introductory offer", columns.flow(Kind.NEW, 1)),
        flow("trial_conversions", "Converted from a trial", columns.flow(Kind.NEW, 2)),
    ]


def churn(columns: Columns, _: ChartRequest) -> list[Series]:
    expired, returned = columns.flow(Kind.CHURN), columns.flow(Kind.RETURN)
    at_start = columns.before(Kind.ACTIVE)
    lost = sum_of(expired, negative(returned))
    first = next(iter(at_start), 0)
    # Of the whole range, so that it is the same in days, weeks and months.
    overall = sum(lost) / first if first > 0 else None
    return [
        replace(share("churn", "Churn", lost, at_start), total=overall),
        _count("expired", "Expired", expired),
        _count("returned", "Returned", returned),
        Series("actives", "Active at the start", Unit.COUNT, tuple(at_start), first, is_drawn=False),
    ]


def subscription_status(columns: Columns, request: ChartRequest) -> list[Series]:
    chosen = request.selectors["measure"]
    times = {"mrr": 1, "arr": 12}.get(chosen)

    def measure(id: str, title: str, *ns: int, is_drawn: bool = True) -> Series:
        if times is None:
            return level(id, title, columns.level(Kind.STATUS, *ns), is_drawn=is_drawn)
        amounts = [times * value for value in columns.level_money(Kind.STATUS, *ns)]
        return level(id, title, amounts, Unit.MONEY, is_drawn=is_drawn)

    places = range(3, 6) if chosen == "trials" else range(3)
    return [
        measure("set_to_renew", "Set to renew", places[0]),
        measure("set_to_cancel", "Set to cancel", places[1]),
        measure("billing_issue", "Billing issue", places[2]),
        measure("total", "Total", *places, is_drawn=False),
    ]


def renewal_rate(columns: Columns, _: ChartRequest) -> list[Series]:
    due, paid = columns.flow(Kind.RENEWAL_DUE), columns.flow(Kind.RENEWED)
    return [
        share("renewal_rate", "Renewal rate", paid, due),
        _count("due", "Renewals due", due),
        _count("renewed", "Renewed", paid),
    ]


def billing_recovery(columns: Columns, _: ChartRequest) -> list[Series]:
    kept, later = columns.flow(Kind.BILLING_ISSUE, 1), columns.flow(Kind.BILLING_ISSUE, 2)
    lost = columns.flow(Kind.BILLING_ISSUE, 3)
    recovered = sum_of(kept, later)
    return [
        share("recovery_rate", "Recovery rate", recovered, sum_of(recovered, lost)),
        _count("issues", "Billing issues", columns.flow(Kind.BILLING_ISSUE)),
        _count("recovered_in_time", "Recovered while access was kept", kept),
        _count("recovered_later", "Recovered later", later),
        _count("lost", "Lost", lost),
        _count("open", "Open", columns.flow(Kind.BILLING_ISSUE, 0)),
        _amount("amount_recovered", "Amount recovered", columns.flow_money(Kind.BILLING_ISSUE, 1, 2)),
        _amount("amount_lost", "Amount lost", columns.flow_money(Kind.BILLING_ISSUE, 3)),
    ]


def trials(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("trials", "Active trials", columns.level(Kind.TRIAL))]


def trials_movement(columns: Columns, _: ChartRequest) -> list[Series]:
    new = columns.flow(Kind.TRIAL_STARTED)
    converted, lost = negative(columns.flow(Kind.TRIAL_ENDED, 1)), negative(columns.flow(Kind.TRIAL_ENDED, 2))
    return [
        flow("new", "New", new),
        flow("converted", "Converted", converted),
        flow("expired", "Ended without a payment", lost),
        flow("movement", "Movement", sum_of(new, converted, lost), is_net=True),
    ]


def trials_new(columns: Columns, _: ChartRequest) -> list[Series]:
    return [flow("trials_new", "New trials", columns.flow(Kind.TRIAL_STARTED))]


def trial_conversion_rate(columns: Columns, _: ChartRequest) -> list[Series]:
    started, converted = columns.flow(Kind.TRIAL_STARTED), columns.flow(Kind.TRIAL_STARTED, 1)
    return [
        share("conversion_rate", "Conversion rate", converted, started),
        _count("trials", "Trials started", started),
        _count("converted", "Converted", converted),
        _count("pending", "Still running", columns.flow(Kind.TRIAL_STARTED, 0)),
        _count("lost", "Ended without a payment", columns.flow(Kind.TRIAL_STARTED, 2)),
        _count("refunded", "Converted and refunded", columns.flow(Kind.TRIAL_STARTED, 3)),
    ]


def customers_new(columns: Columns, _: ChartRequest) -> list[Series]:
    return [flow("customers", "New customers", columns.flow(Kind.CUSTOMER))]


def customers_paying(columns: Columns, _: ChartRequest) -> list[Series]:
    return [flow("customers", "New paying customers", columns.flow(Kind.PAYING_CUSTOMER))]


def _conversion(kind: Kind, title: str, counted: str, columns: Columns, request: ChartRequest) -> list[Series]:
    converted, customers = columns.flow(kind, *request.windows), columns.flow(Kind.CUSTOMER)
    return [
        share("conversion_rate", title, converted, customers),
        _count("converted", counted, converted),
        _count("customers", "New customers", customers),
    ]


initial_conversion = partial(_conversion, Kind.SEEN_CONVERTED, "Initial conversion", "Customers who bought or tried")
conversion_to_paying = partial(_conversion, Kind.SEEN_PAYER, "Conversion to paying", "Paying customers")
