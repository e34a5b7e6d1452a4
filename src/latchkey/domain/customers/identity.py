"""Identity: logging in, merging an anonymous customer, moving purchases from one customer to another."""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, Customer, Joined, Transfer
from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.domain.events.customer_event import event_id
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.lifecycle import Ending, still_ended
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.reference import is_prepaid
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Refusal
from latchkey.domain.user_id import is_anonymous, same_account

# Replaces the id of an erased owner in TRANSFER events.
ERASED = "$deleted"


class RestoreBehavior(StrEnum):
    TRANSFER = "transfer"
    KEEP = "keep"
    TRANSFER_IF_NO_ACTIVE_SUBSCRIPTIONS = "transfer_if_no_active_subscriptions"


class LogIn(StrEnum):
    """What a login does to the two customers."""

    NOTHING = "nothing"
    ADD_ID = "add_id"
    MERGE = "merge"
    SWITCH = "switch"


def belongs_to(customer: Customer, app_user_id: str) -> bool:
    """Whether whoever shows a purchase of this customer is the same person: it has only anonymous ids, or the same UUID
    in another spelling."""
    return all(is_anonymous(alias) or same_account(alias, app_user_id) for alias in customer.aliases)


def may_move(behavior: RestoreBehavior, owner: Customer, now: Ms) -> bool:
    """Whether a purchase of this owner may go to somebody else who shows it."""
    if behavior is RestoreBehavior.TRANSFER_IF_NO_ACTIVE_SUBSCRIPTIONS:
        # A prepaid plan is a subscription too, though it is kept as a one-time purchase.
        ends = [subscription.access_ends_at for subscription in owner.subscriptions]
        prepaid = [purchase.access_ends_at for purchase in owner.purchases if is_prepaid(purchase)]
        return all(end is not None and end <= now for end in (*ends, *prepaid))
    return behavior is RestoreBehavior.TRANSFER


def is_anonymous_customer(customer: Customer) -> bool:
    return all(is_anonymous(alias) for alias in customer.aliases)


def log_in(current: Customer, target: Customer | None) -> LogIn:
    """An anonymous customer takes a new id, or merges into an existing one that has no anonymous id yet. Otherwise the
    app switches user and nothing merges."""
    if target is not None and target.aliases == current.aliases:
        return LogIn.NOTHING
    if not is_anonymous_customer(current):
        return LogIn.SWITCH
    if target is None:
        return LogIn.ADD_ID
    if any(is_anonymous(alias) for alias in target.aliases):
        return LogIn.SWITCH
    return LogIn.MERGE


def join(current: Customer, target: Customer | None) -> LogIn:
    """The same for two ids that a device claims to be one person. In addition, two anonymous customers merge: each of
    their ids is random, so whoever knows both has both devices. A customer with a name is never merged into another."""
    decided = log_in(current, target)
    if decided is LogIn.SWITCH and target is not None and is_anonymous_customer(current):
        return LogIn.MERGE if is_anonymous_customer(target) else LogIn.SWITCH
    return decided


def add_id(customer: Customer, app_user_id: str) -> Customer:
    if app_user_id in customer.aliases:
        return customer
    current = customer.app_user_id if is_anonymous(app_user_id) else app_user_id
    return replace(customer, app_user_id=current, aliases=(*customer.aliases, app_user_id))


def told_of_id(customer: Customer, app_user_id: str, now: Ms) -> Customer:
    """The customer with one more id, and the event that announces it: a receiver may know that id as one without
    access."""
    if app_user_id in customer.aliases:
        return customer
    fact = Joined(event_id(customer.record, "id", app_user_id), now, (customer.app_user_id,))
    return replace(add_id(customer, app_user_id), joined=(*customer.joined, fact))


class Merged(Struct, frozen=True):
    """`before` already contains the data of both, so the difference to `after` is only the SUBSCRIBER_ALIAS event."""

    before: Customer
    after: Customer


