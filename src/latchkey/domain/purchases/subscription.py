"""A subscription as a store reports it: periods that only accumulate, and a status of which the newest moment wins."""

from enum import StrEnum

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import (
    Environment,
    Expired,
    MoneyBack,
    Ownership,
    PartBack,
    Reason,
    Terms,
    merge_parts,
    refunded_at,
)


class PeriodType(StrEnum):
    NORMAL = "normal"
    TRIAL = "trial"
    INTRO = "intro"
    PREPAID = "prepaid"
    PROMOTIONAL = "promotional"


class Cause(StrEnum):
    """Why a period began. The store reports it, so the event does not depend on which notification came first."""

    TRIAL = "trial"
    PURCHASE = "purchase"
    CONVERSION = "conversion"
    RENEWAL = "renewal"
    CHANGE = "change"


class Moment(Struct, frozen=True, order=True):
    """The instant a store's report is about. `revision` orders several reports about the same millisecond."""

    at: Ms
    revision: int = 0


class Period(Struct, frozen=True, kw_only=True):
    """One transaction: a period of access, paid or on trial."""

    id: str
    number: int
    cause: Cause
    product_id: str
    period_type: PeriodType
    purchased_at: Ms
    # Extensions and immediate product changes move the end. The newest report wins, so it has its own moment.
    ends_at: Ms
    as_of: Moment
    price: Price
    changed_from: str | None = None
    money_back: tuple[MoneyBack, ...] = ()
    # When its time begins, if before the payment: a payment recovered within the grace period leaves no gap.
    paid_from: Ms | None = None
    # Millionths of the price that were given back in part. Access stays; a full refund is in `money_back`.
    given_back: int = 0
    # Where it was sold, as the store says: ISO 3166, two letters.
    country: str | None = None
    terms: Terms | None = None
    # The lookup key of the offering it was bought from, as the app says; see `presented`.
    offering: str | None = None
    # The offer code that the customer redeemed, as the store names it.
    offer_code: str | None = None
    # When parts of the price were given back: `given_back` is the amount now, these are the amounts since when.
    parts_back: tuple[PartBack, ...] = ()

    @property
    def order(self) -> tuple[Ms, int, str]:
        return self.purchased_at, self.number, self.id

    @property
    def refunded_at(self) -> Ms | None:
        return refunded_at(self.money_back)

    def refunded_before(self, at: Ms) -> bool:
        """Whether the money was back then."""
        return refunded_at(tuple(back for back in self.money_back if back.at < at)) is not None

    @property
    def parts_told(self) -> tuple[PartBack, ...]:
        """The partial refunds, each since when it is known."""
        if not self.given_back:
            return self.parts_back
        at = max(self.as_of.at, self.purchased_at)
        return merge_parts(*self.parts_back, PartBack(at, self.given_back))

    @property
    def access_ends_at(self) -> Ms:
        # Checked first because most periods were never refunded and every read calls this.
        refunded = self.refunded_at if self.money_back else None
        return self.ends_at if refunded is None else min(self.ends_at, refunded)

    @property
    def starts_at(self) -> Ms:
        """Where its time begins: with the payment, or before it where the payment came late within the grace period."""
        return self.purchased_at if self.paid_from is None else min(self.paid_from, self.purchased_at)

    @property
    def cut_short(self) -> bool:
        """A refund ended its access before its time was over."""
        refunded = self.refunded_at
        return refunded is not None and refunded < self.ends_at


# A pause that ends only when somebody ends it.
UNTIL_RESUMED: Ms = 0


class Pause(Struct, frozen=True):
    """A pause begins when the current period ends."""

    # 0 in the snapshot of a store that does not tell it; `settle` dates it.
    asked_at: Ms
    # UNTIL_RESUMED where no end is planned.
    resumes_at: Ms

    @property
    def ends_at(self) -> Ms | None:
        """When it ends by itself."""
        return self.resumes_at or None


# In a snapshot: the store does not tell here whether a pause is planned. `settle` puts what is known in its place.
PAUSE_NOT_TOLD = Pause(0, -1)


class Status(Struct, frozen=True, kw_only=True):
    as_of: Moment
    auto_renew: bool = True
    renewal_off_at: Ms | None = None
    renewal_off_reason: Reason | None = None
    billing_issue_at: Ms | None = None
    # Until when the store keeps access open beyond the paid time. Without a billing issue: it has not charged yet.
    grace_ends_at: Ms | None = None
    next_product_id: str | None = None
    pause: Pause | None = None
    # Set when the store itself says that the subscription is over.
    ended: Reason | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the store means to go on with the subscription, if it is paid."""
        return self.auto_renew and self.ended is None


class Invoice(Struct, frozen=True):
    id: str
    issued_at: Ms
    total: Price
    terms: Terms | None = None


class Subscription(Struct, frozen=True, kw_only=True):
    """What a store reported (a snapshot has the same shape); `expired` is what time added."""

    store: str
    id: str
    environment: Environment
    periods: tuple[Period, ...]
    status: Status
    app_id: str | None = None
    ownership: Ownership = Ownership.PURCHASED
    invoices: tuple[Invoice, ...] = ()
    expired: Expired | None = None

    @property
    def current(self) -> Period:
        return self.periods[-1]

    @property
    def started_at(self) -> Ms:
        return self.periods[0].purchased_at

    @property
    def order(self) -> tuple[Ms, str, str]:
        """Includes the store, because an id is only unique within its store."""
        return self.started_at, self.id, self.store

    @property
    def in_grace(self) -> bool:
        """The store keeps access open: a payment failed, or the store charges for the next period only some time after
        it has begun. A grace end before the end of the paid time does not count. A refund within the grace period ends
        it; a later one has no effect on it."""
        status, current = self.status, self.current
        if status.grace_ends_at is None or status.grace_ends_at <= current.ends_at:
            return False
        refunded = current.refunded_at
        return refunded is None or refunded >= status.grace_ends_at

    @property
    def access_would_end_at(self) -> Ms:
        """When access ends without a refund: the grace end in a grace period."""
        status, end = self.status, self.current.ends_at
        return end if status.grace_ends_at is None else max(end, status.grace_ends_at)

    @property
    def access_ends_at(self) -> Ms:
        """When access of the current period ends: the grace end in a grace period, the time of the refund after one."""
        refunded = self.current.refunded_at
        return self.access_would_end_at if refunded is None else min(self.access_would_end_at, refunded)

    @property
    def cut_short(self) -> bool:
        """A refund ended access before its time, the grace period included."""
        refunded = self.current.refunded_at
        return refunded is not None and refunded < self.access_would_end_at
