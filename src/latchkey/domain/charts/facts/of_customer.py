"""Everything that a customer adds to the charts: the facts of each purchase, and of the customer.

The facts depend on the state of the customer alone, not on the time. An end of access that lies ahead is a fact with a
later date. What only time can decide (a trial that ends without a payment) is known with the next state: the end of
access is an event, and the event brings a new state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.fact import Fact
from latchkey.domain.charts.facts import dimensions as made
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.experiments import add_enrollments
from latchkey.domain.charts.facts.payments import Paid, add_payments, payment_of, payments_of
from latchkey.domain.charts.facts.people import Bought, add_customer
from latchkey.domain.charts.facts.renewals import add_issues, add_renewals, graces_of
from latchkey.domain.charts.facts.running import Levels, Run, add_active, add_beginnings
from latchkey.domain.charts.facts.segments import NO_GRACES, as_seen, segments
from latchkey.domain.charts.facts.status import add_status
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
from latchkey.domain.charts.facts.trials import add_trials
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment, Ownership
from latchkey.domain.purchases.subscription import PeriodType, Subscription


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
