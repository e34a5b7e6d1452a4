"""Where the demo's customers live, what they pay there, and what the currencies are worth. All of it is made up."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from math import cos, pi, sin
from random import Random
from typing import Any

from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, Customer, LastSeen
from latchkey.domain.instants import DAY, HOUR, MINUTE, Duration, Ms, add
from latchkey.domain.money.amounts import MICROS, Price
from latchkey.domain.money.exchange_rates import date_of
from latchkey.domain.money.fees import Enrolment, Percentages, Program
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.domain.stores import store as stores_store
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STRIPE, TEST_STORE
from latchkey.domain.stores.test_store.billing import next_moment, period_end

MONTHLY, YEARLY, TEAM, LIFETIME, COINS = "pro_monthly", "pro_yearly", "team_monthly", "pro_lifetime", "coins_100"
# What the first three months of a yearly subscription cost in an introductory offer.
INTRO = "intro"
LENGTHS = {MONTHLY: Duration(months=1), YEARLY: Duration(months=12), TEAM: Duration(months=1)}
INTRO_LENGTH = Duration(months=3)
TRIAL_LENGTH = Duration(days=7)
# The demo's offering that a product is sold from.
OFFERINGS = {MONTHLY: "default", YEARLY: "default", LIFETIME: "default", TEAM: "team", COINS: "coins"}
# As Google Play names what it sells: product and base plan.
PLANS = {MONTHLY: "monthly", YEARLY: "yearly", TEAM: "monthly"}


@dataclass(frozen=True, slots=True)
class Country:
    code: str
    currency: str
    # How many customers come from here, of all weights together.
    weight: int
    # Included in the price; 0 where the demo says nothing of tax.
    tax: float = 0.0


_MARKET: dict[str, Any] = tomllib.loads((files(__package__) / "market.toml").read_text(encoding="utf-8"))
COUNTRIES = tuple(Country(**country) for country in _MARKET["countries"])


def price(product: str, currency: str) -> Price:
    """`product`: one of the demo's products, or INTRO."""
    return Price(round(_MARKET["prices"][currency][product] * MICROS), currency)


def rate_file(first: int, last: int) -> str:
    """Exchange rates from one day to another (days since 1970), one a week, as a CSV file. Each currency drifts
    slowly."""
    lines = ["date,currency,usd"]
    for day in (*range(first, last, 7), last):
        for place, (currency, usd) in enumerate(_MARKET["usd"].items()):
            drift = 1 + 0.03 * sin(day / 40 + place) + 0.01 * sin(day / 9 + 2 * place)
            lines.append(f"{date_of(day)},{currency},{usd * drift:.8f}")
    return "\n".join([*lines, ""])


def programs(first: int) -> list[Enrolment]:
    """Both app stores' programs for small businesses."""
    return [Enrolment(store, Program.SMALL_BUSINESS, first) for store in (APP_STORE, PLAY_STORE)]


def percentages(first: int) -> list[Percentages]:
    """The taxes of the countries, and what Stripe takes."""
    taxes = [Percentages(first, country=country.code, tax_rate=country.tax) for country in COUNTRIES if country.tax]
    return [*taxes, Percentages(first, store=STRIPE, commission_rate=0.029)]


SEED = "latchkey demo history 1"
# A little more than a year, so that the first yearly subscriptions have come up for renewal.
DAYS = 396
# Every made-up id begins with this, so that nobody takes these people for their own customers.
PREFIX = "demo_"
EMAILS = "example.com"


@dataclass(frozen=True, slots=True)
class DemoPerson:
    customer: Customer
    store: str
    country: Country
    # Decides everything that happens to this person, in order.
    chance: Random
    platform: str
    platform_version: str
    app_version: str

    def last_seen(self, at: Ms) -> LastSeen:
        return LastSeen(at, self.platform, self.platform_version, self.app_version, self.country.code)


