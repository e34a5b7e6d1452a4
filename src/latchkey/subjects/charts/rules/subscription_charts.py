"""The charts of paid subscriptions."""

from __future__ import annotations

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

ACTIVES = Definition(
    name="actives",
    title="Active subscriptions",
    group=SUBSCRIPTIONS,
    words=(
        "Paid subscriptions that have not expired at the end of each period. Cancelled ones count until they expire, "
        "and so do those in a grace period. Trials, granted access and family shares do not count. A customer with two "
        "subscriptions counts twice."
    ),
    unit=Unit.COUNT,
    kinds=(Kind.ACTIVE,),
    drawing=Drawing.LINE,
    segmented=Drawing.STACKED_BARS,
    segments=PLAIN,
    is_level=True,
)
ACTIVES_MOVEMENT = Definition(
    name="actives_movement",
    title="Active subscriptions movement",
    group=SUBSCRIPTIONS,
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
    unit=Unit.COUNT,
    kinds=(Kind.NEW, Kind.RETURN, Kind.EXPANSION, Kind.CONTRACTION, Kind.CHURN),
    drawing=Drawing.STACKED_BARS,
)
ACTIVES_NEW = Definition(
    name="actives_new",
    title="New paid subscriptions",
    group=SUBSCRIPTIONS,
    words=(
        "Subscriptions whose first payment was made in each period: bought directly, bought with a paid introductory "
        "offer, or converted from a trial."
    ),
    differs="Customers who return after a gap are not counted here but as returned in the movement.",
    unit=Unit.COUNT,
    kinds=(Kind.NEW,),
    drawing=Drawing.STACKED_BARS,
    segmented=Drawing.STACKED_BARS,
    segments=PLAIN,
)
CHURN = Definition(
    name="churn",
    title="Churn",
    group=SUBSCRIPTIONS,
    words=(
        "Paid subscriptions that expired in each period, less those that returned, divided by the subscriptions that "
        "were active at the start of the period. It is negative if more returned than expired. Without any at the "
        "start there is no value. The total is that of all chosen days as one period: all that expired less all that "
        "returned, divided by the subscriptions that were active at the start of the first day."
    ),
    differs="A product change without a gap is not churn; in RevenueCat's charts it is.",
    unit=Unit.SHARE,
    kinds=(Kind.CHURN, Kind.RETURN, Kind.ACTIVE),
    drawing=Drawing.LINE,
    segmented=Drawing.LINE,
    segments=PLAIN,
)
SUBSCRIPTION_RETENTION = Definition(
    name="subscription_retention",
    title="Subscription retention",
    group=SUBSCRIPTIONS,
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
    unit=Unit.COUNT,
    kinds=(Kind.RETAINED, Kind.RETAINED_SOON),
    drawing=Drawing.HEAT_MAP,
    segmented=Drawing.HEAT_MAP,
    filters=tuple(one for one in PLAIN if one != "duration"),
    segments=tuple(one for one in PLAIN if one != "duration"),
    selectors=(DURATION,),
    has_comparison=False,
)
SUBSCRIPTION_STATUS = Definition(
    name="subscription_status",
    title="Subscription status",
    group=SUBSCRIPTIONS,
    words=(
        "What becomes of the running subscriptions or trials as things stand now: set to renew, set to cancel (renewal "
        "is off), or in a grace period because of a billing issue. It is a picture of now; the dates do not matter."
    ),
    differs="RevenueCat's measure Subscription Revenue is not served.",
    unit=Unit.COUNT,
    kinds=(Kind.STATUS,),
    drawing=Drawing.BARS,
    segmented=Drawing.STACKED_BARS,
    segments=PLAIN,
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
    has_money=True,
)
RENEWAL_RATE = Definition(
    name="renewal_rate",
    title="Renewal rate",
    group=SUBSCRIPTIONS,
    words=(
        "Of the renewals that were due in each period, the share that was paid, within the grace period too. Counted "
        "on the day the renewal was due, so the last days can still rise while grace periods run. Break it down by the "
        "number of the renewal to see the first renewal beside later ones."
    ),
    differs="RevenueCat has no such chart.",
    unit=Unit.SHARE,
    kinds=(Kind.RENEWAL_DUE, Kind.RENEWED),
    drawing=Drawing.LINE,
    segmented=Drawing.LINE,
    segments=(*PLAIN, "renewal_number"),
)
BILLING_RECOVERY = Definition(
    name="billing_recovery",
    title="Billing issue recovery",
    group=SUBSCRIPTIONS,
    words=(
        "Renewal payments that failed in each period, and what became of them: recovered while access was kept, "
        "recovered after access had ended, lost, or still open. The rate is the recovered ones divided by those that "
        "are decided."
    ),
    differs="RevenueCat has no such chart.",
    unit=Unit.SHARE,
    kinds=(Kind.BILLING_ISSUE,),
    drawing=Drawing.LINE,
    segmented=Drawing.LINE,
    segments=PLAIN,
    has_money=True,
)
