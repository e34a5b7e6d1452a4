"""The input of rendering: a customer at an instant, with the catalog and the last visit."""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen, own_now
from latchkey.domain.instants import Duration, Ms, add
from latchkey.engine.due_transitions import at_present
from latchkey.engine.storage import state
from latchkey.engine.storage.read_rows import StoredRow
from latchkey.wire.lifetime import LIFETIME_YEARS

__all__ = ["CustomerView", "LastSeen", "StoredRow", "look_at", "view_for_reading", "view_for_v2"]


class CustomerView(Struct, frozen=True, gc=False):
    # The key of the customer's row.
    key: int
    customer: Customer
    catalog: Catalog
    # The customer's current time: that of its test clock, if it is on one.
    now: Ms
    last_seen: LastSeen


def look_at(row: StoredRow, now: Ms) -> CustomerView:
    """The customer including everything due by now, even if the clock role has not written it yet."""
    customer = state.decode(row.state)
    if row.clock_now is not None:
        now = own_now(customer, row.clock_now)
    if row.due_at is not None and row.due_at <= now:
        customer = at_present(customer, row.catalog, now)
    return CustomerView(row.key, customer, row.catalog, now, row.last_seen)


def view_for_reading(
    row: StoredRow, now: Ms, decode: Callable[[bytes], Customer] = state.decode_for_reading
) -> CustomerView:
    """The same for rendering only, and faster; see `state_format.decode_for_reading`."""
    if row.clock_now is not None or (row.due_at is not None and row.due_at <= now):
        return look_at(row, now)
    return CustomerView(row.key, decode(row.state), row.catalog, now, row.last_seen)


def view_for_v2(row: StoredRow, now: Ms) -> CustomerView:
    return view_for_reading(row, now, state.decode_for_v2)


_LIFETIME = Duration(months=12 * LIFETIME_YEARS)


# The same customers are read repeatedly.
@lru_cache(maxsize=4096)
def lifetime_end(purchased_at: Ms) -> Ms:
    return add(purchased_at, _LIFETIME)
