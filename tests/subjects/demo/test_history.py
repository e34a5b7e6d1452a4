"""The made-up year of the demo project: always the same, right where it is read, counted, and told to nobody."""

from collections import Counter

import pytest
from msgspec import json

from latchkey.domain.catalog import Catalog, Credit, Product, ProductKind
from latchkey.domain.instants import DAY, HOUR, Duration, Ms, to_iso
from latchkey.domain.purchases.purchase import Environment
from latchkey.subjects.charts.rules.facts import Kind
from latchkey.subjects.demo.usecases import market
from latchkey.subjects.demo.usecases.history import EXPERIMENT, History, is_wanted, tell, told, write_history
from latchkey.subjects.demo.usecases.market import PREFIX
from latchkey.subjects.demo.usecases.project import want_history
from latchkey.subjects.events.usecases import page_of_events
from latchkey.subjects.experiments.usecases import count_enrolled
from latchkey.wire.event import Event
from tests.http.client import Shop
from tests.http.doings import unhurried
from tests.subjects.charts.stored_rows import facts

pytestmark = pytest.mark.thorough

# 2026-11-16T10:00:00Z
MORNING: Ms = 1_794_823_200_000
SUBSCRIPTION, ONE_TIME = ProductKind.SUBSCRIPTION, ProductKind.ONE_TIME


def product(id: str, kind: ProductKind = SUBSCRIPTION, grants: tuple[str, ...] = ("pro",)) -> Product:
    name = id.partition(":")[0]
    trial = Duration(days=7) if name == market.MONTHLY else None
    credit = Credit("COIN", 100) if name == market.COINS else None
    price, length = market.price(name, "USD"), market.LENGTHS.get(name)
    return Product(id=id, kind=kind, price=price, duration=length, trial=trial, grants=grants, credits=credit)


PRODUCTS = [
    *(product(id) for id in ("pro_monthly", "pro_yearly", "team_monthly")),
    *(product(id) for id in ("pro_monthly:monthly", "pro_yearly:yearly", "team_monthly:monthly")),
    product("pro_lifetime", ONE_TIME),
    product("coins_100", ONE_TIME, grants=()),
]
CATALOG = Catalog({one.id: one for one in PRODUCTS}, frozenset({"pro"}))


async def history(now: Ms) -> History:
    return await told("proj_demo", CATALOG, {"app_store": "app_demo_ios"}, now)


@pytest.fixture(scope="module")
async def of_the_morning() -> History:
    return await history(MORNING)


async def test_later_on_the_same_day_it_is_the_same_and_a_little_more(of_the_morning: History) -> None:
    later = await history(MORNING + 6 * HOUR)
    events, more = [[event for _, event in one.events] for one in (of_the_morning, later)]
    assert len(more) > len(events)
    assert sorted(one.id for one in more if one.event_timestamp_ms < MORNING) == sorted(one.id for one in events)
    known = {one.customer.app_user_id: one.customer.record for one in later.newcomers}
    assert all(known[one.customer.app_user_id] == one.customer.record for one in of_the_morning.newcomers)


