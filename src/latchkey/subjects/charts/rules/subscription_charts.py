"""The charts of paid subscriptions."""

from dataclasses import replace
from functools import partial

from latchkey.subjects.charts.rules.chart import ChartRequest, Series
from latchkey.subjects.charts.rules.columns import Columns, flow, level, negative, share, sum_of
from latchkey.subjects.charts.rules.definition import (
    DURATION,
    PLAIN,
    SUBSCRIPTIONS,
    Choice,
    Definition,
    Drawing,
    Selector,
    Unit,
)
from latchkey.subjects.charts.rules.facts import Kind

_subscriptions = partial(Definition, group=SUBSCRIPTIONS)


@_subscriptions(
    name="actives",
    title="Active subscriptions",
    words=(
        "Paid subscriptions that have not expired at the end of each period. Cancelled ones count until they expire, "
        "and so do those in a grace period. Trials, granted access and family shares do not count. A customer with two "
        "subscriptions counts twice."
    ),
    kinds=(Kind.ACTIVE,),
    is_level=True,
)
def actives(columns: Columns, _: ChartRequest) -> list[Series]:
    return [level("actives", "Active subscriptions", columns.level(Kind.ACTIVE))]


@_subscriptions(
    name="actives_movement",
    title="Active subscriptions movement",
    words=(
        "What changed the number of active subscriptions in each period. New: the first payment of a subscription. "
        "Returned: a customer who had let a subscription expire has one again. Churned: a paid subscription expired or "
        "was refunded. New plus returned less churned is the movement. With a filter by product, changes to and from "
        "that product are shown too."
    ),
    differs=(
        "A product change without a gap changes nothing here; RevenueCat counts one new and one churned. RevenueCat "
        "subtracts returned subscriptions from churned ones instead of showing them."
    ),
    kinds=(Kind.NEW, Kind.RETURN, Kind.EXPANSION, Kind.CONTRACTION, Kind.CHURN),
    drawing=Drawing.STACKED_BARS,
    segments=(),
)
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


@_subscriptions(
    name="actives_new",
    title="New paid subscriptions",
    words=(
        "Subscriptions whose first payment was made in each period: bought directly, bought with a paid introductory "
        "offer, or converted from a trial."
    ),
    differs="Customers who return after a gap are not counted here but as returned in the movement.",
    kinds=(Kind.NEW,),
    drawing=Drawing.STACKED_BARS,
)
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


@_subscriptions(
    name="churn",
    title="Churn",
    words=(
        "Paid subscriptions that expired in each period, less those that returned, divided by the subscriptions that "
        "were active at the start of the period. It is negative if more returned than expired. Without any at the "
        "start there is no value. The total is that of all chosen days as one period: all that expired less all that "
        "returned, divided by the subscriptions that were active at the start of the first day."
    ),
    differs="A product change without a gap is not churn; in RevenueCat's charts it is.",
    unit=Unit.SHARE,
    kinds=(Kind.CHURN, Kind.RETURN, Kind.ACTIVE),
    weight="actives",
)
def churn(columns: Columns, _: ChartRequest) -> list[Series]:
    expired, returned = columns.flow(Kind.CHURN), columns.flow(Kind.RETURN)
    at_start = columns.before(Kind.ACTIVE)
    lost = sum_of(expired, negative(returned))
    first = next(iter(at_start), 0)
    # Of the whole range, so that it is the same in days, weeks and months.
    overall = sum(lost) / first if first > 0 else None
    return [
        replace(share("churn", "Churn", lost, at_start), total=overall),
        flow("expired", "Expired", expired, is_drawn=False),
        flow("returned", "Returned", returned, is_drawn=False),
        Series("actives", "Active at the start", Unit.COUNT, tuple(at_start), first, is_drawn=False),
    ]


subscription_retention = _subscriptions(
    name="subscription_retention",
    title="Subscription retention",
    words=(
        "Subscriptions of one duration, by the period in which their first full-price payment was made, and how many "
        "of them paid again for period 1, 2, 3 and so on. Shares are of the whole cohort, never of the period before; "
        "with a breakdown, where a row has many cohorts, of the subscriptions that are old enough for the period. "
        "The running period is provisional: those renewed so far, and those set to renew. Subscriptions of one row "
        "reach a period on different days, so the last two columns of a row can be provisional, and the later one "
        "counts only those whose turn has come. Trials, introductory periods and grace periods do not count as paid; a "
        "refunded period does not either."
    ),
    differs="A customer who returns after a gap begins a new row, as in RevenueCat's new charts.",
    kinds=(Kind.RETAINED, Kind.RETAINED_SOON),
    drawing=Drawing.HEAT_MAP,
    filters=tuple(one for one in PLAIN if one != "duration"),
    segments=tuple(one for one in PLAIN if one != "duration"),
    selectors=(DURATION,),
    has_comparison=False,
)


