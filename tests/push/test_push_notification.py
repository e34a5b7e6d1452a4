"""Every form of response, and the waits between retries, as tables."""

from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from latchkey.http_client import parse_retry_after
from latchkey.push.push_notification import (
    BusyError,
    NotificationRefusedError,
    PushError,
    PushNotSentError,
    PushResult,
    RefusedError,
    RetryPolicy,
    interpret,
)
from latchkey.push.sandbox.protocol import NONSENSE

NOBODY = "All included players are not subscribed"


@pytest.mark.parametrize(
    ("status", "said", "sent"),
    [
        (200, {"id": "n", "external_id": None}, PushResult(("n",))),
        (200, {"id": "n", "recipients": 2}, PushResult(("n",))),
        (200, {"id": "n", "errors": {"invalid_player_ids": ["b"]}}, PushResult(("n",), ("b",))),
        (200, {"id": "n", "errors": {"invalid_subscription_ids": ["b"]}}, PushResult(("n",), ("b",))),
        (200, {"id": "n", "errors": [{"invalid_player_ids": ["b"]}, "and more"]}, PushResult(("n",), ("b",))),
        (200, {"id": "n", "errors": {"invalid_player_ids": ["b", "somebody else's", 7]}}, PushResult(("n",), ("b",))),
        (200, {"id": "n", "errors": ["a warning"]}, PushResult(("n",))),
        (200, {"id": "", "errors": [NOBODY]}, PushResult((), (), ("a", "b"))),
        (200, {"id": "", "recipients": 0, "errors": [NOBODY]}, PushResult((), (), ("a", "b"))),
        (200, {"id": "", "errors": {"invalid_player_ids": ["a", "b"]}}, PushResult((), ("a", "b"))),
        (400, {"errors": [NOBODY]}, PushResult((), (), ("a", "b"))),
        (400, {"errors": {"invalid_player_ids": ["a"]}}, PushResult((), ("a",), ("b",))),
    ],
)
def test_a_response_that_accepts_the_notification(status: int, said: Any, sent: PushResult) -> None:
    assert interpret(status, json.encode(said), ["a", "b"]) == sent


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"", PushNotSentError),
        (200, b'{"id": ""}', PushNotSentError),
        (200, b'{"id": null, "errors": null}', PushNotSentError),
        (204, b"", PushNotSentError),
        (200, b"[" * 100_000, PushNotSentError),
        (400, b'{"errors": ["bad"]}', NotificationRefusedError),
        (400, b"<html>", NotificationRefusedError),
        (200, b'{"id":"\xff"}', PushNotSentError),
        (400, b'{"errors":["\xff"]}', NotificationRefusedError),
        (401, b'{"errors": ["no key"]}', RefusedError),
        (403, b"", RefusedError),
        (413, b"", NotificationRefusedError),
        (422, b"", NotificationRefusedError),
        # What is at the push address today is there tomorrow, or not.
        *((status, b"", RefusedError) for status in (301, 302, 404, 405, 410, 421)),
        (408, b"", PushNotSentError),
        (429, b"", BusyError),
        (500, b'{"id": "n"}', PushNotSentError),
        (599, b"", PushNotSentError),
    ],
)
def test_a_response_that_refuses_or_is_invalid(status: int, body: bytes, error: type[PushError]) -> None:
    assert type(interpret(status, body, ["a"])) is error


def test_what_the_sandbox_sends_as_nonsense_is_no_answer() -> None:
    for body in NONSENSE:
        assert isinstance(interpret(200, body, ["a"]), PushNotSentError), body[:50]


def test_the_providers_reasons_are_in_the_error_up_to_a_length() -> None:
    result = interpret(400, json.encode({"errors": ["first\x1b[31m", *("x" * 10_000 for _ in range(50))]}), ["a"])
    assert isinstance(result, NotificationRefusedError)
    assert result.reasons[0] == "first [31m"
    assert len(str(result)) < 1_200


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
        ("9" * 5_000, 86_400.0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86_400.0),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("1e400", None),
        ("", None),
        ("1 Jan 99999999999 10:1", None),
    ],
)
def test_retry_after_in_every_form(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, 100.0) == seconds


@given(
    st.text()
    | st.builds("{}, {} Jan {} {}:{}:{} {}".format, st.text(), *[st.integers()] * 5, st.integers() | st.text())
    | st.datetimes(timezones=st.timezones()).map(format_datetime)
)
def test_retry_after_is_a_time_to_wait_or_nothing_whatever_it_says(header: str) -> None:
    seconds = parse_retry_after(header, 100.0)
    assert seconds is None or 0 <= seconds <= 86_400