def merge(source: Customer, target: Customer, now: Ms) -> Merged:
    """`target` with everything of `source`. Afterwards the ids of both name one customer."""
    _same_clock(source, target)
    older, newer = sorted((source, target), key=lambda one: one.first_seen_at)
    attributes: dict[str, Attribute] = dict(source.attributes)
    for name, attribute in target.attributes.items():
        known = attributes.get(name)
        if known is None or attribute.updated_at >= known.updated_at:
            attributes[name] = attribute
    enrolled = {enrollment.experiment_id for enrollment in target.enrollments}
    added = (one for one in source.enrollments if one.experiment_id not in enrolled)
    codes = sorted(source.balances.keys() | target.balances.keys())
    sums = {code: source.balances.get(code, 0) + target.balances.get(code, 0) for code in codes}
    merged = replace(
        _receive(target, source),
        original_app_user_id=older.original_app_user_id,
        first_seen_at=older.first_seen_at,
        aliases=(*older.aliases, *(alias for alias in newer.aliases if alias not in older.aliases)),
        attributes=attributes,
        balances={code: min(MAX_BALANCE, amount) for code, amount in sums.items()},
        enrollments=tuple(sorted((*target.enrollments, *added), key=lambda one: one.enrolled_at)),
        original_application_version=target.original_application_version or source.original_application_version,
        # The number of transfers is part of the next transfer's id.
        transfers=(*target.transfers, *source.transfers),
    )
    fact = Joined(event_id(target.record, "customer", source.record), now, (source.app_user_id, target.app_user_id))
    return Merged(merged, replace(merged, joined=(*merged.joined, fact)))


class MovedPurchases(Struct, frozen=True):
    """`target_before` already holds the purchases, so the difference to `target` is only the TRANSFER event."""

    source: Customer
    target_before: Customer
    target: Customer


def transfer(
    source: Customer, target: Customer, now: Ms, *, keys: frozenset[tuple[str, str]] | None = None
) -> MovedPurchases:
    """Move purchases (all, or those named by store and id) from one customer to another."""
    if source.aliases == target.aliases:
        raise Refusal("Both ids name the same customer; there is nothing to transfer.", param="target_customer_id")
    _same_clock(source, target)
    wanted = _only(source, lambda bought: keys is None or (bought.store, bought.id) in keys)
    if not wanted.subscriptions and not wanted.purchases:
        which = "no purchases to transfer" if keys is None else "none of these purchases"
        raise Refusal(f"{source.app_user_id!r} has {which}.")
    left = _only(source, lambda bought: keys is not None and (bought.store, bought.id) not in keys)
    received = _receive(target, wanted)
    # The current id first: a receiver takes the first element as the source user.
    others = tuple(alias for alias in source.aliases if alias != source.app_user_id)
    told = _told_of_transfer(received, (source.app_user_id, *others), now)
    return MovedPurchases(left, received, told)


def bought_in(customer: Customer, app_ids: Collection[str]) -> frozenset[tuple[str, str]]:
    """The purchases that were made in one of these apps, by store and id."""
    return frozenset((purchase.store, purchase.id) for purchase in customer.bought if purchase.app_id in app_ids)


def came_from_an_app(customer: Customer, key: tuple[str, str]) -> bool:
    """Whether an app reported this purchase. A purchase made by the operator has no app, and no phone can claim it."""
    bought = customer.subscription(*key) or customer.purchase(*key)
    return bought is not None and bought.app_id is not None


def with_endings(customer: Customer, endings: Mapping[tuple[str, str], Sequence[Ending]]) -> Customer:
    """The customer with purchases, by store and id, that had ended before their owner was erased."""
    return replace(
        customer,
        subscriptions=tuple(
            still_ended(subscription, endings.get((subscription.store, subscription.id), ()))
            for subscription in customer.subscriptions
        ),
        purchases=tuple(
            still_ended(purchase, endings.get((purchase.store, purchase.id), ())) for purchase in customer.purchases
        ),
    )


def reclaimed(customer: Customer, now: Ms) -> Customer:
    """The customer after claiming a purchase whose owner was erased."""
    return _told_of_transfer(customer, (ERASED,), now)


def _told_of_transfer(target: Customer, sources: tuple[str, ...], now: Ms) -> Customer:
    number = len(target.transfers) + 1
    fact = Transfer(event_id(sources[0], target.record, number, now), now, sources)
    return replace(target, transfers=(*target.transfers, fact))


def _only(customer: Customer, fits: Callable[[Subscription | Purchase], bool]) -> Customer:
    subscriptions, purchases = filter(fits, customer.subscriptions), filter(fits, customer.purchases)
    return replace(customer, subscriptions=tuple(subscriptions), purchases=tuple(purchases))


def _receive(target: Customer, source: Customer) -> Customer:
    return replace(
        target,
        subscriptions=tuple(sorted((*target.subscriptions, *source.subscriptions), key=lambda one: one.order)),
        purchases=tuple(sorted((*target.purchases, *source.purchases), key=lambda one: one.order)),
    )


def _same_clock(source: Customer, target: Customer) -> None:
    if source.test_clock_id != target.test_clock_id:
        raise Refusal("The two customers are not on the same test clock.")
