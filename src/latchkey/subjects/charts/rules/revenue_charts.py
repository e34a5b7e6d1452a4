"""The charts of money."""

from __future__ import annotations

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
from latchkey.subjects.charts.rules.facts import Kind

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

MRR = Definition(
    name="mrr",
    title="Monthly recurring revenue",
    group=REVENUE,
    words=f"Monthly recurring revenue (MRR) at the end of each period. {_MONTHLY}",
    differs=_INTRO,
    unit=Unit.MONEY,
    kinds=(Kind.ACTIVE,),
    drawing=Drawing.LINE,
    segmented=Drawing.STACKED_BARS,
    segments=PLAIN,
    selectors=(REVENUE_TYPE,),
    is_level=True,
    has_money=True,
)
ARR = Definition(
    name="arr",
    title="Annual recurring revenue",
    group=REVENUE,
    words=f"Annual recurring revenue (ARR) at the end of each period: twelve times the MRR. {_MONTHLY}",
    differs=_INTRO,
    unit=Unit.MONEY,
    kinds=(Kind.ACTIVE,),
    drawing=Drawing.LINE,
    segmented=Drawing.STACKED_BARS,
    segments=PLAIN,
    selectors=(REVENUE_TYPE,),
    is_level=True,
    has_money=True,
)
MRR_MOVEMENT = Definition(
    name="mrr_movement",
    title="MRR movement",
    group=REVENUE,
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
    has_money=True,
)
REVENUE_CHART = Definition(
    name="revenue",
    title="Revenue",
    group=REVENUE,
    words=(
        "What customers paid in each period for subscriptions and one-time purchases (gross), less what was refunded "
        "in it. Each payment counts in full on its day. Net of taxes is without the tax in the price; proceeds are "
        "also without the store's commission."
    ),
    differs=_ON_ITS_DAY,
    unit=Unit.MONEY,
    kinds=(Kind.PAYMENT, Kind.REFUND),
    drawing=Drawing.STACKED_BARS,
    segmented=Drawing.STACKED_BARS,
    segments=(*PLAIN, "transaction_type"),
    selectors=(REVENUE_TYPE,),
    has_money=True,
)
REFUND_RATE = Definition(
    name="refund_rate",
    title="Refund rate",
    group=REVENUE,
    words=(
        "Of the payments made in each period, the share that was refunded in full at any time since. Counted in the "
        "period of the payment, so recent periods can still rise."
    ),
    unit=Unit.SHARE,
    kinds=(Kind.PAYMENT, Kind.REFUNDED_PAYMENT),
    drawing=Drawing.LINE,
    segmented=Drawing.LINE,
    segments=PLAIN,
)
LTV_PER_CUSTOMER = Definition(
    name="ltv_per_customer",
    title="Realised LTV per customer",
    group=REVENUE,
    words=(
        "What the customers first seen in each period have paid within the chosen lifetime, less refunds, divided by "
        "the number of these customers, buyers or not. Day 0 is the day they were first seen, so a lifetime of 7 days "
        "has 8 calendar days. Filters by product, duration, store or offering reduce the payments, never the customers."
    ),
    differs=(
        "A refund reduces the lifetimes that were still open on the day of the refund, and no shorter one. "
        "RevenueCat's older charts reduce all of them."
    ),
    unit=Unit.MONEY,
    kinds=(Kind.SEEN_REVENUE, Kind.CUSTOMER),
    drawing=Drawing.LINE,
    segmented=Drawing.LINE,
    segments=PLAIN,
    selectors=(LIFETIME,),
    is_of_first_seen=True,
    has_money=True,
)
LTV_PER_PAYING_CUSTOMER = Definition(
    name="ltv_per_paying_customer",
    title="Realised LTV per paying customer",
    group=REVENUE,
    words=(
        "What the customers first seen in each period have paid within the chosen lifetime, less refunds, divided by "
        "those of them who paid within that lifetime. A customer with nothing but a trial is not a paying one. A "
        "customer whose payments were all refunded is not either. There are no filters and breakdowns by product, "
        "duration, store, offering or experiment: a paying customer is counted once, by the first payment, while the "
        "revenue is of all payments, so the two would not be of the same customers."
    ),
    differs=LTV_PER_CUSTOMER.differs,
    unit=Unit.MONEY,
    kinds=(Kind.SEEN_REVENUE, Kind.SEEN_PAYER),
    drawing=Drawing.LINE,
    segmented=Drawing.LINE,
    filters=OF_CUSTOMERS,
    segments=OF_CUSTOMERS,
    has_experiments=False,
    selectors=(LIFETIME,),
    is_of_first_seen=True,
    has_money=True,
)
COHORT_EXPLORER = Definition(
    name="cohort_explorer",
    title="Cohort explorer",
    group=REVENUE,
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
    has_money=True,
)
