"""From what Apple says of a purchase to a snapshot. Pure: the signatures were checked before."""

import uuid
from collections.abc import Iterable

from msgspec import Struct

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import UNKNOWN, Price
from latchkey.domain.naming import TWO_LETTERS
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Ownership, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.domain.stores.store import APP_STORE
from latchkey.stores.adapter import SeenPurchase
from latchkey.stores.apple.payloads import AppleTransaction, RenewalInfo, environment_of
from latchkey.stores.errors import Malformed


def country_of(storefront: str | None) -> str | None:
    """None where Apple names none, or one that is not known here."""
    return TWO_LETTERS.get(storefront or "")


STORE = APP_STORE

# Apple's `status`.
_ACTIVE, _EXPIRED, _BILLING_RETRY, _GRACE_PERIOD, _REVOKED = 1, 2, 3, 4, 5
# Apple's `expirationIntent`.
_BY_CUSTOMER, _BY_BILLING = 1, 2
_ENDED_BY = {_BY_CUSTOMER: Reason.UNSUBSCRIBE, _BY_BILLING: Reason.BILLING_ERROR, 3: Reason.PRICE_INCREASE}
_INTRODUCTORY_OFFER, _OFFER_CODE = 1, 3
_FREE_TRIAL = "FREE_TRIAL"
# The shortest grace period that can be set up. Apple sometimes names the state without the date.
_SHORTEST_GRACE: Ms = 3 * DAY


class Renewal(Struct, frozen=True):
    """How a subscription stands: its renewal info, and the status beside it where Apple gave one."""

    info: RenewalInfo
    status: int | None = None


def purchases(
    app_id: str, transactions: Iterable[AppleTransaction], renewals: Iterable[Renewal] = (), *, complete: bool
) -> tuple[SeenPurchase, ...]:
    """Every purchase that these transactions belong to. `complete`: Apple was asked for all transactions."""
    subscriptions: dict[str, dict[str, AppleTransaction]] = {}
    single: dict[str, AppleTransaction] = {}
    for transaction in transactions:
        if transaction.is_subscription:
            line = subscriptions.setdefault(transaction.original_transaction_id, {})
        else:
            line = single
        known = line.get(transaction.transaction_id)
        if known is None or known.signed_date <= transaction.signed_date:
            line[transaction.transaction_id] = transaction
    told = {renewal.info.original_transaction_id: renewal for renewal in renewals}
    seen = [
        _subscription(app_id, sorted(line.values(), key=lambda one: one.purchase_date), told.get(id), complete)
        for id, line in subscriptions.items()
    ]
    return (*seen, *(_one_time(app_id, apple_transaction) for apple_transaction in single.values()))


def _subscription(app_id: str, line: list[AppleTransaction], renewal: Renewal | None, complete: bool) -> SeenPurchase:
    latest = line[-1]
    snapshot = Subscription(
        store=STORE,
        id=latest.original_transaction_id,
        app_id=app_id,
        environment=_environment(latest),
        periods=tuple(_period(transaction) for transaction in line),
        status=_without_word(latest) if renewal is None else _status(latest, renewal),
        ownership=_ownership(latest),
    )
    account, complete = _account_token(line), complete or line[0].is_first
    return SeenPurchase(snapshot=snapshot, account_token=account, handle=latest.handle, complete=complete)


def _one_time(app_id: str, transaction: AppleTransaction) -> SeenPurchase:
    revoked_at = transaction.revocation_date
    family_ended = revoked_at is not None and _is_family_end(transaction)
    purchase = Purchase(
        kind=PurchaseKind.ONE_TIME,
        store=STORE,
        id=transaction.transaction_id,
        product_id=transaction.product_id,
        environment=_environment(transaction),
        purchased_at=transaction.purchase_date,
        price=_price(transaction),
        app_id=app_id,
        ends_at=transaction.expires_date,
        ownership=_ownership(transaction),
        country=country_of(transaction.storefront),
        money_back=_money_back(transaction),
        revoked_at=revoked_at if family_ended else None,
        told_at=transaction.signed_date,
        offer_code=_offer_code(transaction),
    )
    return SeenPurchase(snapshot=purchase, account_token=_account_token([transaction]), handle=transaction.handle)


def _period(transaction: AppleTransaction) -> Period:
    if transaction.expires_date is None:
        raise Malformed("Transaction: a subscription without expiresDate")
    ends_at = transaction.expires_date
    if transaction.revocation_date is not None and _is_family_end(transaction):
        ends_at = min(ends_at, transaction.revocation_date)
    return Period(
        id=transaction.transaction_id,
        # Apple does not number renewals; `settle` does.
        number=0,
        cause=_cause(transaction),
        product_id=transaction.product_id,
        period_type=_period_type(transaction),
        purchased_at=transaction.purchase_date,
        ends_at=ends_at,
        as_of=Moment(transaction.signed_date),
        price=_price(transaction),
        country=country_of(transaction.storefront),
        money_back=_money_back(transaction),
        offer_code=_offer_code(transaction),
    )


def _offer_code(transaction: AppleTransaction) -> str | None:
    """Of a code that was redeemed, Apple tells the name of its offer."""
    if transaction.offer_type != _OFFER_CODE or not transaction.offer_identifier:
        return None
    return transaction.offer_identifier.replace("\0", "") or None


def _cause(transaction: AppleTransaction) -> Cause:
    reason = transaction.transaction_reason
    if reason == "RENEWAL" or (reason is None and not transaction.is_first):
        return Cause.RENEWAL
    if _period_type(transaction) is PeriodType.TRIAL:
        return Cause.TRIAL
    # Whoever comes back, or goes on, with an offer for existing subscribers renews.
    with_offer = transaction.offer_type is not None and transaction.offer_type != _INTRODUCTORY_OFFER
    return Cause.RENEWAL if with_offer and not transaction.is_first else Cause.PURCHASE


