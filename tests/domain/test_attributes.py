from __future__ import annotations

import itertools

import pytest

from latchkey.domain.customers.customer import MAX_COUNT, Attribute, problem_with_attribute, visible, with_attributes
from tests.domain.shop import someone


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("$email", "ann@example.com"),
        ("$email", ""),
        ("$displayName", "Ann Other"),
        ("favourite.cat-name_2", "x" * 500),
        ("n" * 40, None),
        ("nickname", ""),
    ],
)
def test_reserved_and_custom_attributes_are_kept(name: str, value: str | None) -> None:
    assert problem_with_attribute(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("n" * 41, "v", "41 characters"),
        ("", "v", "A name is made of"),
        ("$", "v", "A name is made of"),
        ("$$email", "v", "A name is made of"),
        ("na\nme", "v", "A name is made of"),
        ("name", "v" * 501, "501 characters"),
        ("$email", "ann", "not an e-mail address"),
        ("$email", "ann@exam ple", "not an e-mail address"),
    ],
)
def test_an_attribute_that_cannot_be_kept_is_explained(name: str, value: str, says: str) -> None:
    problem = problem_with_attribute(name, value)
    assert problem is not None
    assert says in problem


def test_the_newer_value_wins_in_whatever_order_they_arrive() -> None:
    values = [Attribute("old", 1), Attribute("new", 3), Attribute("middle", 2)]
    for order in itertools.permutations(values):
        customer = someone()
        for value in order:
            customer = with_attributes(customer, {"name": value})
        assert visible(customer) == {"name": Attribute("new", 3)}


def test_a_deleted_attribute_is_not_shown_and_a_late_older_value_does_not_bring_it_back() -> None:
    customer = with_attributes(someone(), {"name": Attribute("first", 1)})
    customer = with_attributes(customer, {"name": Attribute("", 5)})
    assert visible(customer) == {}

    customer = with_attributes(customer, {"name": Attribute("late", 4)})
    assert visible(customer) == {}

    customer = with_attributes(customer, {"name": Attribute("again", 6)})
    assert visible(customer) == {"name": Attribute("again", 6)}


def test_the_same_values_again_change_nothing() -> None:
    customer = with_attributes(someone(), {"name": Attribute("v", 1)})
    assert with_attributes(customer, {"name": Attribute("v", 1)}) is customer


def test_attributes_are_shown_in_the_order_of_their_names() -> None:
    customer = with_attributes(
        someone(), {"b": Attribute("2", 1), "$email": Attribute("e@x.y", 1), "a": Attribute("1", 1)}
    )
    assert list(visible(customer)) == ["$email", "a", "b"]


def test_only_so_many_deletions_are_remembered_and_the_oldest_are_forgotten_first() -> None:
    customer = someone()
    for moment in range(MAX_COUNT + 50):
        customer = with_attributes(customer, {f"name{moment}": Attribute("", moment)})
    assert len(customer.attributes) == MAX_COUNT
    assert "name0" not in customer.attributes
    assert f"name{MAX_COUNT + 49}" in customer.attributes