@_subscriptions(
    name="subscription_status",
    title="Subscription status",
    words=(
        "What becomes of the running subscriptions or trials as things stand now: set to renew, set to cancel (renewal "
        "is off), or in a grace period because of a billing issue. It is a picture of now; the dates do not matter."
    ),
    differs="RevenueCat's measure Subscription Revenue is not served.",
    kinds=(Kind.STATUS,),
    drawing=Drawing.BARS,
    selectors=(
        Selector(
            "measure",
            "Measure",
            "actives",
            (
                Choice("actives", "Active subscriptions"),
                Choice("trials", "Active trials"),
                Choice("mrr", "MRR"),
                Choice("arr", "ARR"),
            ),
        ),
    ),
    is_level=True,
    is_snapshot=True,
    has_comparison=False,
    has_other_money=True,
    weight="total",
)
def subscription_status(columns: Columns, request: ChartRequest) -> list[Series]:
    chosen = request.selectors["measure"]
    offset = 3 if chosen == "trials" else 0
    times = {"mrr": 1, "arr": 12}.get(chosen)

    def measure(id: str, title: str, *ns: int, is_drawn: bool = True) -> Series:
        if times is None:
            return level(id, title, columns.level(Kind.STATUS, *ns), is_drawn=is_drawn)
        amounts = [times * value for value in columns.level_money(Kind.STATUS, *ns)]
        return level(id, title, amounts, Unit.MONEY, is_drawn=is_drawn)

    places = range(offset, offset + 3)
    return [
        measure("set_to_renew", "Set to renew", places[0]),
        measure("set_to_cancel", "Set to cancel", places[1]),
        measure("billing_issue", "Billing issue", places[2]),
        measure("total", "Total", *places, is_drawn=False),
    ]


@_subscriptions(
    name="renewal_rate",
    title="Renewal rate",
    words=(
        "Of the renewals that were due in each period, the share that was paid, within the grace period too. Counted "
        "on the day the renewal was due, so the last days can still rise while grace periods run. Break it down by the "
        "number of the renewal to see the first renewal beside later ones."
    ),
    differs="RevenueCat has no such chart.",
    unit=Unit.SHARE,
    kinds=(Kind.RENEWAL_DUE, Kind.RENEWED),
    segments=(*PLAIN, "renewal_number"),
    weight="due",
)
def renewal_rate(columns: Columns, _: ChartRequest) -> list[Series]:
    due, paid = columns.flow(Kind.RENEWAL_DUE), columns.flow(Kind.RENEWED)
    return [
        share("renewal_rate", "Renewal rate", paid, due),
        flow("due", "Renewals due", due, is_drawn=False),
        flow("renewed", "Renewed", paid, is_drawn=False),
    ]


@_subscriptions(
    name="billing_recovery",
    title="Billing issue recovery",
    words=(
        "Renewal payments that failed in each period, and what became of them: recovered while access was kept, "
        "recovered after access had ended, lost, or still open. The rate is the recovered ones divided by those that "
        "are decided."
    ),
    differs="RevenueCat has no such chart.",
    unit=Unit.SHARE,
    kinds=(Kind.BILLING_ISSUE,),
    has_other_money=True,
    weight="issues",
)
def billing_recovery(columns: Columns, _: ChartRequest) -> list[Series]:
    kept, later = columns.flow(Kind.BILLING_ISSUE, 1), columns.flow(Kind.BILLING_ISSUE, 2)
    lost = columns.flow(Kind.BILLING_ISSUE, 3)
    recovered = sum_of(kept, later)
    money = columns.flow_money
    return [
        share("recovery_rate", "Recovery rate", recovered, sum_of(recovered, lost)),
        flow("issues", "Billing issues", columns.flow(Kind.BILLING_ISSUE), is_drawn=False),
        flow("recovered_in_time", "Recovered while access was kept", kept, is_drawn=False),
        flow("recovered_later", "Recovered later", later, is_drawn=False),
        flow("lost", "Lost", lost, is_drawn=False),
        flow("open", "Open", columns.flow(Kind.BILLING_ISSUE, 0), is_drawn=False),
        flow("amount_recovered", "Amount recovered", money(Kind.BILLING_ISSUE, 1, 2), Unit.MONEY, is_drawn=False),
        flow("amount_lost", "Amount lost", money(Kind.BILLING_ISSUE, 3), Unit.MONEY, is_drawn=False),
    ]
