"""A product that was detached from an entitlement granted it until that moment: all readers agree on that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.access.entitlements import active, held
from latchkey.domain.access.explanation import explain
from latchkey.domain.access.remapping import Grant, Remapping, remapped
from latchkey.usecases.engine.passing_time import at_present
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.view import LastSeen, View
from tests.domain.lives import lives
from tests.domain.shop import CATALOG
from tests.domain.test_properties_access import instants, judged, state_at
from tests.domain.test_properties_explanation import detached
from tests.domain.web_sdk import active_in_web_sdk

CELLS = st.sampled_from(sorted((one.id, id) for one in CATALOG.products.values() for id in one.grants))


@given(st.data(), CELLS)
def test_everybody_tells_the_same_of_a_detached_product(data: st.DataObject, cell: tuple[str, str]) -> None:
    life = data.draw(lives())
    now, other = data.draw(instants(life)), data.draw(instants(life))
    at, now = sorted((now, other))
    product_id, entitlement_id = cell
    catalog = detached(CATALOG, product_id, entitlement_id, at)
    customer = at_present(state_at(life.book, now), catalog, now)
    view = View(1, customer, catalog, now, LastSeen(now))
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
