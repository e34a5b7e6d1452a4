"""One entry per store: what the rest of the service takes from it."""

from __future__ import annotations

from typing import get_args

from latchkey.domain.tariff.fees import STORE_TERMS
from latchkey.stores.registry import PLATFORMS, STORES
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


def test_the_terms_of_stores_name_stores_that_exist() -> None:
    assert STORE_TERMS.keys() <= STORES.keys()


def test_the_platforms_that_receipts_may_name() -> None:
    assert {
        *("ios", "android", "amazon", "macos", "web", "stripe", "uikitformac", "tvos", "watchos", "visionos"),
        *("roku", "paddle", "galaxy", "test_store"),
    } == PLATFORMS
