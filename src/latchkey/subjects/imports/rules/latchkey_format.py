"""Latchkey's own import format: the columns of its export, for transactions and for customers.

Also the vendor's Customer List export: customers who may never have bought anything. Purchases come from the
transaction export; what this one says of them is ignored.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, cast

from latchkey.domain.customers.customer import Attribute, LastSeen
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import UNKNOWN, Price
from latchkey.domain.purchases.purchase import USD, Environment, Ownership, Rate, Reason, Terms
from latchkey.domain.purchases.subscription import Cause, Moment, Pause, PeriodType, Status
from latchkey.subjects.imports.rules import cells as read
from latchkey.subjects.imports.rules.person import implied_rate
from latchkey.subjects.imports.rules.row import CustomerRow, RowError, RowKind, TransactionRow

TEMPORARY = "temporary"

Word = TypeVar("Word", bound=StrEnum)


def transaction(cells: Mapping[str, Any], app_ids: Mapping[str, str | None]) -> TransactionRow:
    """`app_ids` says for some stores which app to use instead of the one in the row."""
    kind = _kind(cells)
    store = read.required(read.store_id(cells, "store"), "store")
    id = read.required(read.store_id(cells, "transaction_id"), "transaction_id")
    purchased_at = read.instant(cells, "purchased_at")
    if purchased_at is None:
        raise RowError("purchased_at is empty.")
    ends_at = read.instant(cells, "expires_at")
    if kind is RowKind.SUBSCRIPTION and ends_at is None:
        raise RowError("expires_at is empty: every period of a subscription has an end.")
    if ends_at is not None and ends_at < purchased_at:
        raise RowError("expires_at is before purchased_at.")
    chain = (read.store_id(cells, "subscription_id") if kind is RowKind.SUBSCRIPTION else None) or id
    updated_at = read.instant(cells, "updated_at") or purchased_at
    price = _price(cells)
    refunded_at, back = read.instant(cells, "refunded_at"), read.decimal(cells, "refunded_amount")
    entitlements = read.array(cells, "entitlement_ids")
    if kind is RowKind.PROMOTIONAL and not entitlements:
        raise RowError("entitlement_ids is empty: a grant names its entitlement.")
    return TransactionRow(
        app_user_id=read.required(read.user_id(cells, "app_user_id"), "app_user_id"),
        store=store,
        kind=kind,
        chain=chain,
        id=id,
        product_id=read.required(read.store_id(cells, "product_id"), "product_id"),
        purchased_at=purchased_at,
        updated_at=updated_at,
        app_id=app_ids[store] if store in app_ids else read.store_id(cells, "app_id"),
        environment=_word(cells, "environment", Environment) or Environment.PRODUCTION,
        number=read.integer(cells, "renewal_number"),
        period_type=_word(cells, "period_type", PeriodType) or PeriodType.NORMAL,
        cause=_word(cells, "cause", Cause),
        changed_from=read.store_id(cells, "changed_from"),
        paid_from=read.instant(cells, "starts_at"),
        ends_at=ends_at,
        price=price,
        refunded_at=refunded_at,
        given_back=0 if refunded_at is not None or back is None else min(read.micros(abs(back)), price.micros),
        country=read.country(cells, "country"),
        terms=_terms(cells, price, purchased_at),
        ownership=_word(cells, "ownership_type", Ownership) or Ownership.PURCHASED,
        entitlement_id=entitlements[0] if kind is RowKind.PROMOTIONAL else None,
        credited=read.integer(cells, "credited") or 0,
        revoked_at=read.instant(cells, "revoked_at"),
        resolved_at=read.instant(cells, "resolved_at"),
        status=_status(cells, ends_at or updated_at),
        token=_token(cells),
        offering=read.store_id(cells, "offering"),
        offer_code=read.store_id(cells, "offer_code"),
    )


def customer(cells: Mapping[str, Any]) -> CustomerRow:
    if read.text(cells, "test_clock_id") is not None:
        raise RowError("The customer lives on a test clock, which no import makes.")
    aliases = read.array(cells, "aliases")
    for alias in aliases:
        read.check_user_id(alias, "aliases")
    first_seen_at, last_seen = read.instant(cells, "first_seen_at"), _last_seen(cells, "last_seen_country")
    left_out: list[str] = []
    return CustomerRow(
        app_user_id=read.required(read.user_id(cells, "app_user_id"), "app_user_id"),
        original_app_user_id=read.user_id(cells, "original_app_user_id"),
        aliases=aliases,
        attributes=read.attributes(cells, "attributes", first_seen_at or 0, left_out),
        first_seen_at=first_seen_at,
        last_seen=last_seen,
        balances=_balances(cells),
        as_of=last_seen.at or first_seen_at or 0,
        left_out=tuple(left_out),
    )


def _kind(cells: Mapping[str, Any]) -> RowKind:
    written = read.text(cells, "kind")
    if written == TEMPORARY:
        raise RowError("Temporary access is not imported: the purchase that it stood in for is.")
    if written is None:
        return RowKind.SUBSCRIPTION if read.text(cells, "subscription_id") is not None else RowKind.ONE_TIME
    return _known(written, "kind", RowKind)


def _word(cells: Mapping[str, Any], name: str, words: type[Word]) -> Word | None:
    written = read.text(cells, name)
    return None if written is None else _known(written, name, words)


def _known(written: str, name: str, words: type[Word]) -> Word:
    found = _spelt(words).get(written.lower())
    if found is None:
        raise RowError(f"{name} is none of {', '.join(words)}.")
    return cast(Word, found)


@cache
def _spelt(words: type[StrEnum]) -> dict[str, StrEnum]:
    return {word.value.lower(): word for word in words}


def _price(cells: Mapping[str, Any]) -> Price:
    amount, currency = read.decimal(cells, "price"), read.currency(cells, "currency")
    if amount is None:
        return UNKNOWN
    if amount < 0:
        raise RowError("price is negative.")
    if currency is None:
        raise RowError("currency is empty, though there is a price.")
    return Price(read.micros(amount), currency)


def _terms(cells: Mapping[str, Any], price: Price, at: Ms) -> Terms | None:
    tax = read.fraction(cells, "tax_percentage")
    commission = read.fraction(cells, "commission_percentage")
    rate, usd = read.decimal(cells, "usd_rate"), read.decimal(cells, "usd_price")
    if rate is not None and price.currency != USD:
        if rate <= 0:
            raise RowError("usd_rate is not above 0.")
        day = read.day(read.instant(cells, "usd_rate_date") or at)
        return Terms(Rate(read.required(read.text(cells, "usd_rate"), "usd_rate"), day), tax, commission)
    implied = None if usd is None else implied_rate(price, read.micros(usd), at)
    return None if implied is None and tax is None and commission is None else Terms(implied, tax, commission)


def _status(cells: Mapping[str, Any], end: Ms) -> Status:
    off_at, resumes_at = read.instant(cells, "unsubscribe_detected_at"), read.instant(cells, "auto_resume_at")
    auto_renew, paused_at = read.boolean(cells, "auto_renew"), read.instant(cells, "paused_at")
    return Status(
        as_of=Moment(0),
        auto_renew=off_at is None if auto_renew is None else auto_renew,
        renewal_off_at=off_at,
        renewal_off_reason=_word(cells, "cancellation_reason", Reason),
        billing_issue_at=read.instant(cells, "billing_issues_detected_at"),
        grace_ends_at=read.instant(cells, "grace_period_expires_at"),
        next_product_id=read.store_id(cells, "next_product_id"),
        pause=None if resumes_at is None else Pause(paused_at or end, resumes_at),
        ended=_word(cells, "ended_reason", Reason),
    )


def _token(cells: Mapping[str, Any]) -> str | None:
    token = read.text(cells, "purchase_token")
    if token is not None and (len(token) > 4096 or not token.isascii() or not token.isprintable()):
        raise RowError("purchase_token is too long, or contains characters that no token has.")
    return token


def _balances(cells: Mapping[str, Any]) -> dict[str, int]:
    found = read.object_of(cells, "balances")
    if not all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**53 for one in found.values()):
        raise RowError("balances is not a JSON object of whole numbers.")
    return {code: amount for code, amount in found.items() if amount}


# Columns that are attributes with a reserved name.
_LISTED = "email phone_number media_source campaign ad_group ad keyword creative idfa idfv gps_ad_id"
_RESERVED = {column: "$" + re.sub("_(.)", lambda found: found[1].upper(), column) for column in _LISTED.split()}
_GAP = re.compile(r"[^a-z0-9]+")


def plain(name: str) -> str:
    """`App User ID` is `app_user_id`."""
    return _GAP.sub("_", name.strip().lower()).strip("_")


def is_customer_list(names: Iterable[str]) -> bool:
    return {"app_user_id", "first_seen_at", "last_seen_at"} <= {plain(name) for name in names}


def listed_customer(titled: Mapping[str, Any]) -> CustomerRow:
    cells = {plain(name): value for name, value in titled.items()}
    first_seen_at, last_seen = read.instant(cells, "first_seen_at"), _last_seen(cells, "last_seen_ip_country")
    as_of = last_seen.at or first_seen_at or 0
    left_out: list[str] = []
    noted = _reserved(cells, as_of, left_out) | read.attributes(cells, "custom_attributes", as_of, left_out)
    return CustomerRow(
        app_user_id=read.required(read.user_id(cells, "app_user_id"), "app_user_id"),
        attributes=noted,
        first_seen_at=first_seen_at,
        last_seen=last_seen,
        as_of=as_of,
        left_out=tuple(left_out),
    )


def _last_seen(cells: Mapping[str, Any], country: str) -> LastSeen:
    return LastSeen(
        read.instant(cells, "last_seen_at") or 0,
        read.store_id(cells, "last_seen_platform"),
        read.store_id(cells, "last_seen_platform_version"),
        read.store_id(cells, "last_seen_app_version"),
        read.country(cells, country),
    )


def _reserved(cells: Mapping[str, Any], at: Ms, left_out: list[str]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for column, name in _RESERVED.items():
        value = read.text(cells, column)
        if value is None:
            continue
        if reason := read.problem_with_attribute_here(name, value):
            left_out.append(reason)
        else:
            found[name] = Attribute(value, at)
    return found
