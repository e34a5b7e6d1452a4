import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import (
    Attribute,
    CurrencyTransaction,
    Customer,
    Enrollment,
    with_purchase,
    with_subscription,
)
from latchkey.domain.customers.identity import (
    ERASED,
    LogIn,
    RestoreBehavior,
    add_id,
    is_anonymous_customer,
    join,
    log_in,
    may_move,
    merge,
    reclaimed,
    transfer,
)
from latchkey.domain.customers.promotion import grant
from latchkey.domain.customers.virtual_currency import MAX_BALANCE, move
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import MoneyBack, Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Refusal
from tests.domain.shop import COINS, NOON, PRO_LIFETIME, PRO_PASS, PRO_YEARLY, bought, owner_of, someone, subscribed

ANON = "$RCAnonymousID:" + "a" * 32
ANON_2 = "$RCAnonymousID:" + "b" * 32

LOG_INS: list[tuple[str, Customer, Customer | None, LogIn]] = [
    ("anonymous to a new id", someone(ANON), None, LogIn.ADD_ID),
    ("anonymous to a new anonymous id", someone(ANON), None, LogIn.ADD_ID),
    ("anonymous to an id without anonymous alias", someone(ANON), someone("ann"), LogIn.MERGE),
    ("anonymous to an id with an anonymous alias", someone(ANON), add_id(someone(ANON_2), "ann"), LogIn.SWITCH),
    ("anonymous to another anonymous customer", someone(ANON), someone(ANON_2), LogIn.SWITCH),
    ("anonymous to itself", someone(ANON), someone(ANON), LogIn.NOTHING),
    ("anonymous of two ids to a new id", add_id(someone(ANON), ANON_2), None, LogIn.ADD_ID),
    ("anonymous of two ids to a known id", add_id(someone(ANON), ANON_2), someone("ann"), LogIn.MERGE),
    ("known to a new id", someone("ann"), None, LogIn.SWITCH),
    ("known to another known id", someone("ann"), someone("bob"), LogIn.SWITCH),
    ("known to an anonymous customer", someone("ann"), someone(ANON), LogIn.SWITCH),
    ("known with an anonymous alias to a new id", add_id(someone(ANON), "ann"), None, LogIn.SWITCH),
    ("known with an anonymous alias to another", add_id(someone(ANON), "ann"), someone("bob"), LogIn.SWITCH),
    ("known to an alias of its own", add_id(someone(ANON), "ann"), add_id(someone(ANON), "ann"), LogIn.NOTHING),
]


@pytest.mark.parametrize(
    ("current", "target", "expected"), [row[1:] for row in LOG_INS], ids=[row[0] for row in LOG_INS]
)
def test_logging_in(current: Customer, target: Customer | None, expected: LogIn) -> None:
    assert log_in(current, target) is expected


def test_an_anonymous_customer_takes_the_new_id_and_keeps_the_first() -> None:
    after = add_id(someone(ANON), "ann")
    assert (after.app_user_id, after.original_app_user_id, after.aliases) == ("ann", ANON, (ANON, "ann"))
    assert add_id(after, "ann") is after


def test_an_anonymous_id_that_is_added_does_not_become_the_current_one() -> None:
    after = add_id(someone("ann"), ANON)
    assert (after.app_user_id, after.aliases) == ("ann", ("ann", ANON))


def test_only_a_customer_of_anonymous_ids_alone_is_anonymous() -> None:
    assert is_anonymous_customer(someone(ANON))
    assert is_anonymous_customer(add_id(someone(ANON), ANON_2))
    assert not is_anonymous_customer(add_id(someone(ANON), "ann"))
    assert not is_anonymous_customer(someone("ann"))


# Merging.


def rich(customer: Customer, id: str) -> Customer:
    customer = with_purchase(with_subscription(customer, subscribed(id=f"sub {id}")), bought(COINS, id=f"coins {id}"))
    return move(customer, CurrencyTransaction(id, "COIN", 40, NOON))


def test_merging_puts_everything_into_one_customer() -> None:
    source, target = rich(someone(ANON), "s"), rich(someone("ann", NOON + 5), "t")
    merged = merge(source, target, NOON).before

    assert merged.app_user_id == "ann"
    assert merged.original_app_user_id == ANON
    assert merged.first_seen_at == NOON
    assert merged.aliases == (ANON, "ann")
    assert [one.id for one in merged.subscriptions] == ["sub s", "sub t"]
    assert [one.id for one in merged.purchases] == ["coins s", "coins t"]
    assert merged.balances == {"COIN": 80}


