"""Every explanation of access is true. The cause and the moment are checked with the events; what would change it is
checked by trying it."""

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.access.entitlements import Grant, Remapping, active, held, remapped
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.promotion import grant, revoke
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.formats import instant as written
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment, Purchase, Reason
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from latchkey.engine.due_transitions import at_present
from latchkey.subjects.customers.rules.explanation import Explanation, explain
from tests.domain.book import Book
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG, NOON, TEAM_MONTHLY, someone
from tests.domain.test_properties_access import detached, instants, state_at

T = EventType
ENTITLEMENTS = st.sampled_from(sorted(CATALOG.entitlements))


def has(customer: Customer, entitlement_id: str, now: Ms, catalog: Catalog = CATALOG) -> bool:
    return entitlement_id in active(at_present(customer, catalog, now), catalog, now)


def last_loss(book: Book, entitlement_id: str, now: Ms) -> Ms | None:
    """The last moment at which access ended, by what was known at each moment."""
    lost = None
    known = [(at, customer) for at, customer in book.states if at <= now]
    for index, (at, customer) in enumerate(known):
        until = known[index + 1][0] if index + 1 < len(known) else now + 1
        had = index > 0 and entitlement_id in active(known[index - 1][1], CATALOG, at - 1)
        has_now = entitlement_id in active(customer, CATALOG, at)
        if had and not has_now:
            lost = at
        ends_at = held(customer, CATALOG)[entitlement_id].ends_at if has_now else None
        if ends_at is not None and ends_at < until:
            lost = ends_at
    return lost


def told_at(book: Book, at: Ms) -> set[tuple[EventType, Reason | None]]:
    return {(one.event.type, one.event.expiration_reason) for one in book.told if one.event.at == at}


CAUSES: dict[str, Callable[[EventType, Reason | None], bool]] = {
    "refunded": lambda type, _: type is T.REFUND,
    "revoked": lambda type, why: type is T.EXPIRATION and why is Reason.DEVELOPER_INITIATED,
    "paused": lambda type, why: type is T.EXPIRATION and why is Reason.SUBSCRIPTION_PAUSED,
    "billing_retry": lambda type, why: type is T.EXPIRATION and why is Reason.BILLING_ERROR,
    # The real purchase ends a temporary grant without an event.
    "expired": lambda type, _: type in {T.EXPIRATION, T.INITIAL_PURCHASE, T.NON_RENEWING_PURCHASE},
    "product_changed": lambda type, _: type in {T.PRODUCT_CHANGE, T.RENEWAL, T.INITIAL_PURCHASE},
}


@given(st.data(), ENTITLEMENTS)
def test_an_explanation_says_what_was_told_and_what_would_change_it(data: st.DataObject, entitlement_id: str) -> None:
    life = data.draw(lives())
    now = data.draw(instants(life))
    customer = at_present(state_at(life.book, now), CATALOG, now)
    said = explain(customer, CATALOG, entitlement_id, now)

    assert said.has_access is has(customer, entitlement_id, now)
    if said.has_access:
        since_is_from_when_access_ran_without_a_gap(life, said, now)
        it_renews_exactly_where_time_alone_goes_on_with_it(customer, said)
    else:
        the_cause_and_the_moment_are_those_that_were_told(life, customer, said, now)
    for line in said.would_change:
        tried = [(pattern, found) for pattern in PROMISES if (found := re.fullmatch(pattern, line))]
        assert len(tried) == 1, f"there is no check for: {line}"
        ((pattern, found),) = tried
        PROMISES[pattern](customer, said, now, *found.groups())


def the_cause_and_the_moment_are_those_that_were_told(
    life: Life, customer: Customer, said: Explanation, now: Ms
) -> None:
    lost = last_loss(life.book, said.entitlement_id, now)
    if said.reason == "never_granted":
        assert lost is None
        return
    assert said.until is not None
    assert written(said.until) in said.sentence
    reversed_later = any(
        one.event.type is T.REFUND_REVERSED and lost is not None and lost <= one.event.at <= now
        for one in life.book.told
    )
    # Bought and given back in one millisecond: there was no moment of access to lose.
    instant = said.until == said.since
    # A planned change was paid for within the grace period: the old period had ended before that.
    within_grace = any(period.paid_from == said.until for one in customer.subscriptions for period in one.periods)
    if not reversed_later and not instant and not within_grace:
        assert said.until == lost
    if not reversed_later and not within_grace:
        assert any(CAUSES[said.reason](*one) for one in told_at(life.book, said.until)), (
            said,
            told_at(life.book, said.until),
        )


