"""Stored tables of sums: whatever is packed comes back, and a plan reads the rows that match and little else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latchkey.storage.charts import layout, packing
from latchkey.storage.charts.layout import Plan, portions, whole_plan
from latchkey.storage.charts.packing import Packed, pack, unpack

COUNTRIES = [f"C{place}" for place in range(9)]
Row = dict[str, Any]


def some_table(chance: Random, rows: int) -> Any:
    largest = chance.choice((1, 100, 30_000, 2**31 - 1, 2**62))
    made = [
        (chance.choice(COUNTRIES), chance.choice(("ios", "android")), chance.randint(-largest, largest), 7)
        for _ in range(rows)
    ]
    made.sort()
    countries, platforms, amounts, days = zip(*made, strict=True)
    return pa.table(
        {
            "country": pa.array(countries).dictionary_encode(),
            "platform": pa.array(platforms).dictionary_encode(),
            "usd": pa.array(amounts, pa.int64()),
            "day": pa.array(days, pa.int32()),
        }
    )


def read(packed: Packed, plan: Plan, names: Sequence[str]) -> list[Row]:
    """What a plan finds, with only the bytes that it asks for."""
    spans = [packed.data[one.start : one.start + one.length] for one in plan.spans]
    found: list[Row] = []
    for batch, kept in packing.batches(plan, spans):
        rows = batch if kept is None else batch.filter(kept)
        assert rows.schema.names == list(names)
        found += rows.to_pylist()
    return found


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 2**32))
def test_a_plan_finds_the_rows_that_match(seed: int) -> None:
    chance = Random(seed)
    table = some_table(chance, chance.randrange(1, 60))
    wanted = chance.sample(["country", "platform", "usd", "day"], chance.randrange(1, 5))
    names = [one for one in table.column_names if one in wanted]
    allowed = {
        "country": frozenset(chance.sample(COUNTRIES, chance.randrange(10))),
        "platform": frozenset(chance.sample(["ios", "android"], chance.randrange(3))),
    }
    chosen = chance.sample(list(allowed), chance.randrange(3))
    filters: dict[str, Callable[[str], bool]] = {name: allowed[name].__contains__ for name in chosen}
    with (
        patch.object(layout, "GROUP", chance.choice((1, 4, 7, 1000))),
        patch.object(layout, "_GAP", chance.choice((0, 20))),
    ):
        packed = pack(table)
        plan = Plan(packed.header, filters, lambda _: wanted)
    matching = [row for row in table.to_pylist() if all(row[name] in allowed[name] for name in chosen)]
    assert read(packed, plan, names) == [{name: row[name] for name in names} for row in matching]
    assert unpack(packed).to_pylist() == table.to_pylist()


def test_groups_without_a_match_and_columns_that_are_not_wanted_are_not_read() -> None:
    chance = Random(1)
    table = some_table(chance, 900)
    with patch.object(layout, "GROUP", 100), patch.object(layout, "_GAP", 0):
        packed = pack(table)
        plan = Plan(packed.header, {"country": "C4".__eq__}, lambda _: ("usd",))
        everything = whole_plan(packed.header)
    assert everything.bytes == len(packed.data)
    rows = [place for place, one in enumerate(table["country"].to_pylist()) if one == "C4"]
    assert [one.place for one in plan.groups] == sorted({place // 100 for place in rows})
    # Some 100 of the 900 rows, of one column.
    assert plan.bytes < len(packed.data) / 3
    assert len(read(packed, plan, ["usd"])) == len(rows)


def test_what_is_the_same_in_all_rows_needs_no_bytes() -> None:
    packed = pack(pa.table({"day": pa.array([7] * 1000, pa.int32())}))
    assert packed.data == b""
    assert unpack(packed).to_pylist() == [{"day": 7}] * 1000


@pytest.mark.parametrize("most", [1, 50, 10**9])
def test_portions_have_every_block_once_and_few_bytes(most: int) -> None:
    plans = [whole_plan(pack(some_table(Random(seed), 40)).header) for seed in range(6)]
    found = list(portions(plans, most))
    assert [place for portion in found for place in portion] == list(range(6))
    assert all(len(one) == 1 or sum(plans[place].bytes for place in one) <= most for one in found)
