"""A life replayed: the same snapshots of a store, in any order and any number of times."""

from dataclasses import dataclass

from hypothesis import strategies as st

from latchkey.domain.instants import DAY, HOUR, Ms
from tests.domain.book import Book
from tests.domain.lives import Life, Snapshot, elsewhere
from tests.domain.shop import NOON

DELAYS = (0, 1, 1_000, HOUR, 7 * HOUR, 2 * DAY, 40 * DAY)
# Made once, as the strategies of a life are.
_DELAYS = st.sampled_from(DELAYS)


@dataclass(frozen=True, slots=True)
class Retelling:
    """Which of a life's snapshots arrives when; none before it happened."""

    arrivals: list[tuple[Ms, int]]
    until: Ms

    def of(self, life: Life) -> Book:
        return replay([(now, elsewhere(life.snapshots[index][1])) for now, index in self.arrivals], self.until)


@st.composite
def retellings(draw: st.DrawFn, life: Life) -> Retelling:
    """The snapshots of a life in any order, some of them several times."""
    count = len(life.snapshots)
    order = draw(st.permutations(range(count)))
    again = draw(st.lists(st.sampled_from(range(count)), max_size=6)) if count else []
    arrivals = []
    now = NOON
    for index in (*order, *again):
        now = max(now, life.snapshots[index][0]) + draw(_DELAYS)
        arrivals.append((now, index))
    return Retelling(arrivals, now + draw(_DELAYS))


def replay(arrivals: list[tuple[Ms, Snapshot]], until: Ms) -> Book:
    book = Book()
    for now, snapshot in arrivals:
        book.take_in(snapshot, now)
    book.pass_time(until)
    return book
