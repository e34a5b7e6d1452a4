"""Everything that a customer adds to the charts: the facts of each purchase, and of the customer.

The facts depend on the state of the customer alone, not on the time. An end of access that lies ahead is a fact with a
later date. What only time can decide (a trial that ends without a payment) is known with the next state: the end of
access is an event, and the event brings a new state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.fact import NO_MONEY, Fact, Kind, negative
from latchkey.domain.charts.facts import dimensions as made
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.experiments import add_enrollments
from latchkey.domain.charts.facts.payments import Paid, add_payments, payment_of, payments_of
from latchkey.domain.charts.facts.people import Bought, add_customer
from latchkey.domain.charts.facts.renewals import add_issues, add_renewals, graces_of
from latchkey.domain.charts.facts.running import Levels, Run, add_active, add_beginnings
from latchkey.domain.charts.facts.segments import NO_GRACES, PAID, Segment, as_seen, segments
from latchkey.domain.charts.facts.subject import (
    NO_ORIGIN,
    FactBook,
    Issue,
    Origin,
    SubjectKey,
    counts,
    customer_key,
    environment_of,
)
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment, Ownership
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription

# What became of a trial.
RUNNING, CONVERTED, LOST, REFUNDED = 0, 1, 2, 3


def add_trials(
    book: FactBook, subscription: Subscription, counted: Sequence[Segment], dimensions: SubscriptionDimensions
) -> None:
    periods = subscription.periods
    for place, trial in enumerate(periods):
        if trial.period_type is not PeriodType.TRIAL:
            continue
        following = periods[place + 1] if place + 1 < len(periods) else None
        fate = _fate(subscription, following)
        of = dimensions.of(trial)
        # A trial that was converted early ends there, even if that payment is refunded while the trial would still run.
        ran = next((one for one in counted if one.period is trial), None)
        start, end = (trial.starts_at, trial.starts_at) if ran is None else (ran.start, ran.end)
        if ran is not None:
            book.add(Kind.TRIAL, start, 0, "", 1, NO_MONEY, of)
            book.add(Kind.TRIAL, end, 0, "", -1, NO_MONEY, of)
        book.add(Kind.TRIAL_STARTED, start, fate, "", 1, NO_MONEY, of)
        book.add(Kind.TRIAL_ENDED, end, CONVERTED if fate in (CONVERTED, REFUNDED) else LOST, "", 1, NO_MONEY, of)


def _fate(subscription: Subscription, following: Period | None) -> int:
    """Only the payment that follows the trial converts it."""
    if following is not None and following.period_type in PAID:
        return CONVERTED if following.refunded_at is None else REFUNDED
    over = following is not None or subscription.expired is not None or subscription.cut_short
    return LOST if over else RUNNING


RENEWS, ENDS, FAILED = 0, 1, 2
# Added for trials.
_TRIAL = 3


def add_status(
    book: FactBook,
    subscription: Subscription,
    counted: Sequence[Segment],
    levels: Levels,
    dimensions: SubscriptionDimensions,
) -> None:
    """From the newest period on: at every later moment the sum is the number of subscriptions that run then."""
    current, status = subscription.current, subscription.status
    since = min(current.starts_at, status.as_of.at)
    failed = status.billing_issue_at is not None
    goes_on = status.goes_on and current.refunded_at is None
    paid_for = ENDS if not goes_on else FAILED if failed else RENEWS
    beyond = FAILED if failed else paid_for
    for start, end, period in counted:
        if end <= since:
            continue
        if period is current and start < current.ends_at < end and paid_for != beyond:
            _add(book, Segment(start, current.ends_at, period), paid_for, levels, dimensions)
            _add(book, Segment(current.ends_at, end, period), beyond, levels, dimensions)
        else:
            _add(book, Segment(start, end, period), paid_for, levels, dimensions)


def _add(book: FactBook, segment: Segment, standing: int, levels: Levels, dimensions: SubscriptionDimensions) -> None:
    start, end, period = segment
    if period.period_type in PAID:
        currency, money, of = levels.of(period)
        book.add(Kind.STATUS, start, standing, currency, 1, money, of)
        book.add(Kind.STATUS, end, standing, currency, -1, negative(money), of)
    elif period.period_type is PeriodType.TRIAL:
        of = dimensions.of(period)
        book.add(Kind.STATUS, start, standing + _TRIAL, "", 1, NO_MONEY, of)
        book.add(Kind.STATUS, end, standing + _TRIAL, "", -1, NO_MONEY, of)


def facts_of(
    customer: Customer,
    catalog: Catalog,
    *,
    origins: Mapping[SubjectKey, Origin],
    issues: Mapping[SubjectKey, Sequence[Issue]],
    attributes: Sequence[str],
    erased: Mapping[SubjectKey, Ms] | None = None,
) -> dict[SubjectKey, tuple[Fact, ...]]:
    """By subject; `subject.subjects_of` gives the environment of each. Subjects without facts are listed too, because
    they may have had some before. `erased`: purchases that belonged to a customer who was erased, and the instant up to
    which they were that customer's; what was paid until then is not this customer's."""
    return _Making(customer, catalog, origins, issues, attributes, erased or {}).facts()


class _Making:
    def __init__(
        self,
        customer: Customer,
        catalog: Catalog,
        origins: Mapping[SubjectKey, Origin],
        issues: Mapping[SubjectKey, Sequence[Issue]],
        attributes: Sequence[str],
        erased: Mapping[SubjectKey, Ms],
    ) -> None:
        self._customer = customer
        self._catalog = catalog
        self._origins = origins
        self._issues = issues
        self._erased = erased
        self._attributes = made.attributes_of(customer, attributes)
        self._books: dict[SubjectKey, FactBook] = {("", id): FactBook() for id in customer.aliases}
        self._payments: dict[Environment, list[Paid]] = defaultdict(list)
        self._bought: dict[Environment, list[Bought]] = defaultdict(list)
        self._runs: dict[Environment, list[Run]] = defaultdict(list)

    def facts(self) -> dict[SubjectKey, tuple[Fact, ...]]:
        self._purchases()
        for subscription in self._customer.subscriptions:
            self._subscription(subscription)
        for payments in self._payments.values():
            add_payments(payments)
        for runs in self._runs.values():
            add_beginnings(runs)
        self._people()
        return {key: book.facts() for key, book in self._books.items()}

    def _purchases(self) -> None:
        for one in self._customer.purchases:
            if not counts(one):
                continue
            key = one.store, one.id
            book = self._books[key] = FactBook()
            # Shared by the family: somebody else paid, and is counted.
            if one.ownership is Ownership.PURCHASED:
                of = made.of_purchase(
                    one, self._customer, self._catalog, self._origins.get(key, NO_ORIGIN), self._attributes
                )
                self._bought[one.environment].append(Bought(one.purchased_at, one.id, one.money_back, of))
                payment = payment_of(one, of, book)
                if payment is not None:
                    self._payments[one.environment].append(payment)

    def _subscription(self, subscription: Subscription) -> None:
        key = subscription.store, subscription.id
        book = self._books[key] = FactBook()
        if subscription.ownership is not Ownership.PURCHASED:
            return
        dimensions = SubscriptionDimensions(
            subscription, self._customer, self._catalog, self._origins.get(key, NO_ORIGIN), self._attributes
        )
        self._payments[subscription.environment] += payments_of(subscription.periods, dimensions, book)
        self._bought[subscription.environment] += [
            Bought(one.purchased_at, one.id, one.money_back, dimensions.of(one))
            for one in subscription.periods
            if one.period_type is not PeriodType.PROMOTIONAL
        ]
        issues = self._issues.get(key, ())
        counted = as_seen(segments(subscription, graces_of(issues) if issues else NO_GRACES))
        levels = Levels(subscription, dimensions)
        self._runs[subscription.environment] += add_active(book, key, subscription, counted, levels)
        add_trials(book, subscription, counted, dimensions)
        add_status(book, subscription, counted, levels, dimensions)
        add_renewals(book, subscription, dimensions)
        if issues:
            add_issues(book, subscription, issues, self._catalog, dimensions)

    def _people(self) -> None:
        customer, key = self._customer, customer_key(self._customer)
        # On a test clock everything is bought in the sandbox.
        real = customer.test_clock_id is None and environment_of(customer) == Environment.PRODUCTION
        environment = Environment.PRODUCTION if real else Environment.SANDBOX
        payments, bought = self._payments[environment], self._bought[environment]
        if self._erased:
            others = self._of_erased_customers()
            payments = [one for one in payments if (one.at, one.id) not in others]
            bought = [one for one in bought if (one.at, one.id) not in others]
        of = made.of_customer(customer, self._origins.get(key, NO_ORIGIN), self._attributes)
        if not of.country and bought:
            of = of._replace(country=min(bought, key=lambda one: one[:2]).dimensions.country)
        add_customer(self._books[key], customer, of, payments, bought)
        if customer.enrollments:
            add_enrollments(self._books[key], customer.enrollments, of, payments, bought)

    def _of_erased_customers(self) -> set[tuple[Ms, str]]:
        """Instant and id of everything that was bought by customers who are erased."""
        found: set[tuple[Ms, str]] = set()
        for one in self._customer.subscriptions:
            to = self._erased.get((one.store, one.id), 0)
            found.update((each.purchased_at, each.id) for each in one.periods if each.purchased_at <= to)
        for bought in self._customer.purchases:
            if bought.purchased_at <= self._erased.get((bought.store, bought.id), 0):
                found.add((bought.purchased_at, bought.id))
        return found
