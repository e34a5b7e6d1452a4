from __future__ import annotations

import itertools

from msgspec.structs import replace

from latchkey.domain.customers.customer import let_time_pass, newcomer, next_due_at, with_purchase, with_subscription
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.lifecycle import RENEWAL_LEEWAY
from latchkey.domain.stores.test_store import actions
from tests.domain.shop import NOON, PRO_LIFETIME, PRO_PASS, PRO_YEARLY, at, bought, someone, subscribed

END = at("2026-02-15T12:00")


def test_a_newcomer_is_known_by_one_id_and_has_nothing() -> None:
    ann = newcomer("proj", "ann", NOON)
    assert (ann.app_user_id, ann.original_app_user_id, ann.aliases) == ("ann", "ann", ("ann",))
    assert (ann.sequence, ann.subscriptions, ann.purchases, ann.first_seen_at) == (0, (), (), NOON)


def test_purchases_stand_in_the_order_in_which_they_were_made_however_they_arrive() -> None:
    subscriptions = [
        subscribed(id="b"),
        subscribed(PRO_YEARLY, NOON - DAY, id="c"),
        subscribed(id="a"),
        replace(subscribed(id="a"), store="app_store"),
    ]
    for order in itertools.permutations(subscriptions):
        customer = someone()
        for one in order:
            customer = with_subscription(customer, one)
        assert [(one.id, one.store) for one in customer.subscriptions] == [
            ("c", "test_store"),
            ("a", "app_store"),
            ("a", "test_store"),
            ("b", "test_store"),
        ]


def test_the_same_id_in_two_stores_is_two_purchases() -> None:
    customer = with_purchase(with_purchase(someone(), bought()), replace(bought(), store="app_store"))
    assert len(customer.purchases) == 2
    assert customer.purchase("app_store", "one") != customer.purchase("test_store", "one")


def test_what_changes_nothing_gives_the_same_customer() -> None:
    customer = with_purchase(with_subscription(someone(), subscribed()), bought())
    assert with_subscription(customer, subscribed()) is customer
    assert with_purchase(customer, bought()) is customer
    assert let_time_pass(customer, NOON + DAY) is customer


def test_the_next_thing_that_time_will_do_is_the_earliest_end() -> None:
    assert next_due_at(someone()) is None
    assert next_due_at(with_purchase(someone(), bought(PRO_LIFETIME))) is None

    customer = with_subscription(someone(), subscribed())
    assert next_due_at(customer) == END + RENEWAL_LEEWAY
    customer = with_subscription(customer, actions.cancel(subscribed(id="off"), NOON))
    assert next_due_at(customer) == END
    customer = with_purchase(customer, bought(PRO_PASS))
    assert next_due_at(customer) == NOON + 10 * DAY


def test_time_marks_every_end_that_has_come() -> None:
    customer = with_subscription(someone(), actions.cancel(subscribed(), NOON))
    customer = with_purchase(customer, bought(PRO_PASS))
    after = let_time_pass(customer, END)
    assert after.subscriptions[0].expired is not None
    assert after.purchases[0].expired is not None
    assert next_due_at(after) is None
