"""Test clocks as V2 shows them."""

from msgspec import structs

from latchkey.subjects.test_clocks import wire
from latchkey.subjects.test_clocks.rules import TestClock
from latchkey.subjects.test_clocks.usecases import Advanced
from latchkey.wire.attributes import from_attributes


def test_clock(project_id: str, clock: TestClock) -> wire.TestClock:
    return from_attributes(wire.TestClock, clock, project_id=project_id, now_ms=clock.now)


def test_clock_advanced(project_id: str, moved: Advanced) -> wire.TestClockAdvanced:
    return wire.TestClockAdvanced(**structs.asdict(test_clock(project_id, moved.clock)), events_count=moved.events)