def _period_type(transaction: AppleTransaction) -> PeriodType:
    if transaction.offer_discount_type == _FREE_TRIAL:
        return PeriodType.TRIAL
    if transaction.offer_discount_type is not None:
        return PeriodType.INTRO
    if transaction.offer_type == _INTRODUCTORY_OFFER:
        # Transactions of before October 2023 do not say of which kind the offer was.
        return PeriodType.TRIAL if transaction.price == 0 else PeriodType.INTRO
    return PeriodType.NORMAL


def _price(transaction: AppleTransaction) -> Price:
    if transaction.is_family_shared or transaction.offer_discount_type == _FREE_TRIAL:
        return Price(0, transaction.currency or "USD")
    if transaction.price is None or transaction.currency is None:
        # Transactions of before October 2023 have no price.
        return UNKNOWN
    return Price(transaction.price * 1000, transaction.currency)


def _money_back(transaction: AppleTransaction) -> tuple[MoneyBack, ...]:
    if transaction.revocation_date is None or _is_family_end(transaction):
        return ()
    return (MoneyBack(transaction.revocation_date),)


def _is_family_end(transaction: AppleTransaction) -> bool:
    """Of a revoked transaction: whether it was shared and is no longer, so that no money went back to this customer."""
    return transaction.is_family_shared or transaction.revocation_type == "FAMILY_REVOKE"


def _unshared_at(latest: AppleTransaction) -> Ms | None:
    """When family sharing ended. Access ends then, also within a grace period."""
    return latest.revocation_date if _is_family_end(latest) else None


def _without_word(latest: AppleTransaction) -> Status:
    """A transaction alone says nothing about renewal, but when it was made renewal was on. Dated then, this never
    replaces what Apple has said since."""
    if (unshared_at := _unshared_at(latest)) is not None:
        return Status(as_of=Moment(unshared_at), ended=Reason.UNKNOWN, grace_ends_at=unshared_at)
    return Status(as_of=Moment(latest.purchase_date))


def _status(latest: AppleTransaction, renewal: Renewal) -> Status:
    info = renewal.info
    stands = _derived(info) if renewal.status is None else renewal.status
    # Apple turns renewal off as well when it gives up on a payment. Then nobody has cancelled.
    given_up = stands == _EXPIRED and info.expiration_intent not in (None, _BY_CUSTOMER)
    # The same when a family member stops sharing.
    unshared = stands == _REVOKED and _is_family_end(latest)
    auto_renew = info.auto_renew_status == 1 or given_up or unshared
    off_reason = Reason.CUSTOMER_SUPPORT if stands == _REVOKED else Reason.UNSUBSCRIBE
    unpaid = stands in (_BILLING_RETRY, _GRACE_PERIOD) or (stands == _EXPIRED and info.expiration_intent == _BY_BILLING)
    next_product = info.auto_renew_product_id if info.auto_renew_product_id != info.product_id else None
    due_at, grace_ends_at = _due_at(latest, info), _unshared_at(latest)
    if grace_ends_at is None and unpaid:
        grace_ends_at = _grace_ends_at(info, stands, due_at)
    return Status(
        as_of=Moment(info.signed_date),
        auto_renew=auto_renew,
        renewal_off_reason=None if auto_renew else off_reason,
        # Apple does not say when the payment failed. The period's end is the same in every reading of one problem.
        billing_issue_at=due_at if unpaid else None,
        grace_ends_at=grace_ends_at,
        next_product_id=next_product if auto_renew else None,
        ended=_ended(latest, info, stands),
    )


def _derived(info: RenewalInfo) -> int:
    if info.is_in_billing_retry_period:
        return _BILLING_RETRY if info.grace_period_expires_date is None else _GRACE_PERIOD
    return _ACTIVE if info.expiration_intent is None else _EXPIRED


def _due_at(latest: AppleTransaction, info: RenewalInfo) -> Ms | None:
    """When the running period ends. A transaction that was refunded or replaced may be an older one."""
    older = latest.revocation_date is not None or latest.is_upgraded
    return info.renewal_date if older and info.renewal_date is not None else latest.expires_date


def _grace_ends_at(info: RenewalInfo, stands: int, due_at: Ms | None) -> Ms | None:
    if info.grace_period_expires_date is not None:
        return info.grace_period_expires_date
    return due_at + _SHORTEST_GRACE if stands == _GRACE_PERIOD and due_at is not None else None


def _ended(latest: AppleTransaction, info: RenewalInfo, stands: int) -> Reason | None:
    if stands == _REVOKED:
        return Reason.UNKNOWN if _is_family_end(latest) else Reason.CUSTOMER_SUPPORT
    if stands != _EXPIRED:
        return None
    off = info.expiration_intent is None and info.auto_renew_status != 1
    return Reason.UNSUBSCRIBE if off else _ENDED_BY.get(info.expiration_intent or 0, Reason.UNKNOWN)


def _ownership(transaction: AppleTransaction) -> Ownership:
    return Ownership.FAMILY_SHARED if transaction.is_family_shared else Ownership.PURCHASED


def _environment(transaction: AppleTransaction) -> Environment:
    environment = environment_of(transaction.environment)
    if environment is None:
        raise Malformed("Transaction: environment is neither Production nor Sandbox")
    return environment


def _account_token(line: list[AppleTransaction]) -> str | None:
    """The newest that the app has given. Apple takes UUIDs only."""
    for transaction in reversed(line):
        try:
            if transaction.app_account_token:
                return str(uuid.UUID(transaction.app_account_token))
        except ValueError:
            continue
    return None
