"""From rows to what a store would have told: a subscription for each chain, and a purchase for everything else; with
the exchange rate that two prices imply, else the operator's. The rows may come in any order and repeat each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import (
    Attribute,
    CurrencyTransaction,
    Customer,
    LastSeen,
    not_later_than,
    with_attributes,
)
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.pinned_rates import Tariff, is_estimate
from latchkey.domain.purchases.purchase import USD, Environment, MoneyBack, Purchase, PurchaseKind, Rate, Terms
from latchkey.domain.purchases.reconciliation import settle, settle_purchase
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Subscription
from latchkey.subjects.imports.rules.cells import day
from latchkey.subjects.imports.rules.row import CustomerRow, RowKind, TransactionRow

# So many that the price times the rate is the price in USD again, to the last millionth.
_DIGITS = 18


def implied_rate(price: Price, usd_micros: int, at: Ms) -> Rate | None:
    """None where it would say nothing: a price in USD, nothing paid, or a price that is not known."""
    if not _needs_rate(price) or usd_micros <= 0:
        return None
    with localcontext() as context:
        context.prec = _DIGITS
        rate = Decimal(usd_micros) / Decimal(price.micros)
    return Rate(format(rate.normalize(), "f"), day(at))


def with_rates(bought: Subscription | Purchase, tariff: Tariff) -> Subscription | Purchase:
    """With the operator's rate where the file tells of tax or commission only. Where it tells of nothing, the terms are
    found as for any new payment."""
    if isinstance(bought, Purchase):
        return replace(bought, terms=_rated(bought, bought.store, tariff)) if _lacks_rate(bought) else bought
    if not any(map(_lacks_rate, bought.periods)):
        return bought
    store = bought.store
    periods = (
        replace(period, terms=_rated(period, store, tariff)) if _lacks_rate(period) else period
        for period in bought.periods
    )
    return replace(bought, periods=tuple(periods))


def without_rate(bought: Iterable[Subscription | Purchase]) -> set[str]:
    """The currencies of payments in production whose amount in USD is an estimate."""
    found: set[str] = set()
    for one in bought:
        if one.environment is Environment.PRODUCTION:
            payments: tuple[Period | Purchase, ...] = (one,) if isinstance(one, Purchase) else one.periods
            found.update(
                each.price.currency
                for each in payments
                if each.terms is not None and is_estimate(each.price, each.terms.rate)
            )
    return found


def _lacks_rate(payment: Period | Purchase) -> bool:
    return payment.terms is not None and payment.terms.rate is None and _needs_rate(payment.price)


def _needs_rate(price: Price) -> bool:
    return price.known and price.currency != USD and price.micros > 0


def _rated(payment: Period | Purchase, store: str, tariff: Tariff) -> Terms:
    assert payment.terms is not None, "asked only where there are some"
    at, subscription = payment.purchased_at, isinstance(payment, Period)
    found = tariff.terms(payment.price, store, payment.country, at, subscription=subscription)
    return replace(payment.terms, rate=found.rate)


# How long stores try a payment again. A period that follows within this time after a failed payment is a renewal.
_LONGEST_RETRY: Ms = 60 * DAY
# Whatever begins this soon after the end of the period before it continues it.
_NEXT: Ms = HOUR


# What a row says as it is stored: the fields of the same names, without those that are worked out.
_OF_PURCHASE, _OF_PERIOD = (
    tuple(name for name in shape.__struct_fields__ if name in TransactionRow.__struct_fields__ and name not in derived)
    for shape, derived in ((Purchase, {"kind", "revoked_at"}), (Period, {"number", "cause", "ends_at"}))
)


def newest(rows: Iterable[TransactionRow]) -> list[TransactionRow]:
    """Each transaction once, as the newest of its rows tells it."""
    found: dict[tuple[str, str, int], TransactionRow] = {}
    for row in rows:
        known = found.get(row.key)
        if known is None or _age(row) > _age(known):
            found[row.key] = row
    return list(found.values())


def _age(row: TransactionRow) -> tuple[Ms, str]:
    # Of two rows of one moment always the same one wins, whatever their order.
    return row.updated_at, repr(row)


def rebuilt(rows: Iterable[TransactionRow]) -> list[Subscription | Purchase]:
    """Everything that these rows tell of, oldest first."""
    chains: dict[tuple[str, str], list[TransactionRow]] = {}
    bought: list[Subscription | Purchase] = []
    for row in newest(rows):
        if row.kind is RowKind.SUBSCRIPTION:
            chains.setdefault((row.store, row.chain), []).append(row)
        else:
            bought.append(_purchase(row))
    bought += [_subscription(chain) for chain in chains.values()]
    return sorted(bought, key=lambda one: one.order)


def _purchase(row: TransactionRow) -> Purchase:
    grant = row.kind is RowKind.PROMOTIONAL
    same: dict[str, Any] = {name: getattr(row, name) for name in _OF_PURCHASE}
    return Purchase(
        **same,
        kind=PurchaseKind.PROMOTIONAL if grant else PurchaseKind.ONE_TIME,
        money_back=() if row.refunded_at is None or grant else (MoneyBack(row.refunded_at),),
        # A grant has no money to give back: it was taken away.
        revoked_at=row.revoked_at or row.refunded_at if grant else row.revoked_at,
        told_at=None if grant else row.updated_at,
    )


def _subscription(rows: list[TransactionRow]) -> Subscription:
    ordered = sorted(rows, key=lambda row: (row.purchased_at, row.number or 0, row.id))
    periods: list[Period] = []
    for index, row in enumerate(ordered):
        before = ordered[index - 1] if index else None
        periods.append(_period(row, before, periods[-1] if periods else None))
    last = ordered[-1]
    return Subscription(
        store=last.store,
        id=last.chain,
        environment=last.environment,
        app_id=last.app_id,
        periods=tuple(periods),
        status=replace(last.status, as_of=Moment(max(row.updated_at for row in ordered))),
        ownership=last.ownership,
    )


def _period(row: TransactionRow, before: TransactionRow | None, last: Period | None) -> Period:
    assert row.ends_at is not None, "a subscription's row has an end"
    same: dict[str, Any] = {name: getattr(row, name) for name in _OF_PERIOD}
    return Period(
        **same,
        number=row.number if row.number is not None else last.number + 1 if last is not None else 0,
        cause=row.cause if row.cause is not None else _cause(row, before),
        ends_at=max(row.ends_at, row.purchased_at),
        as_of=Moment(row.updated_at),
        money_back=() if row.refunded_at is None else (MoneyBack(row.refunded_at),),
    )


def _cause(row: TransactionRow, before: TransactionRow | None) -> Cause:
    """Why the period began, where the file does not say. `settle` finds product changes and conversions."""
    first = Cause.TRIAL if row.period_type is PeriodType.TRIAL else Cause.PURCHASE
    if before is None:
        return first if not row.number or row.period_type is PeriodType.TRIAL else Cause.RENEWAL
    assert before.ends_at is not None, "a subscription's row has an end"
    end = max(before.ends_at, before.status.grace_ends_at or 0)
    if row.purchased_at <= end + _NEXT:
        return Cause.RENEWAL
    recovered = before.status.billing_issue_at is not None and row.purchased_at <= end + _LONGEST_RETRY
    resumed = before.status.pause is not None
    return Cause.RENEWAL if recovered or resumed else first


# A purchase's store and its id there.
PurchaseKey = tuple[str, str]


class ImportedPerson(Struct, frozen=True, kw_only=True):
    # The id used last.
    app_user_id: str
    # All ids, the oldest first.
    ids: tuple[str, ...]
    # At 0 where the file does not say when.
    last_seen: LastSeen
    attributes: Mapping[str, Attribute] = msgspec.field(default_factory=dict)
    first_seen_at: Ms | None = None
    balances: Mapping[str, int] = msgspec.field(default_factory=dict)
    rows: tuple[TransactionRow, ...] = ()
    bought: tuple[Subscription | Purchase, ...] = ()
    # The subscriptions whose rows say themselves why each period began.
    settled: frozenset[PurchaseKey] = frozenset()
    # What the store can be asked with, where the file has it.
    tokens: Mapping[PurchaseKey, str] = msgspec.field(default_factory=dict)

    @property
    def keys(self) -> tuple[PurchaseKey, ...]:
        return tuple((purchase.store, purchase.id) for purchase in self.bought)


def person(key: str, transactions: Iterable[TransactionRow], customers: Iterable[CustomerRow]) -> ImportedPerson:
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
    for transaction_row in rows:
        chains.setdefault((transaction_row.store, transaction_row.chain), []).append(transaction_row)
    return ImportedPerson(
        app_user_id=latest.app_user_id,
        ids=tuple(ids),
        attributes=attributes,
        first_seen_at=min((row.first_seen_at for row in told if row.first_seen_at is not None), default=None),
        last_seen=replace(latest.last_seen, at=max((row.last_seen.at for row in told), default=0)),
        balances=latest.balances,
        rows=rows,
        bought=tuple(rebuilt(rows)),
        settled=frozenset(key for key, chain in chains.items() if all(row.cause for row in chain)),
        tokens={key: token for key, chain in chains.items() if (token := _token(chain)) is not None},
    )


def together(one: ImportedPerson, other: ImportedPerson) -> ImportedPerson:
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


def first_seen_of(one: ImportedPerson, now: Ms) -> Ms:
    """As the file says, else when the customer first bought something."""
    known = [one.first_seen_at] if one.first_seen_at is not None else [row.purchased_at for row in one.rows]
    return min([*known, now])


def last_seen_of(one: ImportedPerson, now: Ms) -> LastSeen:
    """As the file says, else when the customer last bought something."""
    bought = [row.purchased_at for row in one.rows if row.purchased_at <= now]
    at = min(one.last_seen.at, now) or max([first_seen_of(one, now), *bought])
    return replace(one.last_seen, at=at)


def new_customer(one: ImportedPerson, project_id: str, record: str, now: Ms) -> Customer:
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
    return replace(customer, balances=dict(sorted(balances.items())), currency_transactions=moved)


def met(customer: Customer, one: ImportedPerson, free: frozenset[str], now: Ms) -> Customer:
    """A customer who is known here already, with those ids of the file that nobody has. The older of the two says
    which id was the first."""
    added = tuple(id for id in one.ids if id in free)
    since = first_seen_of(one, now)
    older = since < customer.first_seen_at
    mine = customer.aliases if not older else tuple(id for id in one.ids if id in free or id in customer.aliases)
    return replace(
        customer,
        original_app_user_id=mine[0] if older and mine else customer.original_app_user_id,
        first_seen_at=min(since, customer.first_seen_at),
        aliases=tuple(dict.fromkeys((*mine, *customer.aliases, *added))),
    )


def taken_in(customer: Customer, one: ImportedPerson, bought: Iterable[Subscription | Purchase], now: Ms) -> Customer:
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
