"""V1, V2, the events, the web SDK and the explanations agree on who has access.

V1 and webhooks write whole seconds, so an end of 12:00:00.7 is written as 12:00:01 while it is in the future: a stored
copy lasts for the rest of that second. A fresh read agrees to the millisecond.
"""

from collections.abc import Mapping
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.access.entitlements import Grant, Remapping, active, held, remapped
from latchkey.domain.catalog import Catalog, Former
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import DAY, HOUR, SECOND, Ms
from latchkey.domain.purchases.purchase import PurchaseKind
from latchkey.engine.due_transitions import at_present
from latchkey.engine.reads import CustomerView
from latchkey.subjects.customers.render import customer_v2 as v2
from latchkey.subjects.customers.render import subscriber_v1 as v1
from latchkey.subjects.customers.rules.explanation import explain
from latchkey.wire.event import Entitlement
from latchkey.wire.v1 import Subscriber
from latchkey.wire.v2 import never_ends
from tests.domain.book import Book
from tests.domain.lives import Life, lives
from tests.domain.retelling import retellings
from tests.domain.shop import CATALOG, NOON
from tests.domain.web_sdk import active_in_web_sdk, later


@st.composite
def instants(draw: st.DrawFn, life: Life) -> Ms:
    """Any moment of a life, mostly near a beginning or an end."""
    edges = {at for at, _ in life.book.states} | {NOON, life.ended_at}
    edges.update(
        access.ends_at
        for _, customer in life.book.states
        for access in held(customer, CATALOG).values()
        if access.ends_at is not None
    )
    near = draw(st.sampled_from(sorted(edge for edge in edges if edge <= life.ended_at)))
    off = draw(st.sampled_from((0, -1, 1, 500, -500, -SECOND, SECOND, HOUR, 7 * HOUR, DAY, -DAY)))
    return min(max(near + off, NOON), life.ended_at)


def state_at(book: Book, now: Ms) -> Customer:
    return next((customer for at, customer in reversed(book.states) if at <= now), Book().customer)


def told_by(book: Book, now: Ms) -> Mapping[str, Entitlement]:
    """The copy that a receiver of the events has at this moment."""
    return next((one.wire.entitlements for one in reversed(book.told) if one.committed_at <= now), {})


def judged(entitlements: Mapping[str, Entitlement], now: Ms) -> dict[str, Entitlement]:
    """What a reader takes for active: it has no end, or a later one."""
    return {id: one for id, one in entitlements.items() if one.expires_date is None or later(one.expires_date, now)}


