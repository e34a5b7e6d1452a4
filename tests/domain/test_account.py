"""Roles, e-mail addresses, passwords and how long a session lives, as tables."""

from __future__ import annotations

import pytest

from latchkey.domain.refusal import Invalid
from latchkey.domain.team.account import (
    ALLOWED,
    EXPLAINED,
    IDLE_FOR,
    LIVES_FOR,
    Permission,
    Role,
    checked_email,
    checked_password,
    checked_role,
    is_over,
    may,
)

READ, GRANT, MANAGE, OWN = Permission


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.OWNER, {READ, GRANT, MANAGE, OWN}),
        (Role.DEVELOPER, {READ, GRANT, MANAGE}),
        (Role.SUPPORT, {READ, GRANT}),
        (Role.VIEWER, {READ}),
    ],
)
def test_what_each_role_may(role: Role, allowed: set[Permission]) -> None:
    assert {permission for permission in Permission if may(role, permission)} == allowed


def test_every_role_is_in_the_tables() -> None:
    assert ALLOWED.keys() == EXPLAINED.keys() == set(Role)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("ann@example.com", "ann@example.com"),
        ("  Ann.Lee+x@Example.COM ", "ann.lee+x@example.com"),
        ("jörg@bücher.example", "jörg@bücher.example"),
    ],
)
def test_one_person_has_one_spelling(typed: str, kept: str) -> None:
    assert checked_email(typed) == kept


@pytest.mark.parametrize(
    "typed",
    ["", "ann", "@example.com", "ann@", "a b@example.com", "a@b@c", "<a@b>", "a,b@c", f"{'a' * 65}@b", "a\x00@b"],
)
def test_what_is_no_address_is_refused(typed: str) -> None:
    with pytest.raises(Invalid, match="not an e-mail"):
        checked_email(typed)


def test_a_password_is_long_but_not_endless() -> None:
    assert checked_password("p" * 10) == "p" * 10
    assert checked_password("p" * 500) == "p" * 500
    for bad in ("", "p" * 9, "p" * 501):
        with pytest.raises(Invalid, match="A password has at"):
            checked_password(bad)


def test_a_role_is_one_of_four() -> None:
    assert checked_role("support") is Role.SUPPORT
    with pytest.raises(Invalid, match="owner, developer, support, viewer"):
        checked_role("king")


@pytest.mark.parametrize(
    ("since", "last", "over"),
    [
        (0, 0, False),
        (IDLE_FOR - 1, IDLE_FOR - 1, False),
        (IDLE_FOR, IDLE_FOR, True),
        (LIVES_FOR - 1, 0, False),
        (LIVES_FOR - 1, IDLE_FOR, True),
        (LIVES_FOR, 0, True),
    ],
)
def test_a_session_ends_when_nobody_uses_it_and_at_the_latest_after_two_weeks(
    since: int, last: int, over: bool
) -> None:
    """`since`: how long ago it began; `last`: how long ago it was used."""
    now = 10 * LIVES_FOR
    assert is_over(now - since, now - last, now) is over
