"""What takes a minute: the 60 seconds of a receiver, those of a client that was refused, and attempts made again."""

from typing import Any

from conformance.statements import shows


@shows("4.3.7", "8.2")
def test_a_receiver_has_60_seconds(minute: Any) -> None:
    assert minute["in time"].result()["status"] == 200
    late = minute["late"].result()
    assert late["status"] is None
    assert 59_000 <= late["milliseconds"] < 64_000, late


@shows("7.10")
def test_a_client_that_was_refused_waits_as_long_as_it_was_told_or_60_seconds(minute: Any) -> None:
    assert 3 <= minute["told to wait"].result() < 15
    assert 60 <= minute["not told"].result() < 80


@shows("7.11")
def test_a_client_waits_longer_after_each_failure(minute: Any) -> None:
    waits = minute["failed"].result()
    assert len(waits) >= 4
    assert waits == sorted(waits), waits
    assert waits[-1] > 4 * waits[0], waits


@shows("4.3.6", "6.33")
def test_a_reply_other_than_200_is_sent_again_with_the_same_body(minute: Any) -> None:
    first, second = minute["not accepted"].result()
    assert first.body == second.body
    assert second.at - first.at > 3
