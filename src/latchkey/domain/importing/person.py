"""Everything that the rows of a file tell of one customer, and what it makes of the customer here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from latchkey.domain.customers.customer import Attribute, CurrencyTransaction, Customer, not_later_than, with_attributes
from latchkey.domain.customers.intake import take_in
from latchkey.domain.importing.rebuilding import is_settled, rebuilt
from latchkey.domain.importing.row import CustomerRow, TransactionRow
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.settling import settle, settle_purchase
from latchkey.domain.purchases.subscription import Subscription

# A purchase's store and its id there.
PurchaseKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    # The id used last.
    app_user_id: str
    # All ids, the oldest first.
    ids: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    first_seen_at: Ms | None = None
    last_seen_at: Ms | None = None
    last_seen_platform: str | None = None
    last_seen_platform_version: str | None = None
    last_seen_app_version: str | None = None
    last_seen_country: str | None = None
    balances: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[TransactionRow, ...] = ()
    bought: tuple[Subscription | Purchase, ...] = ()
    # The subscriptions whose rows say themselves why each period began.
    settled: frozenset[PurchaseKey] = frozenset()
    # What the store can be asked with, where the file has it.
    tokens: Mapping[PurchaseKey, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[PurchaseKey, ...]:
        return tuple((one.store, one.id) for one in self.bought)


def person(key: str, transactions: Iterable[TransactionRow], customers: Iterable[CustomerRow]) -> Person:
    """`key` is the id under which the rows were put together."""
    rows, told = tuple(transactions), sorted(customers, key=lambda row: (row.as_of, repr(row)))
    ids = dict.fromkeys(id for row in told for id in row.ids) or {key: None}
    latest = told[-1] if told else CustomerRow(app_user_id=key)
    attributes: dict[str, Attribute] = {}
    for row in told:
        for name, noted in row.attributes.items():
            known = attributes.get(name)
            if known is None or noted.updated_at >= known.updated_at:
                attributes[name] = noted
    chains: dict[PurchaseKey, list[TransactionRow]] = {}
    for one in rows:
        chains.setdefault((one.store, one.chain), []).append(one)
    return Person(
        app_user_id=latest.app_user_id,
        ids=tuple(ids),
        attributes=attributes,
        first_seen_at=min((row.first_seen_at for row in told if row.first_seen_at is not None), default=None),
        last_seen_at=max((row.last_seen_at for row in told if row.last_seen_at is not None), default=None),
        last_seen_platform=latest.last_seen_platform,
        last_seen_platform_version=latest.last_seen_platform_version,
        last_seen_app_version=latest.last_seen_app_version,
        last_seen_country=latest.last_seen_country,
        balances=latest.balances,
        rows=rows,
        bought=tuple(rebuilt(rows)),
        settled=frozenset(key for key, chain in chains.items() if is_settled(chain)),
        tokens={key: token for key, chain in chains.items() if (token := _token(chain)) is not None},
    )


def together(one: Person, other: Person) -> Person:
    """Two sets of rows that turn out to be about the same customer."""
    older, newer = sorted((one, other), key=lambda each: (each.first_seen_at or 0, each.app_user_id))
    rows = (*older.rows, *newer.rows)
    return replace(
        newer,
        ids=tuple(dict.fromkeys((*older.ids, *newer.ids))),
        attributes={**older.attributes, **newer.attributes},
        first_seen_at=min((at for at in (one.first_seen_at, other.first_seen_at) if at is not None), default=None),
        rows=rows,
        bought=tuple(rebuilt(rows)),
        settled=older.settled & newer.settled | older.settled - {*newer.keys} | newer.settled - {*older.keys},
        tokens={**older.tokens, **newer.tokens},
    )


def _token(chain: list[TransactionRow]) -> str | None:
    """The newest."""
    return next((row.token for row in sorted(chain, key=lambda row: row.purchased_at, reverse=True) if row.token), None)


def first_seen_of(one: Person, now: Ms) -> Ms:
    """As the file says, else when the customer first bought something."""
    known = [one.first_seen_at] if one.first_seen_at is not None else [row.purchased_at for row in one.rows]
    return min([*known, now])


def last_seen_of(one: Person, now: Ms) -> Ms:
    if one.last_seen_at is not None:
        return min(one.last_seen_at, now)
    bought = [row.purchased_at for row in one.rows if row.purchased_at <= now]
    return max([first_seen_of(one, now), *bought])


def new_customer(one: Person, project_id: str, record: str, now: Ms) -> Customer:
    """Somebody who was not known here, without purchases yet."""
    return Customer(
        project_id=project_id,
        app_user_id=one.app_user_id,
        original_app_user_id=one.ids[0],
        first_seen_at=first_seen_of(one, now),
        aliases=one.ids,
        record=record,
    )


def with_balances(customer: Customer, balances: Mapping[str, int], reference: str, now: Ms) -> Customer:
    """With what the customer had before. Only for somebody new: nobody can tell what else was spent here."""
    if not balances:
        return customer
    moved = tuple(CurrencyTransaction(reference, code, amount, now) for code, amount in sorted(balances.items()))
    return structs.replace(customer, balances=dict(sorted(balances.items())), currency_transactions=moved)


def met(customer: Customer, one: Person, free: frozenset[str], now: Ms) -> Customer:
    """A customer who is known here already, with those ids of the file that nobody has. The older of the two says
    which id was the first."""
    added = tuple(id for id in one.ids if id in free)
    since = first_seen_of(one, now)
    older = since < customer.first_seen_at
    mine = customer.aliases if not older else tuple(id for id in one.ids if id in free or id in customer.aliases)
    return structs.replace(
        customer,
        original_app_user_id=mine[0] if older and mine else customer.original_app_user_id,
        first_seen_at=min(since, customer.first_seen_at),
        aliases=tuple(dict.fromkeys((*mine, *customer.aliases, *added))),
    )


def taken_in(customer: Customer, one: Person, bought: Iterable[Subscription | Purchase], now: Ms) -> Customer:
    """With these purchases and the attributes of the file, by the rules for what a store tells."""
    if one.attributes:
        customer = with_attributes(customer, not_later_than(now, one.attributes))
    for seen in bought:
        customer = take_in(customer, _settled(customer, seen, (seen.store, seen.id) in one.settled, now), now)
    return customer


def _settled(customer: Customer, seen: Subscription | Purchase, says_why: bool, now: Ms) -> Subscription | Purchase:
    if isinstance(seen, Purchase):
        return settle_purchase(customer.purchase(seen.store, seen.id), seen)
    before = customer.subscription(seen.store, seen.id)
    return seen if before is None and says_why else settle(before, seen, now)
