from __future__ import annotations

import pytest

from latchkey.domain.user_id import is_anonymous, problem_with

ANONYMOUS = "$RCAnonymousID:" + "0123456789abcdef" * 2

BLOCKED = [
    "no_user",
    "null",
    "none",
    "nil",
    "(null)",
    "NaN",
    "\\0",
    "\0",
    "",
    "unidentified",
    "undefined",
    "unknown",
    "anonymous",
    "guest",
    "-1",
    "0",
    "[]",
    "{}",
    "[object Object]",
]


@pytest.mark.parametrize("id", BLOCKED)
def test_an_id_that_only_a_bug_produces_is_refused(id: str) -> None:
    assert problem_with(id)


@pytest.mark.parametrize(
    "id",
    [
        "a",
        "x" * 100,
        "ann@example.com",
        "Ann Other",
        "1",
        "-2",
        "00",
        "Null",
        "guest7",
        "...",
        "ü-日本",
        "a%2Fb",
        ANONYMOUS,
    ],
)
def test_any_other_id_of_1_to_100_characters_is_accepted(id: str) -> None:
    assert problem_with(id) is None


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 101, "101 characters"),
        ("a/b", "'/'"),
        ("/", "'/'"),
        ("a\nb", "control"),
        ("a\x7fb", "control"),
        ("null", "'null' is not accepted"),
        (".", "'.' is not accepted"),
        ("..", "in a URL it is a direction"),
        ("a\ud800", "surrogate"),
    ],
)
def test_the_problem_is_said_in_words(id: str, says: str) -> None:
    problem = problem_with(id)
    assert problem is not None
    assert says in problem


def test_the_length_is_counted_in_characters_not_bytes() -> None:
    assert problem_with("日" * 100) is None


@pytest.mark.parametrize(
    ("id", "anonymous"),
    [
        (ANONYMOUS, True),
        (ANONYMOUS[:-1], False),
        (ANONYMOUS + "0", False),
        (ANONYMOUS + "\n", False),
        (ANONYMOUS.upper(), False),
        ("$RCAnonymousID:" + "g" * 32, False),
        ("x" + ANONYMOUS, False),
        ("ann", False),
    ],
)
def test_an_anonymous_id_has_exactly_32_hexadecimal_digits(id: str, anonymous: bool) -> None:
    assert is_anonymous(id) is anonymous
