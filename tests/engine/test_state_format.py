"""The version of stored states: older ones are converted step by step when read, unknown ones are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct, ValidationError, json

from latchkey.database.errors import StateVersionError
from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.instants import DAY
from latchkey.engine.due_transitions import next_due_at
from latchkey.engine.reads import CustomerView, look_at, view_for_reading
from latchkey.engine.storage.read_rows import StoredRow
from latchkey.engine.storage.state import STEPS, VERSION, StateFormat, decode, decode_for_reading, encode
from latchkey.subjects.customers.render import customer_v2 as v2
from latchkey.subjects.customers.render import subscriber_v1 as v1
from tests.domain.book import Book
from tests.domain.shop import someone
from tests.engine.lives import CATALOG, LIVES


class First(Struct, frozen=True):
    name: str
    since: int = 0


class Renamed(Struct, frozen=True):
    title: str
    since: int = 0

    @property
    def shout(self) -> str:
        return self.title.upper()


def forth(state: dict[str, Any]) -> dict[str, Any]:
    return {"title" if name == "name" else name: value for name, value in state.items()}


def back(state: dict[str, Any]) -> dict[str, Any]:
    return {"name" if name == "title" else name: value for name, value in state.items()}


# Three releases that follow each other. The second can read what the third writes; the first cannot.
FIRST = StateFormat(First, 1, {})
SECOND = StateFormat(First, 1, {2: back})
THIRD = StateFormat(Renamed, 2, {1: forth})


def ways(format: StateFormat[Any]) -> tuple[Callable[[bytes], Any], ...]:
    return format.decode, format.decode_for_reading


def test_a_state_begins_with_its_version_and_is_read_back() -> None:
    customer = someone()
    state = encode(customer)
    assert state.startswith(b'{"v":%d,"project_id":' % VERSION)
    assert json.decode(state)["v"] == VERSION
    assert decode(state) == customer


def test_every_older_version_has_a_step() -> None:
    assert set(range(1, VERSION)) <= STEPS.keys() <= set(range(1, VERSION + 2))


def test_a_renamed_field_is_found_in_states_of_an_older_version() -> None:
    state = FIRST.encode(First("a", 7))
    for read in ways(THIRD):
        one = read(state)
        assert (one.title, one.since, one.shout) == ("a", 7, "A")
    assert THIRD.decode(state) == Renamed("a", 7)


def test_two_neighbouring_releases_read_and_change_what_the_other_wrote() -> None:
    third = THIRD.encode(Renamed("a", 7))
    assert SECOND.decode(third) == First("a", 7)
    assert (SECOND.decode_for_reading(third).name, SECOND.decode_for_reading(third).since) == ("a", 7)
    assert THIRD.decode(SECOND.encode(SECOND.decode(third))) == Renamed("a", 7)


def test_the_release_before_the_neighbour_refuses_and_says_what_to_do() -> None:
    for read in ways(FIRST):
        with pytest.raises(StateVersionError, match=r"version 2.*up to 1.*newer Latchkey"):
            read(THIRD.encode(Renamed("a")))


@pytest.mark.parametrize("version", [VERSION + 1 + (VERSION + 1 in STEPS), 99, 2**70, 0, -1])
def test_a_version_that_nobody_knows_is_refused(version: int) -> None:
    state = encode(someone()).replace(b'{"v":%d,' % VERSION, b'{"v":%d,' % version)
    for read in (decode, decode_for_reading):
        with pytest.raises(StateVersionError):
            read(state)


def test_the_version_may_stand_anywhere() -> None:
    for read in ways(THIRD):
        assert read(b'{"since":7,"title":"a","v":2}').title == "a"
        assert read(b'{"since":7,"name":"a","v":1}').title == "a"


@pytest.mark.parametrize(
    "state", [b'{"v":1,"project_id":1}', b'{"v":"one"}', b'{"v":1}', b"{}", b"[]", b'{"project_id":"a"}']
)
def test_a_state_that_is_none_is_no_matter_of_versions(state: bytes) -> None:
    for read in (decode, decode_for_reading):
        with pytest.raises(ValidationError):
            read(state)


@pytest.mark.parametrize("life", LIVES, ids=lambda one: one.__name__)
def test_every_state_is_read_back_and_both_decoders_lead_to_the_same_answers(life: Callable[[], Book]) -> None:
    book = life()
    state = encode(book.customer)
    assert decode(state) == book.customer
    row = StoredRow(1, state, CATALOG, None, next_due_at(book.customer), LastSeen(0))
    for later in (0, 45 * DAY, 400 * DAY):
        assert answers(look_at(row, book.now + later)) == answers(view_for_reading(row, book.now + later))


def answers(view: CustomerView) -> Any:
    """Of V1 and V2."""
    return json.decode(json.encode((v1.subscriber(view), v2.customer(view))))
