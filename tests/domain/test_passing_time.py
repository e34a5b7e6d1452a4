from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import with_purchase, with_subscription
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY, Duration
from latchkey.domain.purchases.purchase import Reason
from latchkey.domain.stores.test_store import actions
from latchkey.engine.due_transitions import MOST_ACTS, at_present, steps
from tests.domain.book import Book
from tests.domain.lives import PAUSES, Life, lives
from tests.domain.shop import CATALOG, NOON, PRO_PASS, PRO_YEARLY, TEAM_MONTHLY, at, bought, someone, subscribed

T = EventType
END = at("2026-02-15T12:00")


def test_every_transition_happens_at_its_own_instant_in_order() -> None:
    customer = with_subscription(someone(), subscribed())
    customer = with_purchase(customer, bought(PRO_PASS))
    cancelled = actions.cancel(subscribed(TEAM_MONTHLY, NOON + DAY, id="team"), NOON + DAY)
    customer = with_subscription(customer, cancelled)

    told = [
        (step.at, [event.type for event in diff(step.before, step.after)])
        for step in steps(customer, CATALOG, at("2026-03-15T12:00"))
    ]

    assert told == [
        (NOON + 10 * DAY, [T.EXPIRATION]),
        (END, [T.RENEWAL]),
        (END + DAY, [T.EXPIRATION]),
        (at("2026-03-15T12:00"), [T.RENEWAL]),
    ]


def test_walking_in_small_steps_ends_where_one_long_one_does() -> None:
    far = Book.of(subscribed())
    far.pass_time(NOON + 100 * DAY)
    near = Book.of(subscribed())
    for day in range(101):
        near.pass_time(NOON + day * DAY)
    assert far.customer == near.customer
    assert [one.wire for one in far.told] == [one.wire for one in near.told]


def test_two_that_fall_due_in_one_instant_happen_in_one_step() -> None:
    customer = with_subscription(someone(), subscribed(id="a"))
    customer = with_subscription(customer, subscribed(TEAM_MONTHLY, id="b"))
    (step,) = steps(customer, CATALOG, END)
    assert [event.type for event in diff(step.before, step.after)] == [T.RENEWAL, T.RENEWAL]


def test_a_product_that_is_gone_from_the_catalog_is_not_renewed_into() -> None:
    book = Book.of(actions.change_product(subscribed(), PRO_YEARLY, NOON, at_renewal=True))
    book.catalog = Catalog({id: one for id, one in CATALOG.products.items() if id != PRO_YEARLY.id})
    assert book.pass_time(END) == [T.EXPIRATION]
    assert book.last.expiration_reason == Reason.UNKNOWN


def test_only_the_test_store_acts_by_itself() -> None:
    customer = with_subscription(someone(), replace(subscribed(), store="app_store"))
    assert all(
        event.type is T.EXPIRATION for s in steps(customer, CATALOG, END + DAY) for event in diff(s.before, s.after)
    )


@given(lives(), st.data())
def test_what_a_read_shows_is_where_every_step_would_lead(life: Life, data: st.DataObject) -> None:
    begun, customer = data.draw(st.sampled_from(life.book.states))
    now = begun + data.draw(st.sampled_from(PAUSES)) + data.draw(st.integers(0, 2))
    walked = customer
    for step in steps(customer, CATALOG, now):
        walked = step.after

    assert at_present(customer, CATALOG, now) == walked


def test_a_subscription_that_renews_every_second_does_not_hold_up_a_read_for_long() -> None:
    quick = replace(PRO_YEARLY, duration=Duration(ms=1000))
    catalog = Catalog({quick.id: quick})
    customer = with_subscription(someone(), subscribed(quick))
    (shown,) = at_present(customer, catalog, NOON + 7 * DAY).subscriptions
    assert len(shown.periods) == MOST_ACTS + 1
