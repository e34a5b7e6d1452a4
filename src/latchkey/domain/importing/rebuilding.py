"""From rows to what a store would have told: a subscription for each chain, and a purchase for everything else.

The rows may come in any order and repeat each other; the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from latchkey.domain.importing.row import RowKind, Standing, TransactionRow
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.purchases.purchase import MoneyBack, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Moment, Pause, Period, PeriodType, Status, Subscription

# How long stores try a payment again. A period that follows within this time after a failed payment is a renewal.
_LONGEST_RETRY: Ms = 60 * DAY
# Whatever begins this soon after the end of the period before it continues it.
_NEXT: Ms = HOUR


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


def is_settled(rows: Iterable[TransactionRow]) -> bool:
    """Whether the rows say themselves why each period began."""
    return all(row.cause is not None for row in rows)


def _purchase(row: TransactionRow) -> Purchase:
    grant = row.kind is RowKind.PROMOTIONAL
    return Purchase(
        kind=PurchaseKind.PROMOTIONAL if grant else PurchaseKind.ONE_TIME,
        store=row.store,
        id=row.id,
        product_id=row.product_id,
        environment=row.environment,
        purchased_at=row.purchased_at,
        price=row.price,
        app_id=row.app_id,
        ends_at=row.ends_at,
        entitlement_id=row.entitlement_id,
        ownership=row.ownership,
        money_back=() if row.refunded_at is None or grant else (MoneyBack(row.refunded_at),),
        given_back=row.given_back,
        country=row.country,
        terms=row.terms,
        # A grant has no money to give back: it was taken away.
        revoked_at=row.revoked_at or row.refunded_at if grant else row.revoked_at,
        resolved_at=row.resolved_at,
        credited=row.credited,
        told_at=None if grant else row.updated_at,
        offering=row.offering,
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
        status=_status(last, max(row.updated_at for row in ordered)),
        ownership=last.ownership,
    )


def _period(row: TransactionRow, before: TransactionRow | None, last: Period | None) -> Period:
    cause = row.cause if row.cause is not None else _cause(row, before)
    assert row.ends_at is not None, "a subscription's row has an end"
    return Period(
        id=row.id,
        number=row.number if row.number is not None else last.number + 1 if last is not None else 0,
        cause=cause,
        product_id=row.product_id,
        period_type=row.period_type,
        purchased_at=row.purchased_at,
        ends_at=max(row.ends_at, row.purchased_at),
        as_of=Moment(row.updated_at),
        price=row.price,
        changed_from=row.changed_from,
        money_back=() if row.refunded_at is None else (MoneyBack(row.refunded_at),),
        paid_from=row.paid_from,
        given_back=row.given_back,
        country=row.country,
        terms=row.terms,
        offering=row.offering,
    )


def _cause(row: TransactionRow, before: TransactionRow | None) -> Cause:
    """Why the period began, where the file does not say. `settle` finds product changes and conversions."""
    first = Cause.TRIAL if row.period_type is PeriodType.TRIAL else Cause.PURCHASE
    if before is None:
        return first if not row.number or row.period_type is PeriodType.TRIAL else Cause.RENEWAL
    assert before.ends_at is not None, "a subscription's row has an end"
    end = max(before.ends_at, before.standing.grace_ends_at or 0)
    if row.purchased_at <= end + _NEXT:
        return Cause.RENEWAL
    recovered = before.standing.billing_issue_at is not None and row.purchased_at <= end + _LONGEST_RETRY
    resumed = before.standing.resumes_at is not None
    return Cause.RENEWAL if recovered or resumed else first


def _status(last: TransactionRow, as_of: Ms) -> Status:
    standing: Standing = last.standing
    status = Status(
        as_of=Moment(as_of),
        auto_renew=standing.auto_renew,
        renewal_off_at=standing.renewal_off_at,
        renewal_off_reason=standing.renewal_off_reason,
        billing_issue_at=standing.billing_issue_at,
        grace_ends_at=standing.grace_ends_at,
        next_product_id=standing.next_product_id,
        ended=standing.ended,
    )
    if standing.resumes_at is None:
        return status
    asked_at = standing.paused_at or last.ends_at or as_of
    return replace(status, pause=Pause(asked_at, standing.resumes_at))
