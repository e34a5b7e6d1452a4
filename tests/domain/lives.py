"""Random customer histories (lives): legal actions in the test store, time between them, and a store's snapshots."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import TypeAlias

from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, CurrencyTransaction, Customer, with_attributes
from latchkey.domain.customers.enrollment import Experiment, Variant, enroll
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.promotion import grant, revoke
from latchkey.domain.customers.virtual_currency import move
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.shop import CATALOG, NOON, PRO_MONTHLY, PRO_YEARLY, TEAM_MONTHLY, someone

Snapshot: TypeAlias = Subscription | Purchase

EXPERIMENT = Experiment("paywall", "Paywall", (Variant("a", 1), Variant("b", 1)))

# Pauses between actions: the same millisecond, moments, hours around the leeway, days, whole periods.
PAUSES = (0, 1, 700, MINUTE, 5 * HOUR, 7 * HOUR, DAY, 3 * DAY, 8 * DAY, 16 * DAY, 31 * DAY, 100 * DAY, 400 * DAY)


MOMENTS = PAUSES[:7]
# Actions that end a subscription, or have little effect, are chosen less often.
RARE = ("refund", "expire", "issue", "buy", "grant", "outage", "note", "enroll")


@dataclass(slots=True, repr=False)
class Life:
    """A customer with a random history. `snapshots` is what a store would have sent."""

    # Without our own actions (grants, attributes and so on), a store's snapshots alone can replay the whole history.
    with_own_acts: bool = True
    most_purchases: int = 4
    # The start of its purchase ids: two lives that are merged must not share a purchase.
    prefix: str = "p"
    book: Book = field(default_factory=Book)
    snapshots: list[tuple[Ms, Snapshot]] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return "Life:\n  " + "\n  ".join(self.acts)

    @property
    def ended_at(self) -> Ms:
        return self.book.now

    def wait(self, ms: Ms) -> None:
        now = self.book.now + ms
        self._watch(lambda: self.book.pass_time(now))

    def do(self, name: str, after: Customer) -> None:
        self.acts.append(f"after {self.book.now - NOON} ms: {name}")
        self._watch(lambda: self.book.change(after))

    def act(self, name: str) -> None:
        self.do(name, dict(self._acts(self.book.now))[name]())

    def choose(self, number: int) -> tuple[str, Customer]:
        """One legal action, with the customer afterwards: the first in the order that `number` shuffles."""
        acts = [one for one in self._acts(self.book.now) for _ in range(1 if one[0].startswith(RARE) else 4)]
        Random(number).shuffle(acts)
        for name, act in acts:
            try:
                return name, act()
            except Refusal:
                continue
        return "nothing", self.book.customer

    def _watch(self, happen: Callable[[], object]) -> None:
        """Record the snapshots that a store would have sent, in order."""
        first = len(self.book.states)
        before = self.book.customer
        happen()
        for committed_at, after in self.book.states[first:]:
            everything: tuple[Snapshot, ...] = (*after.subscriptions, *after.purchases)
            for one in everything:
                known = _same(before, one)
                # Most purchases are the very same object as before.
                if one is not known and (known is None or as_told(known) != as_told(one)):
                    self.snapshots.append((committed_at, as_told(one)))
            before = after

    def _acts(self, now: Ms) -> Iterator[tuple[str, Callable[[], Customer]]]:
        customer = self.book.customer
        new_id = f"{self.prefix}{len(customer.subscriptions) + len(customer.purchases)}"

        def taking_in(act: Callable[[], Snapshot]) -> Callable[[], Customer]:
            return lambda: take_in(customer, act(), now)

        for one in customer.subscriptions:
            for name, act in _subscription_acts(one, now):
                yield f"{name} {one.id}", taking_in(act)
        for bought in customer.purchases:
            if bought.kind is PurchaseKind.ONE_TIME:
                yield f"refund {bought.id}", taking_in(partial(actions.refund, bought, now))
                yield f"reverse {bought.id}", taking_in(partial(actions.reverse_refund, bought, now))
        if len(customer.subscriptions) + len(customer.purchases) < self.most_purchases:
            sandbox = Environment.SANDBOX
            for product in CATALOG.products.values():
                buy = partial(actions.buy, customer, product, now, id=new_id, environment=sandbox)
                outage = partial(actions.store_outage, customer, product, now, id=new_id, environment=sandbox)
                yield f"buy {product.id} as {new_id}", taking_in(buy)
                if product.trial is not None:
                    yield f"buy {product.id} on trial as {new_id}", taking_in(partial(buy, trial=True))
                if self.with_own_acts:
                    yield f"outage {product.id} as {new_id}", taking_in(outage)
        if self.with_own_acts:
            yield from self._own_acts(customer, now)

    def _own_acts(self, customer: Customer, now: Ms) -> Iterator[tuple[str, Callable[[], Customer]]]:
        number = str(len(self.acts))
        if len(customer.purchases) < self.most_purchases:
            yield "grant team", lambda: grant(customer, "team", now + 5 * DAY, now)
            yield "grant pro for ever", lambda: grant(customer, "pro", None, now)
        yield "revoke team", lambda: revoke(customer, "team", now)
        yield "revoke pro", lambda: revoke(customer, "pro", now)
        yield "spend", lambda: move(customer, CurrencyTransaction(number, "COIN", -30, now))
        yield "enroll", lambda: enroll(customer, EXPERIMENT, now)
        yield "note", lambda: with_attributes(customer, {"$email": Attribute(f"{number}@example.com", now)})


def _subscription_acts(one: Subscription, now: Ms) -> Iterator[tuple[str, Callable[[], Snapshot]]]:
    yield "cancel", lambda: actions.cancel(one, now)
    yield "uncancel", lambda: actions.uncancel(one, now)
    yield "renew", lambda: actions.renew(one, CATALOG, now)
    yield "fail billing", lambda: actions.fail_billing(one, now)
    yield "fail billing with grace", lambda: actions.fail_billing(one, now, grace_days=6)
    yield "recover billing", lambda: actions.recover_billing(one, CATALOG, now)
    yield "expire", lambda: actions.expire(one, now)
    yield "refund", lambda: actions.refund(one, now)
    yield "reverse refund", lambda: actions.reverse_refund(one, now)
    for product in (PRO_MONTHLY, PRO_YEARLY, TEAM_MONTHLY):
        change = partial(actions.change_product, one, product, now)
        yield f"change to {product.id} now", partial(change, at_renewal=False)
        yield f"change to {product.id} at renewal", partial(change, at_renewal=True)
    yield "pause", lambda: actions.pause(one, now, one.current.ends_at + 20 * DAY)
    yield "resume", lambda: actions.resume(one, CATALOG, now)
    yield "extend", lambda: actions.extend(one, now, until=one.current.ends_at + 4 * DAY)
    yield "issue invoice", lambda: actions.issue_invoice(one, now)


# Made once: Hypothesis examines every new strategy anew, which took longer than drawing from it.
_MOST_PURCHASES = st.integers(1, 4)
# Most waits are short, so that several actions in one period can overtake each other.
_WAITS = st.sampled_from(MOMENTS) | st.sampled_from(PAUSES)
_REMAINDERS = st.integers(0, 90_000)
_ORDERS = st.integers(0, 2**20)
_lengths = cache(partial(st.integers, 2))


@st.composite
def lives(
    draw: st.DrawFn, *, with_own_acts: bool = True, longest: int = 16, who: str = "ann", prefix: str = "p"
) -> Life:
    # The fewer purchases, the more happens to each.
    most = draw(_MOST_PURCHASES)
    life = Life(with_own_acts=with_own_acts, most_purchases=most, prefix=prefix, book=Book(someone(who)))
    for _ in range(draw(_lengths(longest))):
        wait = draw(_WAITS)
        # An odd remainder, so that two actions share a millisecond only if there was no wait.
        life.wait(wait + draw(_REMAINDERS) if wait > 1 else wait)
        life.do(*life.choose(draw(_ORDERS)))
    return life


def as_told(one: Snapshot) -> Snapshot:
    """The snapshot as the store sends it: that access ended is our own conclusion."""
    if isinstance(one, Purchase):
        one = replace(one, credited=0, credited_code=None, credit_owed=0)
    return replace(one, expired=None)


def elsewhere(one: Snapshot) -> Snapshot:
    """The same purchase in a store that the service does not simulate."""
    return replace(one, store="app_store")


def _same(customer: Customer, one: Snapshot) -> Snapshot | None:
    if isinstance(one, Subscription):
        return customer.subscription(one.store, one.id)
    return customer.purchase(one.store, one.id)
