"""When and from where a secret key works, and leases of its rate limit."""

import pytest

from latchkey.domain.access.api_key import (
    LATEST,
    MOST_NETWORKS,
    KeyRules,
    beyond,
    checked_expiry,
    checked_networks,
    is_inside,
    replaced_expiry,
    rules_of,
)
from latchkey.domain.instants import DAY
from latchkey.domain.leases import FEWEST, LeaseCount, LeaseState, answered, expected, granted, plan, undone
from latchkey.domain.refusal import Invalid, Refusal

RUN = 1_000_000


def with_lease(size: int, *, lasts_us: int = 400_000, used: int = 7, sent: float = 100.0) -> LeaseState:
    return granted(LeaseState(), RUN, size, lasts_us, used, sent)


def test_a_key_with_few_requests_asks_for_no_lease() -> None:
    standing, counts = LeaseState(), []
    for number in range(FEWEST):
        standing, count = plan(standing, 1, 100.0 + number * 0.01)
        counts.append(count)
    assert counts[:-1] == [LeaseCount(1)] * (FEWEST - 1)
    assert counts[-1] == LeaseCount(1, ahead=expected(FEWEST))


def test_requests_of_the_half_second_before_count_and_older_ones_do_not() -> None:
    busy = answered(*plan(LeaseState(), 100, 100.4))
    assert plan(busy, 1, 100.6)[1].ahead == 125
    assert plan(busy, 1, 101.1)[1].ahead == 0


def test_only_one_statement_at_a_time_asks_for_a_lease() -> None:
    standing, first = plan(LeaseState(), 40, 100.0)
    standing, second = plan(standing, 40, 100.01)
    assert (first.ahead, second.ahead) == (50, 0)
    assert plan(answered(standing, second), 40, 100.02)[1].ahead == 0
    assert plan(answered(standing, first), 40, 100.02)[1].ahead > 0


def test_a_lease_covers_requests_until_it_is_used_up() -> None:
    standing, count = plan(with_lease(5), 3, 100.1)
    assert count == LeaseCount(0, run=RUN)
    assert standing.lease is not None
    assert standing.lease.used == 10
    standing, count = plan(standing, 3, 100.1)
    # All three are counted exactly, and the rest of the lease is handed back.
    assert count == LeaseCount(3, back=2, settled=5, run=RUN)
    assert standing.lease is None


def test_a_lease_ends_as_measured_from_before_its_statement_was_sent() -> None:
    standing = with_lease(5, lasts_us=400_000, sent=100.0)
    assert plan(standing, 1, 100.399)[1] == LeaseCount(0, run=RUN)
    assert plan(standing, 1, 100.4)[1] == LeaseCount(1, back=5, settled=5, run=RUN)


def test_requests_that_failed_are_put_back_unless_the_lease_is_gone() -> None:
    standing, count = plan(with_lease(5), 3, 100.1)
    again = undone(standing, count, 3).lease
    assert again is not None
    assert again.left == 5
    assert undone(LeaseState(), count, 3) == LeaseState()
    another = granted(LeaseState(), RUN + 1, 5, 400_000, 0, 100.0)
    assert undone(another, count, 3) == another
    assert undone(standing, LeaseCount(3), 3) == standing


NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("address", "networks", "inside"),
    [
        ("10.1.2.3", ("10.0.0.0/8",), True),
        ("11.1.2.3", ("10.0.0.0/8",), False),
        ("::ffff:10.1.2.3", ("10.0.0.0/8",), True),
        ("::ffff:a01:203", ("10.0.0.0/8",), True),
        ("2001:db8::1", ("10.0.0.0/8", "2001:db8::/32"), True),
        ("2001:db9::1", ("10.0.0.0/8", "2001:db8::/32"), False),
        # Compatible is not mapped: nobody's address of today.
        ("::10.1.2.3", ("10.0.0.0/8",), False),
        ("10.1.2.3", ("::/0",), False),
        ("203.0.113.7", ("203.0.113.7/32",), True),
        ("203.0.113.8", ("203.0.113.7/32",), False),
        ("unknown", ("0.0.0.0/0", "::/0"), False),
        ("", ("0.0.0.0/0", "::/0"), False),
        ("10.1.2.3, 203.0.113.7", ("203.0.113.7/32",), False),
    ],
)
def test_an_address_is_in_a_network_however_it_is_written(
    address: str, networks: tuple[str, ...], inside: bool
) -> None:
    assert is_inside(address, networks) is inside
    assert KeyRules(None, networks).admits(address) is inside


