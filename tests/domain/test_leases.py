"""The rules by which a process counts requests with a lease."""

from __future__ import annotations

from latchkey.domain.leases import FEWEST, Count, Standing, answered, expected, granted, plan, undone

RUN = 1_000_000


def with_lease(size: int, *, lasts_us: int = 400_000, used: int = 7, sent: float = 100.0) -> Standing:
    return granted(Standing(), RUN, size, lasts_us, used, sent)


def test_a_key_with_few_requests_asks_for_no_lease() -> None:
    standing, counts = Standing(), []
    for number in range(FEWEST):
        standing, count = plan(standing, 1, 100.0 + number * 0.01)
        counts.append(count)
    assert counts[:-1] == [Count(1)] * (FEWEST - 1)
    assert counts[-1] == Count(1, ahead=expected(FEWEST))


def test_requests_of_the_half_second_before_count_and_older_ones_do_not() -> None:
    busy = answered(*plan(Standing(), 100, 100.4))
    assert plan(busy, 1, 100.6)[1].ahead == 125
    assert plan(busy, 1, 101.1)[1].ahead == 0


def test_only_one_statement_at_a_time_asks_for_a_lease() -> None:
    standing, first = plan(Standing(), 40, 100.0)
    standing, second = plan(standing, 40, 100.01)
    assert (first.ahead, second.ahead) == (50, 0)
    assert plan(answered(standing, second), 40, 100.02)[1].ahead == 0
    assert plan(answered(standing, first), 40, 100.02)[1].ahead > 0


def test_a_lease_covers_requests_until_it_is_used_up() -> None:
    standing, count = plan(with_lease(5), 3, 100.1)
    assert count == Count(0, run=RUN)
    assert standing.lease is not None
    assert standing.lease.used == 10
    standing, count = plan(standing, 3, 100.1)
    # All three are counted exactly, and the rest of the lease is handed back.
    assert count == Count(3, back=2, settled=5, run=RUN)
    assert standing.lease is None


def test_a_lease_ends_as_measured_from_before_its_statement_was_sent() -> None:
    standing = with_lease(5, lasts_us=400_000, sent=100.0)
    assert plan(standing, 1, 100.399)[1] == Count(0, run=RUN)
    assert plan(standing, 1, 100.4)[1] == Count(1, back=5, settled=5, run=RUN)


def test_requests_that_failed_are_put_back_unless_the_lease_is_gone() -> None:
    standing, count = plan(with_lease(5), 3, 100.1)
    again = undone(standing, count, 3).lease
    assert again is not None
    assert again.left == 5
    assert undone(Standing(), count, 3) == Standing()
    another = granted(Standing(), RUN + 1, 5, 400_000, 0, 100.0)
    assert undone(another, count, 3) == another
    assert undone(standing, Count(3), 3) == standing
