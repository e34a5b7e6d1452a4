"""Roles, addresses, passwords, sessions, how long a guess waits, and the second factor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.refusal import Invalid
from latchkey.subjects.accounts.rules import (
    ACCOUNT,
    ADDRESS,
    ALLOWED,
    CODE,
    CODE_ON_DEVICE,
    DEVICE,
    EXPLAINED,
    IDLE_FOR,
    LIVES_FOR,
    PAIR,
    STEP,
    Pace,
    Permission,
    Role,
    app_address,
    as_code,
    as_recovery_code,
    checked_email,
    checked_password,
    checked_role,
    code_limits,
    is_over,
    limits,
    may,
    network_of,
    shown_recovery_code,
    steps_at,
    wait,
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


PACE = Pace(free=3, first=1_000, longest=10_000, counted_for=60_000)


@pytest.mark.parametrize(
    ("failures", "passed", "left"),
    [
        (0, 0, 0), (2, 0, 0), (3, 0, 1_000), (3, 400, 600), (3, 1_000, 0), (4, 0, 2_000), (5, 0, 4_000), (6, 0, 8_000),
        (7, 0, 10_000), (8, 0, 10_000), (1_000_000, 9_999, 1), (1_000_000, 10_000, 0),
    ],
)  # fmt: skip
def test_every_failure_beyond_the_free_ones_doubles_the_wait(failures: int, passed: int, left: int) -> None:
    assert wait(PACE, failures, 50_000, 50_000 + passed) == left


@given(st.sampled_from([DEVICE, PAIR, ACCOUNT, ADDRESS]), st.integers(0, 10**6), st.integers(0, 10**6))
def test_nobody_ever_waits_longer_than_the_longest(pace: Pace, failures: int, passed: int) -> None:
    assert 0 <= wait(pace, failures, 0, passed) <= pace.longest


def test_without_failures_nobody_waits() -> None:
    assert wait(PACE, 0, None, 1) == 0


def test_a_known_device_is_held_against_its_own_failures_alone() -> None:
    [limit] = limits("ann@example.com", "192.0.2.1", "acc_1", "laptop")
    assert (limit.subject, limit.pace) == ("device acc_1 laptop", DEVICE)


@pytest.mark.parametrize("account_id", ["acc_1", None])
def test_everybody_else_by_account_by_address_and_by_both(account_id: str | None) -> None:
    """The same whether or not there is such an account: otherwise the wait would reveal it."""
    held = {limit.subject: limit.cleared for limit in limits("ann@example.com", "192.0.2.1", account_id, None)}
    assert held == {
        "account ann@example.com": False,
        "account ann@example.com from 192.0.2.1": True,
        "address 192.0.2.1": False,
    }


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_of_ipv6_the_network_counts(address: str, network: str) -> None:
    assert network_of(address) == network


def test_the_codes_of_three_steps_count() -> None:
    assert steps_at(10 * STEP) == steps_at(11 * STEP - 1) == (9, 10, 11)
    assert steps_at(0) == (0, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("123456", "123456"),
        (" 123 456 ", "123456"),
        ("123-456", "123456"),
        ("12345", None),
        ("1234567", None),
        ("12345a", None),
        # Digits of other scripts are no code.
        ("١٢٣٤٥٦", None),
        ("", None),
        ("1" * 10_000, None),
    ],
)
def test_a_code_is_six_digits_however_it_is_typed(text: str, code: str | None) -> None:
    assert as_code(text) == code


def test_a_recovery_code_is_read_as_it_is_shown() -> None:
    code = "abcdefghijkmnpq2"
    shown = shown_recovery_code(code)
    assert shown == "abcd-efgh-ijkm-npq2"
    for typed in (shown, shown.upper(), code, f" {shown} "):
        assert as_recovery_code(typed) == code
    for wrong in (shown[:-1], shown + "a", shown.replace("a", "0"), "123456", ""):
        assert as_recovery_code(wrong) is None


def test_an_app_gets_the_account_and_who_asks() -> None:
    address = app_address("ABC", "ada+x@example.com")
    assert address == "otpauth://totp/Latchkey%3Aada%2Bx%40example.com?secret=ABC&issuer=Latchkey"


def test_codes_are_limited_by_account_and_a_known_device_for_itself() -> None:
    first, second = code_limits("acc_1", "192.0.2.1", None), code_limits("acc_1", "192.0.2.2", None)
    assert first[0] == second[0]
    assert (first[0].pace, first[0].cleared) == (CODE, False)
    [own] = code_limits("acc_1", "192.0.2.1", "device")
    assert (own.pace, own.cleared) == (CODE_ON_DEVICE, True)
    assert own.subject not in {limit.subject for limit in first}