def test_networks_are_kept_in_canonical_form_and_once() -> None:
    words = ["203.0.113.7", " 203.0.113.7/32 ", "::ffff:10.0.0.0/104", "2001:DB8:0::/32", "0.0.0.0/0"]
    assert checked_networks(words) == ["203.0.113.7/32", "10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("example.com", "is not an address or a network"),
        ("10.0.0.0/33", "is not an address or a network"),
        ("fe80::1%eth0", "is not an address or a network"),
        ("fe80::%eth0/64", "is not an address or a network"),
        ("10.0.0.1/8", "Did you mean 10.0.0.0/8"),
        ("203.0.113.7:443", "is not an address or a network"),
        ("1", "is not an address or a network"),
        ("*", "is not an address or a network"),
        ("", "is not an address or a network"),
        (" ", "is not an address or a network"),
    ],
)
def test_what_is_not_a_network_is_refused_and_says_why(word: str, says: str) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        checked_networks([word])
    assert refused.value.param == "allowed_networks"


def test_a_key_has_only_so_many_networks() -> None:
    assert len(checked_networks(f"10.0.0.{one}" for one in range(MOST_NETWORKS))) == MOST_NETWORKS
    with pytest.raises(Invalid):
        checked_networks(f"10.0.0.{one}" for one in range(MOST_NETWORKS + 1))


def test_a_key_expires_at_its_instant_and_not_before() -> None:
    rules = KeyRules(NOW, ())
    assert [rules.is_expired(at) for at in (NOW - 1, NOW, NOW + 1)] == [False, True, True]
    assert not KeyRules(None, ("10.0.0.0/8",)).is_expired(NOW)


def test_an_expiry_is_in_the_future() -> None:
    assert checked_expiry(None, NOW) is None
    assert checked_expiry(NOW + 1, NOW) == NOW + 1
    for wrong in (NOW, NOW - 1, NOW + LATEST + 1):
        with pytest.raises(Refusal):
            checked_expiry(wrong, NOW)


def test_a_key_without_rules_has_none() -> None:
    assert rules_of(None, None) is None
    assert rules_of(None, []) is None
    assert rules_of(NOW, None) == KeyRules(NOW, ())


@pytest.mark.parametrize(
    ("holder", "expires_at", "networks", "param"),
    [
        (None, None, [], None),
        (KeyRules(NOW, ()), NOW, [], None),
        (KeyRules(NOW, ()), NOW + 1, [], "expires_at"),
        (KeyRules(NOW, ()), None, [], "expires_at"),
        (KeyRules(None, ("10.0.0.0/8",)), None, ["10.1.0.0/16"], None),
        (KeyRules(None, ("10.0.0.0/8",)), None, [], "allowed_networks"),
        (KeyRules(None, ("10.0.0.0/8",)), None, ["10.1.0.0/16", "11.0.0.0/8"], "allowed_networks"),
        (KeyRules(None, ("10.0.0.0/8",)), None, ["0.0.0.0/0"], "allowed_networks"),
        (KeyRules(None, ("10.0.0.0/8",)), None, ["::/0"], "allowed_networks"),
        (KeyRules(None, ("10.0.0.0/8", "2001:db8::/32")), None, ["2001:db8:1::/48"], None),
    ],
)
def test_a_key_cannot_give_what_it_does_not_have(
    holder: KeyRules | None, expires_at: int | None, networks: list[str], param: str | None
) -> None:
    refusal = beyond(holder, expires_at, networks)
    assert (refusal.param if refusal is not None else None) == param


def test_a_successor_lives_as_long_as_its_predecessor_was_to_live() -> None:
    assert replaced_expiry(NOW, None, NOW + DAY) is None
    assert replaced_expiry(NOW, NOW + 90 * DAY, NOW + 80 * DAY) == NOW + 170 * DAY
