"""What happens to one customer of the demo, from the first start of the app until now.

Each step goes through the rules that real purchases go through, at its own instant, so states and events fit together.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, with_purchase, with_subscription
from latchkey.domain.customers.enrollment import Experiment, enroll
from latchkey.domain.customers.promotion import end_of, grant
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Cause, PeriodType, Subscription
from latchkey.domain.stores.store import PLAY_STORE, TEST_STORE
from latchkey.domain.stores.test_store import actions
from latchkey.engine.storage.records import Stored
from latchkey.engine.unit_of_work import UnitOfWork
from latchkey.subjects.demo.usecases.market import COINS, LIFETIME, MONTHLY, TEAM, YEARLY, DemoPerson, Till

# The experiment's second variant, whose customers buy more often.
BETTER = "yearly_first"

# What a newcomer does, of a hundred. Whoever is in none of these buys nothing.
_INTENTS = (
    *(("trial", 26.0), ("monthly", 4.0), ("yearly", 4.0), ("intro", 2.5), ("team", 2.0)),
    *(("lifetime", 1.6), ("coins", 3.5), ("grant", 0.8)),
)
_PLANS = {"trial": MONTHLY, "monthly": MONTHLY, "yearly": YEARLY, "intro": YEARLY, "team": TEAM}
# The share that leaves in each paid period. Later periods are like the last one.
_LEAVING = {MONTHLY: (0.17, 0.12, 0.10, 0.08, 0.07, 0.06), YEARLY: (0.36, 0.2), TEAM: (0.07, 0.05, 0.04)}


class _PresentReached(Exception):
    """The next step would be in the future."""


@dataclass(frozen=True, slots=True)
class DemoLife:
    unit: UnitOfWork
    stored: Stored
    catalog: Catalog
    until: Ms

    @property
    def customer(self) -> Customer:
        return self.unit.current(self.stored)

    def reach(self, at: Ms) -> None:
        """Lets time pass up to this instant."""
        if at >= self.until:
            raise _PresentReached
        self.unit.catch_up(self.stored, self.catalog, at)

    def do(self, at: Ms, change: Callable[[Customer], Customer]) -> None:
        self.reach(at)
        self.unit.change(self.stored, change(self.customer), self.catalog, at)

    def see(self, at: Ms, bought: Subscription | Purchase) -> None:
        if isinstance(bought, Subscription):
            self.do(at, lambda customer: with_subscription(customer, bought))
        else:
            self.do(at, lambda customer: with_purchase(customer, bought))

    def held(self, subscription: Subscription) -> Subscription:
        found = self.customer.subscription(subscription.store, subscription.id)
        assert found is not None, "a subscription was lost"
        return found


def live(life: DemoLife, person: DemoPerson, till: Till, experiment: Experiment, began: Ms) -> None:
    """`began`: when the experiment began."""
    with contextlib.suppress(_PresentReached):
        _live(life, person, till, experiment, began)
    life.unit.catch_up(life.stored, life.catalog, life.until)


def _live(life: DemoLife, person: DemoPerson, till: Till, experiment: Experiment, began: Ms) -> None:
    chance, at = person.chance, life.customer.first_seen_at
    eagerness = 1.0
    if at >= began:
        at += MINUTE
        life.do(at, lambda customer: enroll(customer, experiment, at))
        eagerness = 1.25 if life.customer.enrollments[-1].variant_id == BETTER else 1.0
    at += int(chance.expovariate(1 / 8) * HOUR) + 5 * MINUTE
    match intent := _intent(chance, eagerness):
        case "trial" | "monthly" | "yearly" | "intro" | "team":
            cause = Cause.TRIAL if intent == "trial" else Cause.PURCHASE
            intro = intent == "intro" and till.store != TEST_STORE
            _subscribe(life, till, chance, _PLANS[intent], at, cause=cause, intro=intro)
        case "lifetime":
            _buy(life, till, chance, LIFETIME, at)
        case "coins":
            for _ in range(chance.randint(1, 6)):
                _buy(life, till, chance, COINS, at)
                at += int(chance.uniform(2, 45) * DAY)
        case "grant":
            length = chance.choice(("monthly", "three_month", "lifetime"))
            life.do(at, lambda customer: grant(customer, "pro", end_of(length, at), at, duration=length))


def _intent(chance: Random, eagerness: float) -> str:
    drawn = chance.random() * 100
    for name, share in _INTENTS:
        drawn -= share * eagerness
        if drawn < 0:
            return name
    return ""


def _buy(life: DemoLife, till: Till, chance: Random, product: str, at: Ms) -> None:
    bought = till.buy(product, at)
    life.see(at, bought)
    if chance.random() < 0.03:
        back = at + int(chance.uniform(1, 12) * DAY)
        life.reach(back)
        known = life.customer.purchase(bought.store, bought.id)
        assert known is not None, "a purchase was lost"
        life.see(back, actions.refund(known, back))


def _subscribe(
    life: DemoLife,
    till: Till,
    chance: Random,
    product: str,
    at: Ms,
    *,
    cause: Cause = Cause.PURCHASE,
    intro: bool = False,
) -> None:
    """The subscription, until the customer leaves for good."""
    while True:
        subscription = till.subscribe(product, at, cause=cause, intro=intro)
        life.see(at, subscription)
        while (ended := _period(life, till, chance, life.held(subscription))) is None:
            pass
        if chance.random() > 0.15:
            return
        # Comes back after some time, without another trial.
        at, cause, intro, product = ended + int(chance.uniform(10, 80) * DAY), Cause.PURCHASE, False, MONTHLY


def _period(life: DemoLife, till: Till, chance: Random, known: Subscription) -> Ms | None:
    """The running period and what follows it. Returns when the subscription ended, if it did."""
    current = known.current
    ends, length = current.ends_at, current.ends_at - current.purchased_at
    drawn, where = chance.random(), chance.random()
    during = current.purchased_at + int(length * (0.05 + 0.85 * where))
    leaving = _leaving(known)
    if drawn < leaving:
        return _cancel(life, till, chance, known, during)
    drawn -= leaving
    if till.store == TEST_STORE or current.period_type is PeriodType.TRIAL:
        _renew(life, till, known)
        return None
    if drawn < 0.014:
        back = min(during, current.purchased_at + int((0.5 + 9 * where) * DAY))
        life.see(back, actions.refund(known, back))
        return back
    if drawn < 0.034 and current.product_id.startswith(MONTHLY):
        life.see(during, till.changed(known, YEARLY if where < 0.6 else TEAM, during))
        return None
    if drawn < 0.044 and till.store == PLAY_STORE:
        resumes = ends + (30 if where < 0.5 else 60) * DAY
        life.see(during, actions.pause(known, during, resumes))
        life.reach(resumes)
        life.see(resumes, till.renewed(life.held(known), resumes, follows=resumes))
        return None
    if drawn < 0.10:
        return _fail(life, till, chance, known)
    _renew(life, till, known)
    return None


def _leaving(known: Subscription) -> float:
    current = known.current
    if current.period_type is PeriodType.TRIAL:
        return 0.44
    if current.period_type is PeriodType.INTRO:
        return 0.34
    shares = _LEAVING[current.product_id.partition(":")[0]]
    paid = sum(period.price.micros > 0 and period.product_id == current.product_id for period in known.periods)
    return shares[min(paid, len(shares)) - 1]


def _cancel(life: DemoLife, till: Till, chance: Random, known: Subscription, at: Ms) -> Ms | None:
    life.see(at, actions.cancel(known, at))
    ends = known.current.ends_at
    if chance.random() < 0.1:
        again = at + (ends - at) // 2
        life.reach(again)
        life.see(again, actions.uncancel(life.held(known), again))
        _renew(life, till, known)
        return None
    life.reach(ends)
    return ends


def _renew(life: DemoLife, till: Till, known: Subscription) -> None:
    ends = known.current.ends_at
    life.reach(ends)
    if till.store != TEST_STORE:
        # The test store renews by itself.
        life.see(ends, till.renewed(life.held(known), ends, follows=ends))


def _fail(life: DemoLife, till: Till, chance: Random, known: Subscription) -> Ms | None:
    """A payment fails. Some are recovered in the grace period, some later, some never."""
    ends, grace = known.current.ends_at, chance.choice((0, 6, 16))
    drawn, where = chance.random(), chance.random()
    tried = ends - HOUR
    life.see(tried, actions.fail_billing(known, tried, grace))
    if drawn < 0.45 and grace:
        paid, follows = ends + int((0.2 + (grace - 0.5) * where) * DAY), ends
    elif drawn < 0.65:
        paid = follows = ends + int((grace + 1 + 24 * where) * DAY)
    else:
        lost = ends + grace * DAY
        life.reach(lost)
        return lost
    life.reach(paid)
    life.see(paid, till.renewed(life.held(known), paid, follows=follows))
    return None
