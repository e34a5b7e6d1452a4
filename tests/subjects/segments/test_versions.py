"""Versions of apps are compared by their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.subjects.segments.rules.filter import version_of


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.9", (1, 9)),
        ("1.10", (1, 10)),
        ("2", (2,)),
        # Zeros at the end say nothing.
        ("2.0.0", (2,)),
        ("0", (0,)),
        ("0.0", (0,)),
        ("01.002", (1, 2)),
        ("v3.1", (3, 1)),
        (" 3.1 ", (3, 1)),
        ("20261118.1", (20261118, 1)),
        # What follows the numbers does not count.
        ("2.0-beta.3", (2,)),
        ("2.1+45", (2, 1)),
        ("1.2.3 (45)", (1, 2, 3)),
        ("1.2.x", (1, 2)),
        ("1.2.", (1, 2)),
        # None at all.
        (None, None),
        ("", None),
        ("beta", None),
        ("beta 2", None),
        (".5", None),
        ("-1", None),
        ("1..2", None),
        ("\u0663.\u0661", None),
        ("9" * 19, None),
        (".".join("1" * 13), None),
    ],
)
def test_the_numbers_at_the_beginning_are_the_version(text: str | None, version: tuple[int, ...] | None) -> None:
    assert version_of(text) == version


numbers = st.lists(st.integers(0, 10**9), min_size=1, max_size=6)


@given(numbers, numbers)
def test_versions_are_ordered_by_their_first_difference(one: list[int], other: list[int]) -> None:
    width = max(len(one), len(other))
    padded = [[*each, *[0] * (width - len(each))] for each in (one, other)]
    versions = [version_of(".".join(map(str, each))) for each in (one, other)]
    assert versions[0] is not None
    assert versions[1] is not None
    assert (versions[0] < versions[1], versions[0] == versions[1]) == (padded[0] < padded[1], padded[0] == padded[1])


@given(st.text(max_size=80) | st.text("0123456789.v-+ ", max_size=80))
def test_whatever_a_phone_sends_is_a_version_or_none(text: str) -> None:
    version = version_of(text)
    assert version is None or version_of(".".join(map(str, version))) == version