def seeded(what: str) -> Random:
    return Random(f"{SEED} {what}")  # noqa: S311 - nothing here is secret


def people(project_id: str, first_day: int, until: Ms) -> Iterator[DemoPerson]:
    """Everybody who came from `first_day` (days since 1970) to `until`, in the order of days."""
    number = 0
    for place in range(until // DAY - first_day + 1):
        day = first_day + place
        chance = seeded(f"day {place}")
        for _ in range(_arrivals(place, day, chance)):
            number += 1
            at = day * DAY + int(chance.triangular(0, 24, 17) * HOUR) % DAY
            if at < until:
                yield _person(project_id, number, at, place)


def _arrivals(place: int, day: int, chance: Random) -> int:
    grown = place / DAYS
    expected: float = 2.0 + 7.5 * grown**1.2
    # 1970-01-01 was a Thursday.
    expected *= 1.2 if (day + 3) % 7 >= 5 else 0.95
    # Most at the turn of the year, fewest in summer.
    expected *= 1 + 0.18 * cos(2 * pi * (day % 365.25) / 365.25)
    # Featured by a store for some days.
    expected *= 2.6 if 228 <= place <= 232 else 1
    whole, rest = divmod(expected * chance.uniform(0.7, 1.3), 1)
    return int(whole) + (chance.random() < rest)


def _person(project_id: str, number: int, at: Ms, place: int) -> DemoPerson:
    chance = seeded(f"person {number}")
    first, last = chance.choice(_MARKET["first_names"]), chance.choice(_MARKET["last_names"])
    country = chance.choices(COUNTRIES, [one.weight for one in COUNTRIES])[0]
    store = _chosen("stores", chance)
    platform = _MARKET["platforms"][store]
    id = f"{PREFIX}{first}_{last}_{number}"
    ids = (f"$RCAnonymousID:{chance.getrandbits(128):032x}", id) if chance.random() < 0.35 else (id,)
    told = {
        "$displayName": f"{first} {last}".title(),
        "$email": f"{first}.{last}.{number}@{EMAILS}",
        "$mediaSource": _chosen("sources", chance),
        "goal": chance.choice(("learn", "work", "fun")),
    }
    customer = Customer(
        project_id=project_id,
        app_user_id=id,
        original_app_user_id=ids[0],
        first_seen_at=at,
        aliases=ids,
        record=f"{chance.getrandbits(128):032x}",
        attributes={name: Attribute(value, at + MINUTE) for name, value in told.items()},
    )
    versions = _MARKET["app_versions"]
    version, of_platform = versions[min(len(versions) - 1, place * len(versions) // DAYS)], platform["versions"]
    return DemoPerson(customer, store, country, chance, platform["name"], chance.choice(of_platform), version)


def _chosen(what: str, chance: Random) -> str:
    """By weight."""
    weights: dict[str, int] = _MARKET[what]
    return chance.choices(list(weights), list(weights.values()))[0]


@dataclass(frozen=True, slots=True)
class Till:
    """Where one customer buys: a store, a country's prices, and ids like those of the store."""

    store: str
    app_id: str | None
    country: Country
    chance: Random
    # The lookup keys of those that the project has.
    offerings: frozenset[str] = frozenset()

    @property
    def environment(self) -> Environment:
        return Environment.SANDBOX if self.store == TEST_STORE else Environment.PRODUCTION

    def named(self, product: str) -> str:
        return f"{product}:{PLANS[product]}" if self.store == PLAY_STORE and product in PLANS else product

    def price(self, product: str) -> Price:
        # The test store has the catalog's prices.
        return price(product, "USD" if self.store == TEST_STORE else self.country.currency)

    def offering(self, product: str) -> str | None:
        named = OFFERINGS[product]
        return named if named in self.offerings else None

    def subscribe(self, product: str, at: Ms, *, cause: Cause = Cause.PURCHASE, intro: bool = False) -> Subscription:
        trial = cause is Cause.TRIAL
        length = TRIAL_LENGTH if trial else INTRO_LENGTH if intro else LENGTHS[product]
        price = self.price(INTRO if intro else product)
        id = self._id()
        period = self._period(
            f"{id}.0" if self.store == TEST_STORE else id,
            self.named(product),
            at,
            number=0,
            cause=cause,
            period_type=PeriodType.TRIAL if trial else PeriodType.INTRO if intro else PeriodType.NORMAL,
            ends_at=add(at, length),
            price=replace(price, micros=0) if trial else price,
            offering=self.offering(product),
        )
        return Subscription(
            store=self.store,
            id=id,
            environment=self.environment,
            periods=(period,),
            status=Status(as_of=period.as_of),
            app_id=self.app_id,
        )

    def renewed(self, subscription: Subscription, at: Ms, *, follows: Ms) -> Subscription:
        """Paid at `at`, for the period that begins at `follows`."""
        current = subscription.current
        product = subscription.status.next_product_id or current.product_id
        return self._with_period(
            subscription,
            product,
            at,
            cause=Cause.CONVERSION if current.period_type is PeriodType.TRIAL else Cause.RENEWAL,
            ends_at=period_end(subscription, _length(product), follows),
            paid_from=follows if follows < at else None,
        )

    def changed(self, subscription: Subscription, product: str, at: Ms) -> Subscription:
        """Another product at once. What is left of the running period is given up."""
        current = replace(subscription.current, ends_at=at, as_of=next_moment(subscription, at))
        cut = replace(subscription, periods=(*subscription.periods[:-1], current))
        named = self.named(product)
        return self._with_period(
            cut,
            named,
            at,
            cause=Cause.CHANGE,
            ends_at=add(at, _length(named)),
            changed_from=current.product_id,
            offering=self.offering(product),
        )

    def buy(self, product: str, at: Ms) -> Purchase:
        return Purchase(
            kind=PurchaseKind.ONE_TIME,
            store=self.store,
            id=self._id("pi"),
            product_id=product,
            environment=self.environment,
            purchased_at=at,
            price=self.price(product),
            app_id=self.app_id,
            country=self.country.code,
            offering=self.offering(product),
        )

    def _with_period(self, subscription: Subscription, product: str, at: Ms, **terms: Any) -> Subscription:
        moment, number = next_moment(subscription, at), subscription.current.number + 1
        id = self._period_id(subscription, number)
        period = self._period(id, product, at, number=number, as_of=moment, **terms)
        return replace(subscription, periods=(*subscription.periods, period), status=Status(as_of=moment))

    def _period(self, id: str, product: str, at: Ms, **terms: Any) -> Period:
        """At the full price, unless the terms say otherwise."""
        price = self.price(product.partition(":")[0])
        usual = {"period_type": PeriodType.NORMAL, "price": price, "as_of": Moment(at), "country": self.country.code}
        return Period(id=id, product_id=product, purchased_at=at, **{**usual, **terms})

    def _id(self, at_stripe: str = "sub") -> str:
        digits = self.chance.getrandbits(60)
        match self.store:
            case stores_store.APP_STORE:
                return f"2{digits % 10**15:015}"
            case stores_store.PLAY_STORE:
                text = f"{digits % 10**17:017}"
                return f"GPA.{text[:4]}-{text[4:8]}-{text[8:12]}-{text[12:]}"
            case stores_store.STRIPE:
                return f"{at_stripe}_demo{digits:015x}"
            case _:
                return f"test_demo{digits:015x}"

    def _period_id(self, subscription: Subscription, number: int) -> str:
        if self.store in (APP_STORE, STRIPE):
            # The transactions of one subscription have nothing in common.
            return self._id("in")
        return f"{subscription.id}..{number - 1}" if self.store == PLAY_STORE else f"{subscription.id}.{number}"


def _length(product: str) -> Duration:
    return LENGTHS[product.partition(":")[0]]
