"""One entry per store: what the rest of the service takes from it."""

from __future__ import annotations

from typing import get_args

from latchkey.api.v2.money import ProgramBody
from latchkey.domain.stores.store import PLATFORMS, STORES, UNKNOWN, store_of
from latchkey.wire.management import AppStore


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
    assert UNKNOWN.terms == (None, None, None, None, False, 0.0)