def since_is_from_when_access_ran_without_a_gap(life: Life, said: Explanation, now: Ms) -> None:
    if any(one.event.type is T.REFUND_REVERSED for one in life.book.told):
        return
    assert said.since is not None
    gained = [
        at
        for index, (at, one) in enumerate(life.book.states)
        if at <= now
        and said.entitlement_id in active(one, CATALOG, at)
        and (index == 0 or said.entitlement_id not in active(life.book.states[index - 1][1], CATALOG, at - 1))
    ]
    assert said.since == gained[-1]


def it_renews_exactly_where_time_alone_goes_on_with_it(customer: Customer, said: Explanation) -> None:
    if said.until is None or said.renews is None:
        return
    others = [one for one in customer.subscriptions if one is not bought(customer, said)]
    alone = replace(customer, subscriptions=tuple(one for one in customer.subscriptions if one not in others))
    assert has(alone, said.entitlement_id, said.until) is said.renews
    assert ("does not renew" in said.sentence) is False or not said.renews


def test_detaching_is_the_cause_also_where_a_temporary_grant_ended_at_the_same_moment() -> None:
    customer = someone()
    outage = actions.store_outage(customer, TEAM_MONTHLY, NOON, id="outage", environment=Environment.SANDBOX)
    customer = take_in(customer, outage, NOON)
    real = actions.buy(customer, TEAM_MONTHLY, NOON, id="real", environment=Environment.SANDBOX)
    customer = take_in(customer, real, NOON)

    said = explain(customer, detached(CATALOG, "team_monthly", "team", NOON), "team", NOON)

    assert (said.reason, said.transaction_id) == ("detached", "real.0")


BUYING = r"buying that product would then grant it\."
BARE: dict[str, tuple[Catalog, str]] = {
    "attached to nothing": (
        replace(CATALOG, products={one.id: replace(one, grants=()) for one in CATALOG.products.values()}),
        rf"No product grants it\. Attach a product that is on sale; {BUYING}",
    ),
    "attached to what is not sold": (
        replace(
            CATALOG,
            products={one.id: replace(one, deleted_at=1 if one.grants else None) for one in CATALOG.products.values()},
        ),
        rf"No product on sale grants it\. Attach a product that is on sale; {BUYING}",
    ),
    "not created": (
        Catalog({one.id: replace(one, grants=()) for one in CATALOG.products.values()}),
        rf"Create the entitlement and attach a product that is on sale; {BUYING}",
    ),
}


@given(st.data(), ENTITLEMENTS, st.sampled_from(sorted(BARE)))
def test_what_no_product_grants_is_granted_by_attaching_one_and_buying_it(
    data: st.DataObject, entitlement_id: str, kind: str
) -> None:
    bare, promise = BARE[kind]
    life = data.draw(lives())
    now = data.draw(instants(life))
    for customer in (someone(now=now), at_present(state_at(life.book, now), bare, now)):
        said = explain(customer, bare, entitlement_id, now)
        if said.has_access:
            continue
        assert any(re.fullmatch(promise, line) for line in said.would_change), said.would_change
        for product_id in sorted(one for one in bare.products if bare.offered(one)):
            # Created, where it was not, and attached.
            cell = frozenset({Grant(product_id, entitlement_id)})
            attached = remapped(replace(bare, entitlements=CATALOG.entitlements), Remapping(cell))
            if has(customer, entitlement_id, now, attached):
                continue
            product = attached.products[product_id]
            seen = actions.buy(customer, product, now, id="another", environment=Environment.SANDBOX)
            assert has(take_in(customer, seen, now), entitlement_id, now, attached)


