"""Who comes to the demo's app, and when: more every month, more at weekends and at the turn of the year."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi
from random import Random

from latchkey.domain.customers.customer import Attribute, Customer
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STRIPE, TEST_STORE
from latchkey.storage.customers.records import LastSeen
from latchkey.usecases.sandbox.history.market import COUNTRIES, Country

SEED = "latchkey demo history 1"
# A little more than a year, so that the first yearly subscriptions have come up for renewal.
DAYS = 396
# Every made-up id begins with this, so that nobody takes these people for their own customers.
PREFIX = "demo_"
EMAILS = "example.com"

_FIRST = (
    *("mia", "noah", "emma", "liam", "sofia", "lucas", "hana", "mateo", "lea", "oliver", "aya", "ben", "chloe"),
    *("david", "elif", "felix", "grace", "hugo", "ines", "jonas", "kira", "leon", "maria", "nora", "omar", "priya"),
    *("quinn", "rosa", "sam", "tara", "umar", "vera", "will", "xenia", "yuki", "zoe"),
)
_LAST = (
    *("tanaka", "smith", "garcia", "mueller", "silva", "dubois", "kim", "patel", "novak", "rossi", "brown", "weber"),
    *("lopez", "sato", "martin", "jones", "costa", "wagner", "singh", "larsson", "kowalski", "baker", "meyer", "park"),
)
_SOURCES = (("organic", 50), ("instagram", 18), ("google_ads", 14), ("newsletter", 10), ("podcast", 8))
_STORES = ((APP_STORE, 45), (PLAY_STORE, 32), (STRIPE, 15), (TEST_STORE, 8))
_PLATFORMS = {
    APP_STORE: ("iOS", ("17.6", "18.1", "18.5", "26.0")),
    PLAY_STORE: ("android", ("13", "14", "15", "16")),
    STRIPE: ("web", ("Chrome 138", "Safari 18", "Firefox 140")),
    TEST_STORE: ("iOS", ("18.5",)),
}
_VERSIONS = ("1.0.0", "1.1.0", "1.2.0", "1.3.1", "2.0.0", "2.0.2", "2.1.0", "2.2.0", "2.3.0")


@dataclass(frozen=True, slots=True)
class Person:
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


def people(project_id: str, first_day: int, until: Ms) -> Iterator[Person]:
    """Everybody who came from `first_day` (days since 1970) to `until`, in the order of days."""
    number = 0
    for place in range(until // DAY - first_day + 1):
        day = first_day + place
        chance = seeded(f"day {place}")
        for _ in range(_arrivals(place, day, chance)):
            number += 1
            at = day * DAY + _time_of_day(chance)
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


def _time_of_day(chance: Random) -> Ms:
    return int(chance.triangular(0, 24, 17) * HOUR) % DAY


def _person(project_id: str, number: int, at: Ms, place: int) -> Person:
    chance = seeded(f"person {number}")
    first, last = chance.choice(_FIRST), chance.choice(_LAST)
    country = chance.choices(COUNTRIES, [one.weight for one in COUNTRIES])[0]
    store = _chosen(_STORES, chance)
    platform, platforms = _PLATFORMS[store]
    id = f"{PREFIX}{first}_{last}_{number}"
    ids = (f"$RCAnonymousID:{chance.getrandbits(128):032x}", id) if chance.random() < 0.35 else (id,)
    told = {
        "$displayName": f"{first} {last}".title(),
        "$email": f"{first}.{last}.{number}@{EMAILS}",
        "$mediaSource": _chosen(_SOURCES, chance),
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
    version = _VERSIONS[min(len(_VERSIONS) - 1, place * len(_VERSIONS) // DAYS)]
    return Person(customer, store, country, chance, platform, chance.choice(platforms), version)


def _chosen(weighted: tuple[tuple[str, int], ...], chance: Random) -> str:
    return chance.choices([name for name, _ in weighted], [weight for _, weight in weighted])[0]
