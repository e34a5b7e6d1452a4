"""One entry per store: what the rest of the service takes from it."""

from __future__ import annotations

from typing import get_args

import pytest

from latchkey.stores.registry import PLATFORMS, STORES, takehome
from latchkey.wire.management import AppStore


def test_an_app_can_be_in_exactly_the_stores_that_have_a_key_prefix() -> None:
    assert set(get_args(AppStore)) == {store.name for store in STORES.values() if store.key_prefix}


def test_no_two_stores_share_a_key_prefix_or_a_platform() -> None:
    prefixes = [store.key_prefix for store in STORES.values() if store.key_prefix]
    platforms = [platform for store in STORES.values() for platform in store.platforms]
    assert len(set(prefixes)) == len(prefixes)
    assert len(set(platforms)) == len(platforms)


def test_every_entry_stands_under_its_own_name_with_a_title_and_a_sane_share() -> None:
    for name, store in STORES.items():
        assert (store.name, bool(store.title)) == (name, True)
        assert 0 <= store.commission < 1
        assert store.management_url is None or store.management_url.startswith("https://")


@pytest.mark.parametrize(
    ("store", "left"),
    [("app_store", 0.85), ("amazon", 0.8), ("galaxy", 0.7), ("stripe", 1.0), ("other", 1.0), (None, 1.0)],
)
def test_what_is_left_after_the_stores_share(store: str | None, left: float) -> None:
    assert takehome(store) == left


def test_the_platforms_that_receipts_may_name() -> None:
    assert {
        *("ios", "android", "amazon", "macos", "web", "stripe", "uikitformac", "tvos", "watchos", "visionos"),
        *("roku", "paddle", "galaxy", "test_store"),
    } == PLATFORMS