def test_attaching_a_product_is_not_promised_to_be_enough() -> None:
    customer = someone()
    for bare, promise in BARE.values():
        (line, *others) = explain(customer, bare, "pro", NOON).would_change
        assert re.fullmatch(promise, line)
        assert others in ([], ["A promotional grant would give it at once."])
        attached = remapped(bare, Remapping(frozenset({Grant("coins_100", "pro")})))
        assert not has(customer, "pro", NOON, attached)


def bought(customer: Customer, said: Explanation) -> Subscription | Purchase:
    """The purchase that the explanation is about."""
    everything: tuple[Subscription | Purchase, ...] = (*customer.subscriptions, *customer.purchases)
    for one in everything:
        ids = {period.id for period in one.periods} if isinstance(one, Subscription) else {one.id}
        if one.store == said.store and said.transaction_id in ids:
            return one
    raise AssertionError(f"{said.transaction_id} is not a transaction of the customer")


def subscription(customer: Customer, said: Explanation) -> Subscription:
    one = bought(customer, said)
    assert isinstance(one, Subscription)
    return one


def after(customer: Customer, seen: Subscription | Purchase, now: Ms) -> Customer:
    return at_present(take_in(customer, seen, now), CATALOG, now)


def refund_ends_it(customer: Customer, said: Explanation, now: Ms) -> None:
    refunded = after(customer, actions.refund(bought(customer, said), now), now)
    assert not has(refunded, said.entitlement_id, now)


def refund_shortens_it(customer: Customer, said: Explanation, now: Ms, end: str) -> None:
    refunded = after(customer, actions.refund(bought(customer, said), now), now)
    ends_at = held(refunded, CATALOG)[said.entitlement_id].ends_at
    assert ends_at is not None
    assert (written(ends_at), has(refunded, said.entitlement_id, now)) == (end, True)


def revoking_ends_it(customer: Customer, said: Explanation, now: Ms) -> None:
    assert not has(revoke(customer, said.entitlement_id, now), said.entitlement_id, now)


def revoking_shortens_it(customer: Customer, said: Explanation, now: Ms, end: str) -> None:
    revoked = revoke(customer, said.entitlement_id, now)
    ends_at = held(revoked, CATALOG)[said.entitlement_id].ends_at
    assert ends_at is not None
    assert (written(ends_at), has(revoked, said.entitlement_id, now)) == (end, True)


def reversing_restores_it(customer: Customer, said: Explanation, now: Ms, end: str | None) -> None:
    back = after(customer, actions.reverse_refund(bought(customer, said), now), now)
    ends_at = held(back, CATALOG)[said.entitlement_id].ends_at
    assert has(back, said.entitlement_id, now)
    assert end == (None if ends_at is None else written(ends_at))


def renewal_on_keeps_it(customer: Customer, said: Explanation, now: Ms) -> None:
    assert said.until is not None
    kept = after(customer, actions.uncancel(subscription(customer, said), now), now)
    assert has(kept, said.entitlement_id, said.until)


def renewal_on_and_paying_keeps_it(customer: Customer, said: Explanation, now: Ms) -> None:
    assert said.until is not None
    on = after(customer, actions.uncancel(subscription(customer, said), now), now)
    paid = after(on, actions.recover_billing(subscription(on, said), CATALOG, now), now)
    assert has(paid, said.entitlement_id, said.until)


def paying_keeps_it(customer: Customer, said: Explanation, now: Ms) -> None:
    assert said.until is not None
    paid = after(customer, actions.recover_billing(subscription(customer, said), CATALOG, now), now)
    assert has(paid, said.entitlement_id, now)
    assert has(paid, said.entitlement_id, said.until)


def paying_restores_it(customer: Customer, said: Explanation, now: Ms) -> None:
    paid = after(customer, actions.recover_billing(subscription(customer, said), CATALOG, now), now)
    assert has(paid, said.entitlement_id, now)


def resuming_restores_it(customer: Customer, said: Explanation, now: Ms) -> None:
    resumed = after(customer, actions.resume(subscription(customer, said), CATALOG, now), now)
    assert has(resumed, said.entitlement_id, now)


