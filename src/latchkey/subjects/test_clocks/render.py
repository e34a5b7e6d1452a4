"""Test clocks as V2 shows them."""

from msgspec import structs

from latchkey.subjects.test_clocks import wire
from latchkey.subjects.test_clocks.rules import TestClock
from latchkey.subjects.test_clocks.usecases import Advanced


def test_clock(project_id: str, one: TestClock) -> wire.TestClock:
    return wire.TestClock(id=one.id, project_id=project_id, name=one.name, now_ms=one.now, created_at=one.created_at)


def test_clock_advanced(project_id: str, moved: Advanced) -> wire.TestClockAdvanced:
    return wire.TestClockAdvanced(**structs.asdict(test_clock(project_id, moved.clock)), events_count=moved.events)
