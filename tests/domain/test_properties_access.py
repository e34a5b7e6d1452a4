"""Who may do what, told three ways, is one story.

ISO 8601 at the V1 and webhook edge has whole seconds (decision 1), so an end of 12:00:00.7 is written as 12:00:00 and
its readers lose that part of a second. V1 and the events are therefore held against ends cut to the second; V2 against
the exact millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.customer import Customer
from latchkey.domain.entitlements import held
from latchkey.domain.instants import DAY, HOUR, SECOND, Ms
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.view import LastSeen, View
from latchkey.wire.event import Entitlement
from tests.domain.book import Book
from tests.domain.lives import Life, lives
from tests.domain.retelling import retellings
from tests.domain.shop import CATALOG, NOON


@st.composite
def instants(draw: st.DrawFn, life: Life) -> Ms:
    """Any moment of a life, most of all those around which something begins or ends."""
    edges = {at for at, _ in life.book.states} | {NOON, life.ended_at}
    edges.update(
        access.ends_at
        for _, customer in life.book.states
        for access in held(customer, CATALOG).values()
        if access.ends_at is not None
    )
    near = draw(st.sampled_from(sorted(edge for edge in edges if edge <= life.ended_at)))
    off = draw(st.sampled_from((0, -1, 1, -SECOND, SECOND, HOUR, 7 * HOUR, DAY, -DAY)))
    return min(max(near + off, NOON), life.ended_at)


def state_at(book: Book, now: Ms) -> Customer:
    return next((customer for at, customer in reversed(book.states) if at <= now), Book().customer)


def told_by(book: Book, now: Ms) -> Mapping[str, Entitlement]:
    """The copy that a receiver of the events has at this moment."""
    return next((one.wire.entitlements for one in reversed(book.told) if one.committed_at <= now), {})


def judged(entitlements: Mapping[str, Entitlement], now: Ms) -> dict[str, Entitlement]:
    """What a reader takes for active: it has no end, or a later one."""
    return {
        id: one
        for id, one in entitlements.items()
        if one.expires_date is None or datetime.fromisoformat(one.expires_date).timestamp() * 1000 > now
    }


def truly(customer: Customer, now: Ms, *, resolution: Ms) -> set[str]:
    return {
        id
        for id, access in held(customer, CATALOG).items()
        if access.ends_at is None or access.ends_at // resolution * resolution > now
    }


def view(customer: Customer, now: Ms) -> View:
    return View(1, customer, CATALOG, now, LastSeen(now))


@given(st.data())
def test_access_at_any_instant_is_access_replayed_from_events(data: st.DataObject) -> None:
    life = data.draw(lives())
    now = data.draw(instants(life))

    assert judged(told_by(life.book, now), now).keys() == truly(state_at(life.book, now), now, resolution=SECOND)


@given(st.data())
def test_access_replayed_from_events_is_right_whatever_the_order_in_which_a_store_told(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))
    book = retelling.of(life)
    now = data.draw(st.sampled_from([retelling.until, *(at for at, _ in retelling.arrivals)]))

    assert judged(told_by(book, now), now).keys() == truly(state_at(book, now), now, resolution=SECOND)


@given(st.data())
def test_v1_v2_and_the_last_event_agree_at_every_instant(data: st.DataObject) -> None:
    life = data.draw(lives())
    now = data.draw(instants(life))
    customer = state_at(life.book, now)

    by_v1 = judged(v1.subscriber(view(customer, now), with_attributes=True).subscriber.entitlements, now)
    by_v2 = {one.entitlement_id: one.expires_at for one in v2.customer(view(customer, now)).active_entitlements.items}

    assert judged(told_by(life.book, now), now) == by_v1
    assert by_v1.keys() == truly(customer, now, resolution=SECOND)
    assert by_v2.keys() == truly(customer, now, resolution=1)
    for id, one in by_v1.items():
        ends_at = by_v2[id]
        seconds = None if one.expires_date is None else int(datetime.fromisoformat(one.expires_date).timestamp())
        assert seconds == (None if ends_at is None else ends_at // SECOND)


@given(st.data())
def test_every_product_that_v1_names_is_among_its_purchases(data: st.DataObject) -> None:
    life = data.draw(lives())
    now = data.draw(instants(life))
    subscriber = v1.subscriber(view(state_at(life.book, now), now), with_attributes=True).subscriber

    bought = subscriber.subscriptions.keys() | subscriber.non_subscriptions.keys()

    assert {one.product_identifier for one in subscriber.entitlements.values()} <= bought
