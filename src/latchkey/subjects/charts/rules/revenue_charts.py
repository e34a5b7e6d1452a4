"""The charts of money."""

from functools import partial

from latchkey.subjects.charts.rules.chart import ChartRequest, Series
from latchkey.subjects.charts.rules.columns import Column, Columns, flow, level, negative, per, share, sum_of
from latchkey.subjects.charts.rules.definition import (
    LIFETIME,
    OF_CUSTOMERS,
    PLAIN,
    REVENUE,
    REVENUE_TYPE,
    Choice,
    Definition,
    Drawing,
    Selector,
    Unit,
)
from latchkey.subjects.charts.rules.facts import MOVED, Kind

_revenue = partial(Definition, group=REVENUE)

_MONTHLY = (
    "The price of every active paid subscription is converted to one month: a yearly price is divided by 12, a weekly "
    "price is multiplied by 4. Trials, one-time purchases, granted access and family shares do not count. Cancelled "
    "subscriptions count until they expire, and so do those in a grace period."
)
_INTRO = (
    "A paid introductory period counts by its own length: 9.99 for three months adds 3.33 a month, where RevenueCat's "
    "older charts can show 9.99. A period that is not of days, weeks or months counts by months of 30 days; RevenueCat "
    "takes 28."
)
_ON_ITS_DAY = (
    "A refund counts on the day of the refund, so it does not change a closed period. RevenueCat's older charts take "
    "it from the period of the payment. A partial refund has its own day too: the store's, else the day it was first "
    "reported. A payment that was collected in a grace period counts on the day it was collected; RevenueCat counts it "
    "on the day it was due."
)
_OPEN_LIFETIMES = (
    "A refund reduces the lifetimes that were still open on the day of the refund, and no shorter one. RevenueCat's "
    "older charts reduce all of them."
)


@_revenue(
    name="mrr",
    title="Monthly recurring revenue",
    words=f"Monthly recurring revenue (MRR) at the end of each period. {_MONTHLY}",
    differs=_INTRO,
    unit=Unit.MONEY,
    kinds=(Kind.ACTIVE,),
    selectors=(REVENUE_TYPE,),
    is_level=True,
)
def mrr(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("mrr", "MRR", columns.level_money(Kind.ACTIVE), Unit.MONEY)]


@_revenue(
    name="mrr_movement",
    title="MRR movement",
    words=(
        "What changed the MRR in each period. New: the first payment of a subscription. Reactivation: a customer who "
        "had let a subscription expire has one again. Expansion and contraction: the price or the product changed "
        "without a gap, and the amount shown is higher or lower than before; so a renewal at another exchange rate "
        "counts too, unless the chart is in the currency that was paid. Churn: a paid subscription expired. The five "
        "add up to the movement. With a filter by product, what moves to and from that product is shown too. In a "
        "currency of display into which amounts are converted, the change of the exchange rates is shown too."
    ),
    differs=(
        "RevenueCat shows only New and Churned: a price change is in one or both of them, and what a returning "
        "customer pays is subtracted from Churned."
    ),
    unit=Unit.MONEY,
    kinds=(Kind.NEW, Kind.RETURN, Kind.EXPANSION, Kind.CONTRACTION, Kind.CHURN, Kind.ACTIVE),
    drawing=Drawing.STACKED_BARS,
    selectors=(REVENUE_TYPE,),
    segments=(),
)
def mrr_movement(columns: Columns, _: ChartRequest) -> list[Series]:
    new, returned = columns.flow_money(Kind.NEW), columns.flow_money(Kind.RETURN)
    up, down = columns.flow_money(Kind.EXPANSION, 0), negative(columns.flow_money(Kind.CONTRACTION))
    # Of all products together it is zero; one product gains what another one loses.
    moved = columns.flow_money(Kind.EXPANSION, MOVED)
    churn = negative(columns.flow_money(Kind.CHURN))
    change = sum_of(columns.level_money(Kind.ACTIVE), negative(columns.before_money(Kind.ACTIVE)))
    rest = sum_of(change, negative(sum_of(new, returned, up, down, moved, churn)))
    found = [
        flow("new", "New", new, Unit.MONEY),
        flow("reactivation", "Reactivation", returned, Unit.MONEY),
        flow("expansion", "Expansion", up, Unit.MONEY),
        flow("contraction", "Contraction", down, Unit.MONEY),
        *([flow("changed", "Product changes", moved, Unit.MONEY)] if any(moved) else []),
        flow("churn", "Churn", churn, Unit.MONEY),
    ]
    if any(rest):
        found.append(flow("exchange", "Exchange rates", rest, Unit.MONEY))
    return [*found, flow("movement", "Movement", change, Unit.MONEY, is_net=True)]


@_revenue(
    name="arr",
    title="Annual recurring revenue",
    words=f"Annual recurring revenue (ARR) at the end of each period: twelve times the MRR. {_MONTHLY}",
    differs=_INTRO,
    unit=Unit.MONEY,
    kinds=(Kind.ACTIVE,),
    selectors=(REVENUE_TYPE,),
    is_level=True,
)
def arr(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("arr", "ARR", [12 * value for value in columns.level_money(Kind.ACTIVE)], Unit.MONEY)]


