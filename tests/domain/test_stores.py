"""One entry per store: what the rest of the service takes from it, and how long a store is waited for."""

from typing import get_args

import pytest
from msgspec.structs import astuple, replace

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.purchases.lifecycle import RENEWAL_LEEWAY
from latchkey.domain.purchases.subscription import Pause
from latchkey.domain.stores import waits
from latchkey.domain.stores.store import PLATFORMS, STORES, UNKNOWN, AppStore, store_of
from latchkey.subjects.money.api import ProgramBody
from tests.domain.test_lifecycle import END, SUB


def test_an_app_can_be_in_exactly_the_stores_that_have_a_key_prefix() -> None:
    assert set(get_args(AppStore)) == {store.name for store in STORES.values() if store.key_prefix}


def test_no_two_stores_share_a_key_prefix_or_a_platform() -> None:
    prefixes = [store.key_prefix for store in STORES.values() if store.key_prefix]
    platforms = [platform for store in STORES.values() for platform in store.platforms]
    assert len(set(prefixes)) == len(prefixes)
    assert len(set(platforms)) == len(platforms)


def test_every_entry_stands_under_its_own_name_with_a_title() -> None:
    for name, store in STORES.items():
        assert (store.name, bool(store.title)) == (name, True)
        assert store.management_url is None or store.management_url.startswith("https://")


def test_the_platforms_that_receipts_may_name() -> None:
    assert {
        *("ios", "android", "amazon", "macos", "web", "stripe", "uikitformac", "tvos", "watchos", "visionos"),
        *("roku", "paddle", "galaxy", "test_store"),
    } == PLATFORMS


def test_the_api_takes_exactly_the_stores_that_have_a_program_for_small_businesses() -> None:
    stores = {store.name for store in STORES.values() if store.terms.small_business is not None}
    assert set(get_args(ProgramBody.model_fields["store"].annotation)) == stores


def test_only_stores_with_base_plans_show_products_by_them_or_have_prepaid_ones() -> None:
    for store in STORES.values():
        assert store.base_plans or not (store.shown_by_base_plan or store.prepaid_plans), store.name


def test_nothing_is_assumed_about_a_store_without_an_entry() -> None:
    assert store_of("roku") is store_of(None) is UNKNOWN
    assert astuple(UNKNOWN.terms) == (None, None, None, None, False, 0.0)


NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("now", "asked_at"),
    [
        (END - 40 * DAY, END - 10 * DAY),
        (END - 1 * DAY, END + 2 * HOUR),
        (END + 2 * HOUR - 1, END + 2 * HOUR),
        (END + 2 * HOUR, END + 4 * HOUR),
        (END + 10 * DAY, END + 15 * DAY),
        (END + 60 * DAY, None),
    ],
)
def test_a_store_is_asked_after_the_end_and_then_less_and_less_often_for_two_months(
    now: Ms, asked_at: Ms | None
) -> None:
    assert waits.check_at(SUB, now) == asked_at


def test_a_paused_subscription_is_asked_about_when_its_pause_ends() -> None:
    paused = replace(SUB, status=replace(SUB.status, pause=Pause(END - DAY, END + 20 * DAY)))
    assert waits.check_at(paused, END + DAY) == END + 20 * DAY + 2 * HOUR


def test_a_store_is_asked_before_the_expiration_event() -> None:
    assert waits.REPORTED_WITHIN < RENEWAL_LEEWAY


@pytest.mark.parametrize(
    ("attempts", "retry_after", "wait"),
    [(1, None, 2 * SECOND), (7, None, HOUR), (50, None, HOUR), (1, 5 * MINUTE, 5 * MINUTE), (7, MINUTE, HOUR)],
)
def test_attempts_wait_longer_and_longer_or_as_long_as_the_store_asks(
    attempts: int, retry_after: Ms | None, wait: Ms
) -> None:
    assert waits.retry_wait(attempts, retry_after) == wait


@pytest.mark.parametrize(("age", "attempts", "given_up"), [(4 * DAY, 8, True), (4 * DAY, 7, False), (DAY, 99, False)])
def test_an_entry_is_given_up_after_three_days_and_all_its_retries(age: Ms, attempts: int, given_up: bool) -> None:
    assert waits.is_given_up(NOW - age, attempts, NOW) is given_up


@pytest.mark.parametrize(
    ("read_to", "since"),
    [(None, NOW - 3 * DAY), (NOW - 30 * MINUTE, None), (NOW - HOUR, NOW - 2 * HOUR), (0, NOW - 179 * DAY)],
)
def test_a_history_is_read_every_hour_with_an_overlap_as_far_back_as_it_goes(read_to: Ms | None, since: Ms) -> None:
    assert waits.history_since(read_to, NOW) == since
