"""The vendor's transaction export, versions 4 and 5: one row is one transaction, with the customer's data repeated.

Columns are found by name, and unknown ones are ignored, because the vendor adds columns. What the export does not tell
is listed in docs/import.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.events.customer_event import event_id
from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.money.amounts import UNKNOWN, Price
from latchkey.domain.purchases.purchase import USD, Environment, Ownership, Reason, Terms
from latchkey.domain.purchases.subscription import Cause, Moment, Pause, PeriodType, Status
from latchkey.domain.stores.store import PLAY_STORE, PROMOTIONAL, store_of
from latchkey.subjects.imports.rules import cells as read
from latchkey.subjects.imports.rules.person import implied_rate
from latchkey.subjects.imports.rules.row import CustomerRow, RowError, RowKind, TransactionRow

# Without these a file is no transaction export.
NEEDED = frozenset(
    {
        *("rc_original_app_user_id", "store", "store_transaction_id", "original_store_transaction_id"),
        *("product_identifier", "start_time", "is_auto_renewable"),
    }
)
_ORDER_NUMBER = re.compile(r"\.\.\d+$")


def transaction(cells: Mapping[str, Any], app_ids: Mapping[str, str | None]) -> TransactionRow:
    """`app_ids` says in which app a store's purchases were made: the export does not."""
    store = read.required(read.store_id(cells, "store"), "store").lower()
    start = read.instant(cells, "start_time")
    if start is None:
        raise RowError("start_time is empty.")
    renews = read.boolean(cells, "is_auto_renewable") is not False
    # A period that renews has an end; whatever else lasts for life has none.
    for_life = LATEST if renews and store != PROMOTIONAL else None
    end = read.end(cells, "end_time", for_life=for_life)
    effective_end = read.end(cells, "effective_end_time", for_life=for_life)
    if store == PLAY_STORE and end is not None and end < start:
        raise RowError("The order was never paid: it ends before it starts.")
    kind = _kind(store, renews, end, effective_end)
    # The export counts from 1, Latchkey from 0.
    counted = read.integer(cells, "renewal_number")
    number = None if counted is None else max(counted - 1, 0)
    id, chain = _ids(cells, store, kind, number, start)
    money = _Money.of(cells)
    refunded_at, ends_at = _ending(cells, money, end, effective_end)
    updated_at = read.instant(cells, "updated_at") or start
    trial = read.boolean(cells, "is_trial_period") is True
    intro = read.boolean(cells, "is_in_intro_offer_period") is True
    entitlements = read.array(cells, "entitlement_identifiers")
    shared = (read.text(cells, "ownership_type") or "").upper() == Ownership.FAMILY_SHARED
    return TransactionRow(
        app_user_id=customer_id(cells),
        store=store,
        kind=kind,
        chain=chain,
        id=id,
        product_id=read.required(read.store_id(cells, "product_identifier"), "product_identifier"),
        purchased_at=start,
        updated_at=updated_at,
        app_id=app_ids.get(store),
        environment=Environment.SANDBOX if read.boolean(cells, "is_sandbox") else Environment.PRODUCTION,
        number=number,
        period_type=PeriodType.TRIAL if trial else PeriodType.INTRO if intro else PeriodType.NORMAL,
        cause=Cause.CONVERSION if read.boolean(cells, "is_trial_conversion") else None,
        ends_at=ends_at,
        price=money.price,
        refunded_at=refunded_at,
        given_back=0 if refunded_at is not None else money.given_back,
        country=read.country(cells, "country"),
        terms=money.terms(cells, start),
        ownership=Ownership.FAMILY_SHARED if shared else Ownership.PURCHASED,
        entitlement_id=entitlements[0] if kind is RowKind.PROMOTIONAL and entitlements else None,
        status=_status(cells, end, ends_at or updated_at),
        offering=read.store_id(cells, "presented_offering"),
    )


def customer_id(cells: Mapping[str, Any]) -> str:
    return read.required(read.user_id(cells, "rc_original_app_user_id"), "rc_original_app_user_id")


def customer(cells: Mapping[str, Any]) -> CustomerRow:
    """The part of a row that is about the customer."""
    original = customer_id(cells)
    last = read.user_id(cells, "rc_last_seen_app_user_id_alias") or original
    as_of = read.instant(cells, "updated_at") or read.instant(cells, "start_time") or 0
    left_out: list[str] = []
    noted = read.attributes(cells, "reserved_subscriber_attributes", as_of, left_out)
    noted |= read.attributes(cells, "custom_subscriber_attributes", as_of, left_out)
    return CustomerRow(
        app_user_id=last,
        original_app_user_id=original,
        attributes=noted,
        first_seen_at=read.instant(cells, "first_seen_time"),
        last_seen=LastSeen(0, read.store_id(cells, "platform"), country=read.country(cells, "country")),
        as_of=as_of,
        left_out=tuple(left_out),
    )