@_revenue(
    name="revenue",
    title="Revenue",
    words=(
        "What customers paid in each period for subscriptions and one-time purchases (gross), less what was refunded "
        "in it. Each payment counts in full on its day. Net of taxes is without the tax in the price; proceeds are "
        "also without the store's commission."
    ),
    differs=_ON_ITS_DAY,
    unit=Unit.MONEY,
    kinds=(Kind.PAYMENT, Kind.REFUND),
    drawing=Drawing.STACKED_BARS,
    segments=(*PLAIN, "transaction_type"),
    selectors=(REVENUE_TYPE,),
)
def revenue(columns: Columns, request: ChartRequest) -> list[Series]:
    """The chosen revenue type comes first in the columns, then all types."""

    def net(type: int) -> Column:
        return sum_of(columns.flow_money(Kind.PAYMENT, type=type), negative(columns.flow_money(Kind.REFUND, type=type)))

    titles = {one.id: one.title for one in REVENUE_TYPE.choices}
    chosen = request.selectors["revenue_type"]
    found = [
        flow("revenue", titles[chosen], net(0), Unit.MONEY, is_net=True),
        flow("gross", "Payments", columns.flow_money(Kind.PAYMENT), Unit.MONEY),
        flow("refunds", "Refunds", negative(columns.flow_money(Kind.REFUND)), Unit.MONEY),
    ]
    for place, (id, title) in enumerate(titles.items(), 1):
        if id != chosen:
            found.append(
                flow(id if id != "revenue" else "revenue_before_taxes", title, net(place), Unit.MONEY, is_drawn=False)
            )
    transactions = sum_of(columns.flow(Kind.PAYMENT), negative(columns.flow(Kind.REFUND)))
    return [*found, flow("transactions", "Transactions less refunds", transactions, is_drawn=False)]


@_revenue(
    name="refund_rate",
    title="Refund rate",
    words=(
        "Of the payments made in each period, the share that was refunded in full at any time since. Counted in the "
        "period of the payment, so recent periods can still rise."
    ),
    unit=Unit.SHARE,
    kinds=(Kind.PAYMENT, Kind.REFUNDED_PAYMENT),
    weight="payments",
)
def refund_rate(columns: Columns, _: ChartRequest) -> list[Series]:
    paid, refunded = columns.flow(Kind.PAYMENT), columns.flow(Kind.REFUNDED_PAYMENT)
    return [
        share("refund_rate", "Refund rate", refunded, paid),
        flow("payments", "Payments", paid, is_drawn=False),
        flow("refunded", "Refunded since", refunded, is_drawn=False),
    ]


@_revenue(
    name="ltv_per_customer",
    title="Realised LTV per customer",
    words=(
        "What the customers first seen in each period have paid within the chosen lifetime, less refunds, divided by "
        "the number of these customers, buyers or not. Day 0 is the day they were first seen, so a lifetime of 7 days "
        "has 8 calendar days. Filters by product, duration, store or offering reduce the payments, never the customers."
    ),
    differs=_OPEN_LIFETIMES,
    unit=Unit.MONEY,
    kinds=(Kind.SEEN_REVENUE, Kind.CUSTOMER),
    selectors=(LIFETIME,),
    is_of_first_seen=True,
    weight="revenue",
)
def ltv_per_customer(columns: Columns, request: ChartRequest) -> list[Series]:
    revenue, customers = columns.flow_money(Kind.SEEN_REVENUE, *request.windows), columns.flow(Kind.CUSTOMER)
    return [
        per("ltv", "LTV per customer", revenue, customers),
        flow("revenue", "Revenue", revenue, Unit.MONEY, is_drawn=False),
        flow("customers", "New customers", customers, is_drawn=False),
    ]


@_revenue(
    name="ltv_per_paying_customer",
    title="Realised LTV per paying customer",
    words=(
        "What the customers first seen in each period have paid within the chosen lifetime, less refunds, divided by "
        "those of them who paid within that lifetime. A customer with nothing but a trial is not a paying one. A "
        "customer whose payments were all refunded is not either. There are no filters and breakdowns by product, "
        "duration, store, offering or experiment: a paying customer is counted once, by the first payment, while the "
        "revenue is of all payments, so the two would not be of the same customers."
    ),
    differs=_OPEN_LIFETIMES,
    unit=Unit.MONEY,
    kinds=(Kind.SEEN_REVENUE, Kind.SEEN_PAYER),
    filters=OF_CUSTOMERS,
    segments=OF_CUSTOMERS,
    has_experiments=False,
    selectors=(LIFETIME,),
    is_of_first_seen=True,
    weight="revenue",
)
def ltv_per_paying_customer(columns: Columns, request: ChartRequest) -> list[Series]:
    revenue = columns.flow_money(Kind.SEEN_REVENUE, *request.windows)
    payers = columns.flow(Kind.SEEN_PAYER, *request.windows)
    return [
        per("ltv", "LTV per paying customer", revenue, payers),
        flow("revenue", "Revenue", revenue, Unit.MONEY, is_drawn=False),
        flow("payers", "Paying customers", payers, is_drawn=False),
    ]


cohort_explorer = _revenue(
    name="cohort_explorer",
    title="Cohort explorer",
    words=(
        "What the customers first seen in each period have paid, less refunds, within growing lifetimes. Each "
        "customer's lifetime begins on the day they were first seen. Choose the sum, the sum per customer, or the "
        "share who paid. With a filter by product, duration, store or offering, amounts are of the payments that "
        "match it, and a customer counts as paying by the first payment."
    ),
    differs="RevenueCat's columns are months or weeks; ours are the lifetimes of the LTV charts.",
    unit=Unit.MONEY,
    kinds=(Kind.SEEN_REVENUE, Kind.SEEN_PAYER, Kind.CUSTOMER),
    drawing=Drawing.HEAT_MAP,
    selectors=(
        Selector(
            "measure",
            "Measure",
            "ltv_per_customer",
            (
                Choice("ltv_per_customer", "Realised LTV per customer"),
                Choice("ltv", "Realised LTV"),
                Choice("payers", "Paying customers"),
            ),
        ),
    ),
    is_of_first_seen=True,
    has_comparison=False,
    segments=(),
)
