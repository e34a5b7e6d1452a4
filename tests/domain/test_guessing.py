"""How long a guess has to wait, as a table, and which failures count for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.team.guessing import ACCOUNT, ADDRESS, DEVICE, PAIR, Pace, limits, network_of, wait

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