def test_it_has_something_for_every_chart(of_the_morning: History) -> None:
    told = [event for _, event in of_the_morning.events]
    kinds = Counter(event.type for event in told)
    assert {
        *("INITIAL_PURCHASE", "RENEWAL", "NON_RENEWING_PURCHASE", "TRIAL_STARTED", "TRIAL_CANCELLED", "CANCELLATION"),
        *("UNCANCELLATION", "BILLING_ISSUE", "EXPIRATION", "REFUND", "PRODUCT_CHANGE", "SUBSCRIPTION_PAUSED"),
        *("EXPERIMENT_ENROLLMENT", "VIRTUAL_CURRENCY_TRANSACTION"),
    } <= kinds.keys()
    assert {"app_store", "play_store", "stripe", "test_store", "promotional"} <= {event.store for event in told}
    countries = {event.country_code for event in told if isinstance(event.country_code, str)}
    currencies = {event.currency for event in told if isinstance(event.currency, str)} - {"COIN"}
    assert (len(countries), len(currencies)) == (len(market.COUNTRIES), 13)
    assert {event.period_type for event in told} >= {"trial", "intro", "normal", "promotional"}
    assert {event.expiration_reason for event in told} >= {"UNSUBSCRIBE", "BILLING_ERROR", "SUBSCRIPTION_PAUSED"}
    renewed = [event for event in told if event.type == "RENEWAL" and str(event.product_id).startswith("pro_yearly")]
    assert any(event.renewal_number for event in renewed), "some yearly subscription is in its second year"
    assert 1_000 <= len(of_the_morning.newcomers) <= 3_000
    by_month = Counter((MORNING - event.event_timestamp_ms) // (30 * DAY) for event in told if event.price)
    assert by_month[0] > by_month[6] > by_month[11] > 0, "the business grows"
    assert {one.customer.app_user_id[: len(PREFIX)] for one in of_the_morning.newcomers} == {PREFIX}


async def test_it_is_written_once_counted_and_told_to_nobody(shop: Shop) -> None:
    await unhurried(shop)
    database, project_id, now = shop.database, shop.project_id, shop.clock.now
    created = await shop.client.post(
        f"/v2/projects/{project_id}/integrations/webhooks", {"name": "all", "url": "https://example.com/hook"}
    )
    assert created.status == 201, created
    assert not await is_wanted(database, project_id)
    await want_history(database, project_id, now)
    await want_history(database, project_id, now)
    assert await is_wanted(database, project_id)
    made = await tell(database, project_id, now, days=200)
    await write_history(database, project_id, made, now)
    assert not await is_wanted(database, project_id)

    written = await database.pool.fetchval("select count(*) from events")
    sent = await database.pool.fetchval("select (select count(*) from deliveries) + (select count(*) from lanes)")
    assert (written, sent) == (len(made.events), 0)

    await _is_read_as_its_events_say(shop, made, now)

    running = Counter[str](
        one.current.period_type
        for each in made.newcomers
        for one in each.customer.subscriptions
        if one.access_ends_at > now and one.environment is Environment.PRODUCTION
    )
    trials = running.pop("trial")
    found = list((await facts(database, project_id)).items())
    found = [(key, amounts) for key, amounts in found if key.environment == "PRODUCTION" and key.moment <= now]
    totals = Counter[str]()
    for key, (quantity, *_) in found:
        totals[key.kind] += quantity
    assert (totals[Kind.ACTIVE], totals[Kind.TRIAL]) == (running.total(), trials)
    assert {key.kind for key, _ in found} == set(Kind), "every chart has something to show"
    assert {key.n for key, _ in found if key.kind == Kind.BILLING_ISSUE} >= {1, 2, 3}
    assert not any(amounts[-1] for _, amounts in found), "amounts in all currencies are known in USD"
    assert {one.code for one in market.COUNTRIES} <= {key.country for key, _ in found}
    assert {key.platform for key, _ in found} >= {"iOS", "android", "web"}
    assert {key.offering for key, _ in found} >= {"default", "team", "coins"}
    enrolled = await count_enrolled(database, project_id, EXPERIMENT.id, now)
    while not enrolled.place.done:
        enrolled = await count_enrolled(database, project_id, EXPERIMENT.id, now, enrolled)
    assert enrolled.total == sum(bool(one.customer.enrollments) for one in made.newcomers)


async def _is_read_as_its_events_say(shop: Shop, made: History, now: Ms) -> None:
    """A few customers of each kind, over V1 and V2, against the last event of each."""
    page = await page_of_events(shop.database, shop.project_id, after=None, limit=10_000)
    last: dict[str, Event] = {}
    for event in (json.decode(body, type=Event) for body in page.bodies):
        last[event.app_user_id] = event
    kinds: Counter[str] = Counter()
    for user, event in last.items():
        kinds[event.type] += 1
        if kinds[event.type] > 3:
            continue
        held = {id: one.expires_date for id, one in event.entitlements.items() if _lasts(one.expires_date, now)}
        v1 = (await shop.v1(user)).json()["subscriber"]
        running = {
            id: one["expires_date"] for id, one in v1["entitlements"].items() if _lasts(one["expires_date"], now)
        }
        assert running == held, user
        assert v1["subscriber_attributes"]["$email"]["value"].endswith("@example.com")
        v2 = (await shop.v2(user, "/active_entitlements")).json()["items"]
        assert {one["entitlement_id"] for one in v2} == held.keys()
    assert kinds.keys() >= {"RENEWAL", "EXPIRATION", "REFUND"}


def _lasts(ends: str | None, now: Ms) -> bool:
    return ends is None or ends > to_iso(now)
