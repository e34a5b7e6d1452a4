"""Every row of the table of notifications, from the signed payload to the events; duplicated and in any order."""

from __future__ import annotations

from itertools import permutations

import pytest

from latchkey.domain.events.event import Event
from latchkey.emulators.apple.apple_keys import AppleChain
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.apple.adapter import AppleAdapter
from tests.stores.apple.rows import ROWS, Row, tells
from tests.stores.apple.story import Story


@pytest.fixture
def story(adapter: AppleAdapter, app: ConnectedApp, chain: AppleChain) -> Story:
    return Story(adapter, app, chain)


def found(event: Event, name: str) -> object:
    value: object = event
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_notification_becomes_its_events(story: Story, row: Row) -> None:
    for told in row.before:
        await story.hears(told)
    happened = await story.hears(row.told, row.on)
    assert [event.type for event in happened] == [type for type, _ in row.events]
    for event, (_, wanted) in zip(happened, row.events, strict=True):
        assert {name: found(event, name) for name in wanted} == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_the_same_again_changes_nothing(story: Story, row: Row) -> None:
    for told in (*row.before, row.told):
        await story.hears(told)
        was = story.customer
        assert await story.hears(told) == []
        assert story.customer == was


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_neighbours_in_any_order_lead_to_the_same_state(story: Story, row: Row) -> None:
    *earlier, previous = row.before or [tells("TEST")]
    three = [previous, row.told, *([row.after] if row.after else [])]
    states = []
    for order in permutations(three):
        other = Story(story.adapter, story.app, story.chain)
        for told in earlier:
            await other.hears(told)
        for told in order:
            await other.hears(told)
        await other.waits_until(2_000)
        states.append(other.state())
    assert all(state == states[0] for state in states)