def test_the_first_id_ever_seen_is_the_original_whichever_side_it_came_from() -> None:
    assert merge(someone(ANON, NOON + 5), someone("ann", NOON), NOON).before.original_app_user_id == "ann"
    assert merge(someone(ANON, NOON), someone("ann", NOON + 5), NOON).before.original_app_user_id == ANON


def test_merging_keeps_the_newer_of_two_attributes_also_when_it_is_a_deletion() -> None:
    source = replace(
        someone(ANON), attributes={"a": Attribute("new", 9), "b": Attribute("old", 1), "c": Attribute("", 9)}
    )
    target = replace(
        someone("ann"), attributes={"a": Attribute("old", 1), "b": Attribute("new", 9), "c": Attribute("x", 1)}
    )
    assert merge(source, target, NOON).before.attributes == {
        "a": Attribute("new", 9),
        "b": Attribute("new", 9),
        "c": Attribute("", 9),
    }


def test_merging_keeps_the_targets_variant_and_adds_what_it_was_not_in() -> None:
    def enrolled(customer: Customer, **variants: str) -> Customer:
        enrollments = tuple(Enrollment(id, id, variant, NOON) for id, variant in variants.items())
        return replace(customer, enrollments=enrollments)

    merged = merge(enrolled(someone(ANON), x="a", y="a"), enrolled(someone("ann"), x="b"), NOON).before
    assert {one.experiment_id: one.variant_id for one in merged.enrollments} == {"x": "b", "y": "a"}


def test_the_variants_of_a_merged_customer_are_in_the_order_of_their_enrollments() -> None:
    """The newest decides which offering is shown."""
    older, newer = Enrollment("x", "x", "a", NOON), Enrollment("y", "y", "a", NOON + 1)
    source, target = replace(someone(ANON), enrollments=(older,)), replace(someone("ann"), enrollments=(newer,))
    assert merge(source, target, NOON).before.enrollments == (older, newer)


def test_a_merged_balance_stays_within_what_a_balance_may_be() -> None:
    source, target = (replace(someone(who), balances={"COIN": MAX_BALANCE - 1}) for who in (ANON, "ann"))
    assert merge(source, target, NOON).before.balances == {"COIN": MAX_BALANCE}


def test_a_transfer_after_a_merge_is_not_mistaken_for_one_before_it() -> None:
    owner = rich(someone("bob"), "b")
    anonymous = transfer(owner, someone(ANON), NOON).target
    merged = merge(anonymous, someone("ann"), NOON).before
    left = replace(merged, subscriptions=(), purchases=())

    first, second = transfer(owner, someone(ANON), NOON), transfer(owner, left, NOON)

    (one,), (two,) = diff(first.target_before, first.target), diff(second.target_before, second.target)
    assert one.id != two.id


@pytest.mark.parametrize(("source_clock", "target_clock"), [("c", None), (None, "c"), ("c", "d")])
def test_customers_on_different_clocks_share_nothing(source_clock: str | None, target_clock: str | None) -> None:
    source = rich(someone("ann", test_clock_id=source_clock), "s")
    target = someone("bob", test_clock_id=target_clock)
    for doing in (lambda: merge(source, target, NOON), lambda: transfer(source, target, NOON)):
        with pytest.raises(Refusal, match="test clock"):
            doing()


# Transferring.

PREPAID = replace(bought(), store="play_store", product_id="pro:weekly", ends_at=NOON + DAY)
ACTIVE: list[tuple[str, Subscription | Purchase, bool]] = [
    ("a running subscription", subscribed(), True),
    ("a subscription that is over", subscribed(now=NOON - 90 * DAY), False),
    ("a running prepaid plan", PREPAID, True),
    ("a prepaid plan that is over", replace(PREPAID, ends_at=NOON), False),
    ("a refunded prepaid plan", replace(PREPAID, money_back=(MoneyBack(NOON - 1),)), False),
    ("a one-time purchase with an end", bought(PRO_PASS), False),
    ("a one-time purchase for ever", bought(PRO_LIFETIME), False),
]


@pytest.mark.parametrize(("thing", "stays"), [row[1:] for row in ACTIVE], ids=[row[0] for row in ACTIVE])
def test_a_running_subscription_keeps_its_owner_where_the_project_says_so(
    thing: Subscription | Purchase, stays: bool
) -> None:
    owner = owner_of(thing)
    assert may_move(RestoreBehavior.TRANSFER_IF_NO_ACTIVE_SUBSCRIPTIONS, owner, NOON) is not stays
    assert may_move(RestoreBehavior.TRANSFER, owner, NOON)
    assert not may_move(RestoreBehavior.KEEP, owner, NOON)


