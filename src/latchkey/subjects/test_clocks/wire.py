"""Test clocks of V2."""

from typing import Literal

from msgspec import Struct


class TestClock(Struct, frozen=True, kw_only=True):
    __test__ = False

    object: Literal["test_clock"] = "test_clock"
    id: str
    project_id: str
    name: str
    now_ms: int
    created_at: int


class TestClockAdvanced(TestClock, frozen=True, kw_only=True):
    """The clock's new time, and how many events fell due on the way."""

    events_count: int