def calling_off_the_pause_keeps_it(customer: Customer, said: Explanation, now: Ms) -> None:
    assert said.until is not None
    resumed = after(customer, actions.resume(subscription(customer, said), CATALOG, now), now)
    assert has(resumed, said.entitlement_id, said.until)


def renewing_restores_it(customer: Customer, said: Explanation, now: Ms) -> None:
    renewed = after(customer, actions.renew(subscription(customer, said), CATALOG, now), now)
    assert has(renewed, said.entitlement_id, now)


def changing_back_restores_it(customer: Customer, said: Explanation, now: Ms, product_id: str) -> None:
    product = CATALOG.products[product_id]
    changed = actions.change_product(subscription(customer, said), product, now, at_renewal=False)
    assert has(after(customer, changed, now), said.entitlement_id, now)


def the_trial_becomes_paid(customer: Customer, said: Explanation, now: Ms) -> None:
    assert said.until is not None
    later = explain(at_present(customer, CATALOG, said.until), CATALOG, said.entitlement_id, said.until)
    assert (later.has_access, later.reason) == (True, "active")


def the_purchase_replaces_it(customer: Customer, said: Explanation, now: Ms) -> None:
    product = CATALOG.products[said.product_id or ""]
    seen = actions.sell(product, now, id="the real one", environment=Environment.SANDBOX)
    assert explain(after(customer, seen, now), CATALOG, said.entitlement_id, now).reason != "temporary"


def detaching_takes_it(customer: Customer, said: Explanation, now: Ms, product_id: str) -> None:
    taken = detached(CATALOG, product_id, said.entitlement_id, now)
    assert not has(customer, said.entitlement_id, now, taken)
    then = explain(customer, taken, said.entitlement_id, now)
    assert (then.reason, then.until, then.since) == ("detached", now, said.since)
    again = f"Attaching {product_id} to the entitlement again would bring it back."
    assert again in then.would_change


def buying_grants_it(customer: Customer, said: Explanation, now: Ms, names: str) -> None:
    for product_id in names.split(" or "):
        if product_id != "another product":
            product = CATALOG.products[product_id]
            seen = actions.buy(customer, product, now, id="another", environment=Environment.SANDBOX)
            assert has(after(customer, seen, now), said.entitlement_id, now)


def a_grant_gives_it(customer: Customer, said: Explanation, now: Ms) -> None:
    assert has(grant(customer, said.entitlement_id, None, now), said.entitlement_id, now)


PROMISES: dict[str, Callable[..., None]] = {
    r"A refund would end it at once\.": refund_ends_it,
    r"A refund would let it end at (\S+ \S+ UTC)\.": refund_shortens_it,
    r"Revoking the grant would end it at once\.": revoking_ends_it,
    r"Revoking the grant would let it end at (\S+ \S+ UTC)\.": revoking_shortens_it,
    r"Reversing the refund would bring it back(?: until (\S+ \S+ UTC))?\.": reversing_restores_it,
    r"Turning renewal on again would keep it\.": renewal_on_keeps_it,
    r"Turning renewal on again, with a successful payment, would keep it\.": renewal_on_and_paying_keeps_it,
    r"A successful payment would renew it\.": paying_keeps_it,
    r"A successful payment would bring it back\.": paying_restores_it,
    r"Resuming the subscription would bring it back\.": resuming_restores_it,
    r"Calling off the pause would keep it\.": calling_off_the_pause_keeps_it,
    r"A renewal would bring it back\.": renewing_restores_it,
    r"Changing the subscription back to (\S+) would bring it back\.": changing_back_restores_it,
    r"At the end of the trial the first payment makes it a paid subscription\.": the_trial_becomes_paid,
    r"The store's word on the purchase would replace it\.": the_purchase_replaces_it,
    r"Detaching (\S+) from the entitlement would take it away\.": detaching_takes_it,
    r"Buying (.+) would grant it\.": buying_grants_it,
    r"A promotional grant would give it at once\.": a_grant_gives_it,
}