def test_a_transfer_moves_every_purchase_and_tells_only_the_receiver() -> None:
    source, target = rich(add_id(someone(ANON), "ann"), "s"), someone("bob")
    moved = transfer(source, target, NOON + 1)

    assert (moved.source.subscriptions, moved.source.purchases) == ((), ())
    assert [one.id for one in moved.target.subscriptions] == ["sub s"]
    assert [one.id for one in moved.target.purchases] == ["coins s"]
    (event,) = diff(moved.target_before, moved.target)
    assert event.type is EventType.TRANSFER
    # The current id first: a receiver takes the first element for the source user.
    assert event.transferred_from == ("ann", ANON)
    assert event.transferred_to == ("bob",)
    assert diff(source, moved.source) == ()


def test_a_transfer_leaves_what_is_not_a_purchase_with_its_owner() -> None:
    source = replace(rich(someone("ann"), "s"), attributes={"a": Attribute("x", 1)})
    moved = transfer(source, someone("bob"), NOON)
    assert moved.source.balances == {"COIN": 40}
    assert moved.source.attributes == source.attributes
    assert (moved.target.balances, moved.target.attributes) == ({}, {})


def test_named_purchases_alone_are_moved() -> None:
    source = with_subscription(rich(someone("ann"), "s"), subscribed(PRO_YEARLY, id="year"))
    moved = transfer(source, someone("bob"), NOON, keys=frozenset({("test_store", "year")}))
    assert [one.id for one in moved.target.subscriptions] == ["year"]
    assert [one.id for one in moved.source.subscriptions] == ["sub s"]
    assert [one.id for one in moved.source.purchases] == ["coins s"]


def test_a_promotional_grant_goes_along() -> None:
    moved = transfer(grant(someone("ann"), "pro", None, NOON), someone("bob"), NOON)
    assert [one.entitlement_id for one in moved.target.purchases] == ["pro"]


def test_there_and_back_and_there_again_in_one_millisecond_is_three_transfers() -> None:
    ann, bob = with_purchase(someone("ann"), bought(PRO_LIFETIME)), someone("bob")
    ids: set[str] = set()
    for _ in range(2):
        moved = transfer(ann, bob, NOON)
        ids.update(event.id for event in diff(moved.target_before, moved.target))
        ann, bob = moved.source, moved.target
        back = transfer(bob, ann, NOON)
        ids.update(event.id for event in diff(back.target_before, back.target))
        bob, ann = back.source, back.target
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("current", "target", "decided"),
    [
        (ANON, None, LogIn.ADD_ID),
        (ANON, ANON_2, LogIn.MERGE),
        (ANON, "ann", LogIn.MERGE),
        (ANON, ANON, LogIn.NOTHING),
        ("ann", None, LogIn.SWITCH),
        ("ann", ANON_2, LogIn.SWITCH),
        ("ann", "bob", LogIn.SWITCH),
    ],
)
def test_only_an_anonymous_customer_is_joined_to_another(current: str, target: str | None, decided: LogIn) -> None:
    assert join(someone(current), someone(target) if target is not None else None) is decided


def test_nobody_is_joined_to_a_named_customer_who_has_an_anonymous_id() -> None:
    named = add_id(someone(ANON_2), "ann")
    assert join(someone(ANON), named) is LogIn.SWITCH
    assert join(named, someone(ANON)) is LogIn.SWITCH


def test_a_transfer_to_oneself_or_of_nothing_is_refused() -> None:
    owner = rich(someone("ann"), "s")
    with pytest.raises(Refusal, match="the same customer"):
        transfer(owner, owner, NOON)
    with pytest.raises(Refusal, match="has no purchases"):
        transfer(someone("bob"), owner, NOON)
    with pytest.raises(Refusal, match="has none of these purchases"):
        transfer(owner, someone("bob"), NOON, keys=frozenset({("app_store", "sub s")}))


def test_what_an_erased_owner_had_is_reclaimed_and_told_as_a_transfer() -> None:
    claimed = with_purchase(someone("bob"), bought(PRO_LIFETIME))
    (event,) = diff(claimed, reclaimed(claimed, NOON))
    assert event.type is EventType.TRANSFER
    assert event.transferred_from == (ERASED,)
    assert event.transferred_to == ("bob",)
