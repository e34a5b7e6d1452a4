"""The measures of each chart, from the columns of one segment (or of all)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import neg
from typing import TypeAlias

from latchkey.subjects.charts.rules.chart import ChartRequest, Value
from latchkey.subjects.charts.rules.chart_periods import window_place
from latchkey.subjects.charts.rules.columns import Column, Columns, sum_of
from latchkey.subjects.charts.rules.definition import REVENUE_TYPE, Unit
from latchkey.subjects.charts.rules.facts import MOVED, Kind


@dataclass(frozen=True, slots=True)
class Measure:
    id: str
    title: str
    unit: Unit
    values: tuple[Value, ...]
    total: Value
    is_drawn: bool = True
    is_net: bool = False


# The first measure is the chart's own: with segments it is the only one that is drawn.
Measures: TypeAlias = Callable[[Columns, ChartRequest], list[Measure]]


def _flow(id: str, title: str, values: Column, unit: Unit = Unit.COUNT, *, is_drawn: bool = True) -> Measure:
    return Measure(id, title, unit, tuple(values), sum(values), is_drawn)


def _level(id: str, title: str, values: Column, unit: Unit = Unit.COUNT, *, is_drawn: bool = True) -> Measure:
    return Measure(id, title, unit, tuple(values), values[-1] if values else 0, is_drawn)


def _table_only(one: Measure) -> Measure:
    return replace(one, is_drawn=False)


def _net(one: Measure) -> Measure:
    return replace(one, is_net=True)


def _minus(values: Column) -> Column:
    return list(map(neg, values))


def _sum(*columns: Column) -> Column:
    return sum_of(columns)


def _share(id: str, title: str, parts: Column, wholes: Column) -> Measure:
    values = tuple(part / whole if whole > 0 else None for part, whole in zip(parts, wholes, strict=True))
    whole = sum(wholes)
    return Measure(id, title, Unit.SHARE, values, sum(parts) / whole if whole > 0 else None)


def _per(id: str, title: str, amounts: Column, counts: Column) -> Measure:
    values = tuple(round(a / n) if n > 0 else None for a, n in zip(amounts, counts, strict=True))
    count = sum(counts)
    return Measure(id, title, Unit.MONEY, values, round(sum(amounts) / count) if count > 0 else None)


def mrr(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_level("mrr", "MRR", columns.level_money(Kind.ACTIVE), Unit.MONEY)]


def arr(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_level("arr", "ARR", [12 * value for value in columns.level_money(Kind.ACTIVE)], Unit.MONEY)]


def mrr_movement(columns: Columns, _: ChartRequest) -> list[Measure]:
    new, returned = columns.flow_money(Kind.NEW), columns.flow_money(Kind.RETURN)
    up, down = columns.flow_money(Kind.EXPANSION, 0), _minus(columns.flow_money(Kind.CONTRACTION))
    # Of all products together it is zero; one product gains what another one loses.
    moved = columns.flow_money(Kind.EXPANSION, MOVED)
    churn = _minus(columns.flow_money(Kind.CHURN))
    change = _sum(columns.level_money(Kind.ACTIVE), _minus(columns.before_money(Kind.ACTIVE)))
    rest = _sum(change, _minus(_sum(new, returned, up, down, moved, churn)))
    found = [
        _flow("new", "New", new, Unit.MONEY),
        _flow("reactivation", "Reactivation", returned, Unit.MONEY),
        _flow("expansion", "Expansion", up, Unit.MONEY),
        _flow("contraction", "Contraction", down, Unit.MONEY),
        *([_flow("changed", "Product changes", moved, Unit.MONEY)] if any(moved) else []),
        _flow("churn", "Churn", churn, Unit.MONEY),
    ]
    if any(rest):
        found.append(_flow("exchange", "Exchange rates", rest, Unit.MONEY))
    return [*found, _net(_flow("movement", "Movement", change, Unit.MONEY))]


def revenue(columns: Columns, request: ChartRequest) -> list[Measure]:
    """The chosen revenue type comes first in the columns, then all types."""

    def net(type: int) -> Column:
        return _sum(columns.flow_money(Kind.PAYMENT, type=type), _minus(columns.flow_money(Kind.REFUND, type=type)))

    titles = {one.id: one.title for one in REVENUE_TYPE.choices}
    chosen = request.selectors["revenue_type"]
    found = [
        _net(_flow("revenue", titles[chosen], net(0), Unit.MONEY)),
        _flow("gross", "Payments", columns.flow_money(Kind.PAYMENT), Unit.MONEY),
        _flow("refunds", "Refunds", _minus(columns.flow_money(Kind.REFUND)), Unit.MONEY),
    ]
    for place, (id, title) in enumerate(titles.items(), 1):
        if id != chosen:
            found.append(
                _flow(id if id != "revenue" else "revenue_before_taxes", title, net(place), Unit.MONEY, is_drawn=False)
            )
    transactions = _sum(columns.flow(Kind.PAYMENT), _minus(columns.flow(Kind.REFUND)))
    return [*found, _flow("transactions", "Transactions less refunds", transactions, is_drawn=False)]


def actives(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_level("actives", "Active subscriptions", columns.level(Kind.ACTIVE))]


def actives_movement(columns: Columns, _: ChartRequest) -> list[Measure]:
    new, returned, churn = columns.flow(Kind.NEW), columns.flow(Kind.RETURN), _minus(columns.flow(Kind.CHURN))
    # Of all products together it is zero; one product gains what another one loses.
    changed = _sum(columns.flow(Kind.EXPANSION), _minus(columns.flow(Kind.CONTRACTION)))
    return [
        _flow("new", "New", new),
        _flow("returned", "Returned", returned),
        *([_flow("changed", "Product changes", changed)] if any(changed) else []),
        _flow("churned", "Churned", churn),
        _net(_flow("movement", "Movement", _sum(new, returned, changed, churn))),
    ]


def actives_new(columns: Columns, request: ChartRequest) -> list[Measure]:
    total = _flow("new", "New paid subscriptions", columns.flow(Kind.NEW))
    if request.segment is not None:
        return [total]
    return [
        _table_only(total),
        _flow("direct", "Bought directly", columns.flow(Kind.NEW, 0)),
        _flow("intro", "With an introductory offer", columns.flow(Kind.NEW, 1)),
        _flow("trial_conversions", "Converted from a trial", columns.flow(Kind.NEW, 2)),
    ]


def trials(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_level("trials", "Active trials", columns.level(Kind.TRIAL))]


def trials_movement(columns: Columns, _: ChartRequest) -> list[Measure]:
    new = columns.flow(Kind.TRIAL_STARTED)
    converted, lost = _minus(columns.flow(Kind.TRIAL_ENDED, 1)), _minus(columns.flow(Kind.TRIAL_ENDED, 2))
    return [
        _flow("new", "New", new),
        _flow("converted", "Converted", converted),
        _flow("expired", "Ended without a payment", lost),
        _net(_flow("movement", "Movement", _sum(new, converted, lost))),
    ]


def trials_new(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_flow("trials_new", "New trials", columns.flow(Kind.TRIAL_STARTED))]


def trial_conversion_rate(columns: Columns, _: ChartRequest) -> list[Measure]:
    started, converted = columns.flow(Kind.TRIAL_STARTED), columns.flow(Kind.TRIAL_STARTED, 1)
    return [
        _share("conversion_rate", "Conversion rate", converted, started),
        _flow("trials", "Trials started", started, is_drawn=False),
        _flow("converted", "Converted", converted, is_drawn=False),
        _flow("pending", "Still running", columns.flow(Kind.TRIAL_STARTED, 0), is_drawn=False),
        _flow("lost", "Ended without a payment", columns.flow(Kind.TRIAL_STARTED, 2), is_drawn=False),
        _flow("refunded", "Converted and refunded", columns.flow(Kind.TRIAL_STARTED, 3), is_drawn=False),
    ]


def customers_new(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_flow("customers", "New customers", columns.flow(Kind.CUSTOMER))]


def customers_paying(columns: Columns, _: ChartRequest) -> list[Measure]:
    return [_flow("customers", "New paying customers", columns.flow(Kind.PAYING_CUSTOMER))]


def churn(columns: Columns, _: ChartRequest) -> list[Measure]:
    expired, returned = columns.flow(Kind.CHURN), columns.flow(Kind.RETURN)
    at_start = columns.before(Kind.ACTIVE)
    lost = _sum(expired, _minus(returned))
    first = next(iter(at_start), 0)
    # Of the whole range, so that it is the same in days, weeks and months.
    overall = sum(lost) / first if first > 0 else None
    return [
        replace(_share("churn", "Churn", lost, at_start), total=overall),
        _flow("expired", "Expired", expired, is_drawn=False),
        _flow("returned", "Returned", returned, is_drawn=False),
        Measure("actives", "Active at the start", Unit.COUNT, tuple(at_start), first, is_drawn=False),
    ]


def refund_rate(columns: Columns, _: ChartRequest) -> list[Measure]:
    paid, refunded = columns.flow(Kind.PAYMENT), columns.flow(Kind.REFUNDED_PAYMENT)
    return [
        _share("refund_rate", "Refund rate", refunded, paid),
        _flow("payments", "Payments", paid, is_drawn=False),
        _flow("refunded", "Refunded since", refunded, is_drawn=False),
    ]


def renewal_rate(columns: Columns, _: ChartRequest) -> list[Measure]:
    due, paid = columns.flow(Kind.RENEWAL_DUE), columns.flow(Kind.RENEWED)
    return [
        _share("renewal_rate", "Renewal rate", paid, due),
        _flow("due", "Renewals due", due, is_drawn=False),
        _flow("renewed", "Renewed", paid, is_drawn=False),
    ]


def billing_recovery(columns: Columns, _: ChartRequest) -> list[Measure]:
    kept, later = columns.flow(Kind.BILLING_ISSUE, 1), columns.flow(Kind.BILLING_ISSUE, 2)
    lost = columns.flow(Kind.BILLING_ISSUE, 3)
    recovered = _sum(kept, later)
    money = columns.flow_money
    return [
        _share("recovery_rate", "Recovery rate", recovered, _sum(recovered, lost)),
        _flow("issues", "Billing issues", columns.flow(Kind.BILLING_ISSUE), is_drawn=False),
        _flow("recovered_in_time", "Recovered while access was kept", kept, is_drawn=False),
        _flow("recovered_later", "Recovered later", later, is_drawn=False),
        _flow("lost", "Lost", lost, is_drawn=False),
        _flow("open", "Open", columns.flow(Kind.BILLING_ISSUE, 0), is_drawn=False),
        _flow("amount_recovered", "Amount recovered", money(Kind.BILLING_ISSUE, 1, 2), Unit.MONEY, is_drawn=False),
        _flow("amount_lost", "Amount lost", money(Kind.BILLING_ISSUE, 3), Unit.MONEY, is_drawn=False),
    ]


def ltv_per_customer(columns: Columns, request: ChartRequest) -> list[Measure]:
    revenue, customers = _within(columns.flow_money, Kind.SEEN_REVENUE, request), columns.flow(Kind.CUSTOMER)
    return [
        _per("ltv", "LTV per customer", revenue, customers),
        _flow("revenue", "Revenue", revenue, Unit.MONEY, is_drawn=False),
        _flow("customers", "New customers", customers, is_drawn=False),
    ]


def ltv_per_paying_customer(columns: Columns, request: ChartRequest) -> list[Measure]:
    revenue = _within(columns.flow_money, Kind.SEEN_REVENUE, request)
    payers = _within(columns.flow, Kind.SEEN_PAYER, request)
    return [
        _per("ltv", "LTV per paying customer", revenue, payers),
        _flow("revenue", "Revenue", revenue, Unit.MONEY, is_drawn=False),
        _flow("payers", "Paying customers", payers, is_drawn=False),
    ]


def initial_conversion(columns: Columns, request: ChartRequest) -> list[Measure]:
    return _conversion(columns, request, Kind.SEEN_CONVERTED, "Initial conversion", "Customers who bought or tried")


def conversion_to_paying(columns: Columns, request: ChartRequest) -> list[Measure]:
    return _conversion(columns, request, Kind.SEEN_PAYER, "Conversion to paying", "Paying customers")


def _conversion(columns: Columns, request: ChartRequest, kind: Kind, title: str, counted: str) -> list[Measure]:
    converted, customers = _within(columns.flow, kind, request), columns.flow(Kind.CUSTOMER)
    return [
        _share("conversion_rate", title, converted, customers),
        _flow("converted", counted, converted, is_drawn=False),
        _flow("customers", "New customers", customers, is_drawn=False),
    ]


def _within(columns: Callable[..., Column], kind: Kind, request: ChartRequest) -> Column:
    return columns(kind, *range(window_place(request) + 1))


def subscription_status(columns: Columns, request: ChartRequest) -> list[Measure]:
    chosen = request.selectors["measure"]
    offset = 3 if chosen == "trials" else 0
    is_money = chosen in ("mrr", "arr")
    times = 12 if chosen == "arr" else 1

    def measure(id: str, title: str, *ns: int) -> Measure:
        if not is_money:
            return _level(id, title, columns.level(Kind.STATUS, *ns))
        return _level(id, title, [times * value for value in columns.level_money(Kind.STATUS, *ns)], Unit.MONEY)

    places = range(offset, offset + 3)
    return [
        measure("set_to_renew", "Set to renew", places[0]),
        measure("set_to_cancel", "Set to cancel", places[1]),
        measure("billing_issue", "Billing issue", places[2]),
        _table_only(measure("total", "Total", *places)),
    ]


MEASURES: Mapping[str, Measures] = {
    "mrr": mrr,
    "arr": arr,
    "mrr_movement": mrr_movement,
    "revenue": revenue,
    "actives": actives,
    "actives_movement": actives_movement,
    "actives_new": actives_new,
    "trials": trials,
    "trials_movement": trials_movement,
    "trials_new": trials_new,
    "trial_conversion_rate": trial_conversion_rate,
    "customers_new": customers_new,
    "customers_paying": customers_paying,
    "churn": churn,
    "refund_rate": refund_rate,
    "renewal_rate": renewal_rate,
    "billing_recovery": billing_recovery,
    "ltv_per_customer": ltv_per_customer,
    "ltv_per_paying_customer": ltv_per_paying_customer,
    "initial_conversion": initial_conversion,
    "conversion_to_paying": conversion_to_paying,
    "subscription_status": subscription_status,
}

# How large a segment is: by the first measure, unless that is a share.
WEIGHTS: Mapping[str, str] = {
    "trial_conversion_rate": "trials",
    "churn": "actives",
    "refund_rate": "payments",
    "renewal_rate": "due",
    "billing_recovery": "issues",
    "ltv_per_customer": "revenue",
    "ltv_per_paying_customer": "revenue",
    "initial_conversion": "converted",
    "conversion_to_paying": "converted",
    "subscription_status": "total",
}


def weight(name: str, measures: Sequence[Measure]) -> float:
    """Over all periods together, so that it is the same by day and by month, and what was refunded does not count."""
    wanted = WEIGHTS.get(name, measures[0].id)
    return abs(sum(value or 0 for one in measures if one.id == wanted for value in one.values))
