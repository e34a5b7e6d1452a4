"""Experiments that are refused."""

from __future__ import annotations

from typing import Any

from tests.api.client import Shop
from tests.api.management import get, post, refused, walk

A, B = {"id": "a", "weight": 1}, {"id": "b", "weight": 1}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"variants": [A, B]}, "name"),
    ({"name": "", "variants": [A, B]}, "name"),
    ({"name": "x"}, "variants"),
    ({"name": "x", "variants": []}, "variants"),
    ({"name": "x", "variants": [A]}, "variants"),
    ({"name": "x", "variants": [A, A]}, "variants"),
    ({"name": "x", "variants": [{"id": f"v{n}", "weight": 1} for n in range(21)]}, "variants"),
    ({"name": "x", "variants": [A, {"id": "b", "weight": 0}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b", "weight": -1}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b", "weight": 0.5}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b", "weight": "1"}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b", "weight": True}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b", "weight": 1_000_001}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b"}]}, "variants.1.weight"),
    ({"name": "x", "variants": [A, {"id": "b c", "weight": 1}]}, "variants.1.id"),
    ({"name": "x", "variants": [A, B], "id": "mine"}, "id"),
    ({"name": "x", "variants": {"a": 1, "b": 1}}, "variants"),
]


async def test_400_for_an_experiment_with_something_wrong(shop: Shop) -> None:
    for sent, param in WRONG:
        refused(await post(shop, "experiments", sent), 400, "parameter_error", param)
    assert await walk(shop, "experiments") == []


async def test_404_for_a_page_after_an_experiment_that_is_not_there(shop: Shop) -> None:
    refused(await get(shop, "experiments?starting_after=exp_none"), 404, "resource_missing", "starting_after")