def _kind(store: str, renews: bool, end: Ms | None, effective_end: Ms | None) -> RowKind:
    if store == PROMOTIONAL:
        return RowKind.PROMOTIONAL
    if not renews:
        return RowKind.ONE_TIME
    if end is None and effective_end is None:
        raise RowError("The row renews, but has no end_time.")
    return RowKind.SUBSCRIPTION


def _ids(cells: Mapping[str, Any], store: str, kind: RowKind, number: int | None, start: Ms) -> tuple[str, str]:
    """Of the transaction, and of what it belongs to."""
    id = read.store_id(cells, "store_transaction_id")
    if kind is RowKind.PROMOTIONAL and id is None:
        id = event_id(customer_id(cells), "imported grant", cells.get("product_identifier"), start)
    id = read.required(id, "store_transaction_id")
    if kind is not RowKind.SUBSCRIPTION:
        return id, id
    original = read.store_id(cells, "original_store_transaction_id")
    chain = original or id
    if store == PLAY_STORE:
        chain = _ORDER_NUMBER.sub("", chain)
    ids = store_of(store).exported_ids
    if ids == "shared" or (ids is None and id == original and number):
        id = f"{id}.{number or 0}"
    return id, chain


def _ending(
    cells: Mapping[str, Any], money: _Money, end: Ms | None, effective_end: Ms | None
) -> tuple[Ms | None, Ms | None]:
    """When the whole payment was given back, and when the time ends that was paid for.

    The export tells when a refund was noticed, and when access ended. Where access went on, it was a partial refund, or
    the store left it open: then no refund ends it here either, and what was given back is in `given_back`.
    """
    refunded_at = read.instant(cells, "refunded_at")
    cut = effective_end is not None and (end is None or effective_end < end)
    if refunded_at is None or money.kept:
        return None, effective_end if cut else end
    if end is None:
        return refunded_at, None
    if effective_end is None:
        return refunded_at, end
    if not cut:
        return (None, end) if refunded_at < end else (refunded_at, end)
    return min(refunded_at, effective_end), end


class _Money(Struct, frozen=True):
    # What was paid, and what of it is left after refunds.
    paid: Decimal | None
    left: Decimal | None
    currency: str
    usd: Decimal | None

    @classmethod
    def of(cls, cells: Mapping[str, Any]) -> _Money:
        currency = read.currency(cells, "purchased_currency")
        usd = read.decimal(cells, "purchase_price_in_usd")
        net_usd = read.decimal(cells, "price_in_usd")
        paid = read.decimal(cells, "purchase_price_in_purchased_currency")
        left = read.decimal(cells, "price_in_purchased_currency")
        if currency is not None and (paid is not None or left is not None):
            return cls(paid if paid is not None else left, left if left is not None else paid, currency, usd)
        paid = usd if usd is not None else net_usd
        return cls(paid, net_usd if net_usd is not None else paid, USD, paid)

    @property
    def price(self) -> Price:
        return UNKNOWN if self.paid is None else Price(read.micros(max(self.paid, Decimal(0))), self.currency)

    @property
    def given_back(self) -> int:
        if self.paid is None or self.left is None:
            return 0
        back = read.micros(self.paid) - max(read.micros(self.left), 0)
        return min(max(back, 0), self.price.micros)

    @property
    def kept(self) -> bool:
        """Whether only a part was given back."""
        return self.left is not None and read.micros(self.left) > 0

    def terms(self, cells: Mapping[str, Any], at: Ms) -> Terms | None:
        tax = read.fraction(cells, "tax_percentage")
        commission = read.fraction(cells, "commission_percentage")
        rate = implied_rate(self.price, read.micros(self.usd or Decimal(0)), at)
        return None if rate is None and tax is None and commission is None else Terms(rate, tax, commission)


def _status(cells: Mapping[str, Any], end: Ms | None, paused_at: Ms) -> Status:
    off_at = read.instant(cells, "unsubscribe_detected_at")
    grace_end = read.instant(cells, "grace_period_end_time")
    failed_at = read.instant(cells, "billing_issues_detected_at")
    in_grace = grace_end is not None and end is not None and grace_end > end
    resumes_at = read.instant(cells, "auto_resume_time")
    return Status(
        as_of=Moment(0),
        # Whoever has paused has not cancelled.
        auto_renew=off_at is None or resumes_at is not None,
        renewal_off_at=off_at if resumes_at is None else None,
        renewal_off_reason=Reason.UNSUBSCRIBE if off_at is not None and resumes_at is None else None,
        billing_issue_at=failed_at if failed_at is not None else end if in_grace else None,
        grace_ends_at=grace_end if in_grace else None,
        pause=None if resumes_at is None else Pause(end or paused_at, resumes_at),
    )
