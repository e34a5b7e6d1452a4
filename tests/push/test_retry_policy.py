"""The waits between retries, as a table."""

import pytest

from latchkey.http_client import parse_retry_after
from latchkey.push.push_notification import RetryPolicy


@pytest.mark.parametrize(
    ("tried", "spent", "chance", "asked", "wait"),
    [
        (1, 0.0, 1.0, None, 1.0),
        (1, 0.0, 0.0, None, 0.5),
        (2, 0.0, 1.0, None, 2.0),
        (4, 0.0, 1.0, None, 4.0),
        (1, 0.0, 1.0, 30.0, 30.0),
        (1, 0.0, 1.0, 0.0, 1.0),
        (1, 0.0, 1.0, 60.0, None),
        (1, 59.5, 1.0, None, None),
        (5, 0.0, 1.0, None, None),
    ],
)
def test_waits_grow_obey_the_provider_and_end(
    tried: int, spent: float, chance: float, asked: float | None, wait: float | None
) -> None:
    policy = RetryPolicy(tries=5, first_wait=1.0, longest_wait=4.0, deadline=60.0)
    assert policy.wait(tried=tried, spent=spent, chance=chance, asked=asked) == wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("9" * 5_000, 999_999_999.0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-1", None),
        ("soon", None),
        ("1e400", None),
        ("", None),
    ],
)
def test_retry_after_in_every_form(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, 100.0) == seconds