def truly(customer: Customer, now: Ms, *, resolution: Ms = 1) -> set[str]:
    """The active entitlements, with ends rounded up to `resolution`."""
    return {
        id
        for id, access in held(customer, CATALOG).items()
        if access.ends_at is None or -(-access.ends_at // resolution) * resolution > now
    }


def truly_by_events(book: Book, now: Ms) -> tuple[set[str], set[str]]:
    """What a receiver must take for active, and what it may: it knows an end only to the second."""
    customer = state_at(book, now)
    return truly(customer, now), truly(customer, now, resolution=SECOND)


def view(customer: Customer, now: Ms) -> CustomerView:
    return CustomerView(1, customer, CATALOG, now, LastSeen(now))


def detached(catalog: Catalog, product_id: str, entitlement_id: str, at: Ms) -> Catalog:
    """The catalog after somebody has detached the product at this moment."""
    left = remapped(catalog, Remapping(detached=frozenset({Grant(product_id, entitlement_id)})))
    return replace(left, former={None: {product_id: (Former(entitlement_id, at),)}})


@given(st.data())
def test_access_replayed_from_events_is_right_whatever_the_order_in_which_a_store_told(data: st.DataObject) -> None:
    life = data.draw(lives(with_own_acts=False))
    retelling = data.draw(retellings(life))
    book = retelling.of(life)
    now = data.draw(st.sampled_from([retelling.until, *(at for at, _ in retelling.arrivals)]))

    must, may = truly_by_events(book, now)
    assert must <= judged(told_by(book, now), now).keys() <= may


@given(st.data())
def test_events_v1_v2_the_web_sdk_and_the_explanations_agree_at_every_instant(data: st.DataObject) -> None:
    life = data.draw(lives())
    now = data.draw(instants(life))
    customer = state_at(life.book, now)
    subscriber = v1.subscriber(view(customer, now)).subscriber
    told = judged(told_by(life.book, now), now)

    must, may = truly_by_events(life.book, now)
    assert must <= told.keys() <= may
    readers_agree(customer, subscriber, now)
    names_only_what_was_bought(customer, subscriber)
    # V1 writes what the last event wrote. In the last second of an end from an event, only a fresh read knows that
    # access is over.
    listed = judged(subscriber.entitlements, now)
    assert listed.items() <= told.items()
    over = [one.expires_date for id, one in told.items() if id not in listed]
    assert all(date is not None and not later(date, now + SECOND - 1) for date in over)


def readers_agree(customer: Customer, subscriber: Subscriber, now: Ms) -> None:
    by_v2 = {one.entitlement_id: one.expires_at for one in v2.customer(view(customer, now)).active_entitlements.items}
    by_v1 = judged(subscriber.entitlements, now)
    by_explanation = {
        id: one for id in sorted(CATALOG.entitlements) if (one := explain(customer, CATALOG, id, now)).has_access
    }

    assert by_v2.keys() == truly(customer, now)
    assert by_v1.keys() == by_v2.keys()
    assert active_in_web_sdk(subscriber, now) == by_v2.keys()
    assert by_explanation.keys() == by_v2.keys()
    for id, ends_at in by_v2.items():
        written, until = by_v1[id].expires_date, by_explanation[id].until
        if until is None:
            # For ever: a number in V2 that every reader takes for later than now, and no date in V1.
            assert written is None
            assert never_ends(ends_at, now)
        else:
            assert written is not None
            assert datetime.fromisoformat(written).timestamp() == -(-ends_at // SECOND)
            assert until == ends_at


def names_only_what_was_bought(customer: Customer, subscriber: Subscriber) -> None:
    bought = subscriber.subscriptions.keys() | subscriber.non_subscriptions.keys()
    temporary = {one.product_id for one in customer.purchases if one.kind is PurchaseKind.TEMPORARY}
    paid = {period.product_id for one in customer.subscriptions for period in one.periods}
    paid |= {one.product_id for one in customer.purchases if one.kind is PurchaseKind.ONE_TIME}

    assert {one.product_identifier for one in subscriber.entitlements.values()} <= bought
    for id, one in subscriber.subscriptions.items():
        assert one.period_type in {"normal", "intro", "trial", "prepaid"}, id
        granted = id.startswith("rc_promo_") or (id in temporary and id not in paid)
        assert one.store == "promotional" or not granted, id
        assert one.store != "promotional" or granted or id in temporary, id


CELLS = st.sampled_from(sorted((one.id, id) for one in CATALOG.products.values() for id in one.grants))


@given(st.data(), CELLS)
def test_everybody_tells_the_same_of_a_detached_product(data: st.DataObject, cell: tuple[str, str]) -> None:
    life = data.draw(lives())
    now, other = data.draw(instants(life)), data.draw(instants(life))
    at, now = sorted((now, other))
    product_id, entitlement_id = cell
    catalog = detached(CATALOG, product_id, entitlement_id, at)
    customer = at_present(state_at(life.book, now), catalog, now)
    view = CustomerView(1, customer, catalog, now, LastSeen(now))
    subscriber = v1.subscriber(view).subscriber

    by_v2 = {one.entitlement_id for one in v2.customer(view).active_entitlements.items}
    said = explain(customer, catalog, entitlement_id, now)

    without = remapped(CATALOG, Remapping(detached=frozenset({Grant(*cell)})))
    assert by_v2 == active(customer, without, now).keys()
    assert judged(subscriber.entitlements, now).keys() == active_in_web_sdk(subscriber, now) == by_v2
    assert said.has_access is (entitlement_id in by_v2)
    # A customer who held it at that moment by this product alone lost it then, by that change.
    before = at_present(state_at(life.book, at), CATALOG, at)
    had = entitlement_id in active(before, CATALOG, at) and entitlement_id not in active(before, without, at)
    later = any(one.entitlement_id == entitlement_id for one in held(customer, without).values())
    if had and not later:
        assert (said.reason, said.until, said.product_id) == ("detached", at, product_id)
        listed = subscriber.entitlements.get(entitlement_id)
        assert (listed is None) == (product_id == "pro_lifetime" and product_id not in subscriber.subscriptions)
    # Attached again, it is as though nothing had happened.
    again = remapped(catalog, Remapping(frozenset({Grant(*cell)})))
    assert active(customer, again, now).keys() == active(customer, CATALOG, now).keys()
