"""The waits between retries, as a table."""

import pytest

from latchkey.client.client_errors import ApiError, BadAnswer, ClientError, NotFound, RateLimited, Unreachable
from latchkey.client.transport import wait_before_retry


@pytest.mark.parametrize(
    ("error", "attempt", "fraction", "wait"),
    [
        (RateLimited(429, "", retry_after=7), 1, 0.0, 7),
        (RateLimited(429, "", retry_after=7), 3, 1.0, 7.7),
        (RateLimited(429, ""), 1, 0.0, 60),
        (RateLimited(429, ""), 2, 0.0, 120),
        (Unreachable(""), 1, 0.0, 0.125),
        (Unreachable(""), 1, 1.0, 0.25),
        (Unreachable(""), 4, 1.0, 2.0),
        (Unreachable(""), 40, 1.0, 30.0),
        (ApiError(503, ""), 1, 1.0, 0.25),
        (ApiError(503, "", retry_after=9), 1, 1.0, 9),
        (ApiError(500, ""), 2, 1.0, 0.5),
        (NotFound(404, ""), 1, 0.0, None),
        (ApiError(401, ""), 1, 0.0, None),
        (BadAnswer(""), 1, 0.0, None),
    ],
)
def test_the_wait_before_asking_again(error: ClientError, attempt: int, fraction: float, wait: float | None) -> None:
    assert wait_before_retry(error, attempt, fraction) == (pytest.approx(wait) if wait is not None else None)
