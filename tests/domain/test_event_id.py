"""The id of an event."""

from __future__ import annotations

from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.events.event import NAMESPACE, event_id


@given(st.lists(st.text() | st.integers() | st.none(), min_size=1, max_size=4))
def test_it_is_the_uuid_of_its_parts(what: list[object]) -> None:
    name = "\x1f".join(str(part) for part in what)
    assert event_id(*what) == str(uuid5(NAMESPACE, name))
    assert UUID(event_id(*what)).version == 5
