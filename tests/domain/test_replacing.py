"""Copies with fields replaced, as the standard function makes them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from latchkey.domain.customers.customer import newcomer
from latchkey.domain.money import Price
from latchkey.domain.purchases.subscription import Moment
from latchkey.domain.replacing import replace


@dataclasses.dataclass(frozen=True)
class _WithoutSlots:
    one: int
    two: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class _Checked:
    one: int
    two: int = 2

    def __post_init__(self) -> None:
        if self.one > self.two:
            raise ValueError("the first is larger")


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (newcomer("proj", "ann", 1, record="r"), {"sequence": 7, "aliases": ("ann", "bob")}),
        (newcomer("proj", "ann", 1, record="r"), {}),
        (Price(1, "EUR"), {"micros": 5}),
        (Moment(5), {"at": 6}),
        (_WithoutSlots(1), {"one": 3}),
        (_Checked(1), {"one": 2}),
    ],
)
def test_it_is_what_the_standard_function_gives(value: Any, changes: dict[str, Any]) -> None:
    before = dataclasses.asdict(value)
    copy = replace(value, **changes)
    assert copy == dataclasses.replace(value, **changes)
    assert type(copy) is type(value)
    assert dataclasses.asdict(value) == before


def test_a_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="no field 'nonsense'"):
        replace(Price(1, "EUR"), nonsense=1)


def test_checks_of_a_class_are_made() -> None:
    with pytest.raises(ValueError, match="larger"):
        replace(_Checked(1), one=3)


def test_a_copy_is_frozen_too() -> None:
    copy = replace(Price(1, "EUR"), micros=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.micros = 3  # type: ignore[misc]
