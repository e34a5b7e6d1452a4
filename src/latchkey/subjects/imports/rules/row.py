"""A row of a file to import, whatever its format: one transaction, or what is known of one customer."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, Customer, LastSeen
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.money.amounts import UNKNOWN, Price
from latchkey.domain.purchases.purchase import Environment, Ownership, Purchase, Terms
from latchkey.domain.purchases.reconciliation import IMPORTED
from latchkey.domain.purchases.subscription import Cause, Moment, PeriodType, Status, Subscription

# How far ahead of the clock a payment may be dated. The App Store charges for a renewal up to a day before the new
# period begins, and dates the payment with the beginning.
AHEAD: Ms = DAY


class RowKind(StrEnum):
    SUBSCRIPTION = "subscription"
    ONE_TIME = "one_time"
    PROMOTIONAL = "promotional"


class RowError(Exception):
    """Why a row cannot be imported, worded for the operator. Values of the row are not repeated: they are personal."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Skip(Struct, frozen=True):
    file: str
    line: int
    reason: str


# Rows wait in the database as arrays: field names would be most of their size. The tag says which kind a row is of.
class TransactionRow(Struct, frozen=True, kw_only=True, array_like=True, tag=0):
    """One period of a subscription, one one-time purchase, or one grant."""

    app_user_id: str
    store: str
    kind: RowKind
    # The store's id of the subscription. Of anything else, the same as `id`.
    chain: str
    id: str
    product_id: str
    purchased_at: Ms
    # When the row was last changed. Of several rows about one transaction the newest counts.
    updated_at: Ms
    app_id: str | None = None
    environment: Environment = Environment.PRODUCTION
    number: int | None = None
    period_type: PeriodType = PeriodType.NORMAL
    # None where the file does not say; then the rows before it tell.
    cause: Cause | None = None
    changed_from: str | None = None
    paid_from: Ms | None = None
    ends_at: Ms | None = None
    price: Price = UNKNOWN
    refunded_at: Ms | None = None
    given_back: int = 0
    country: str | None = None
    terms: Terms | None = None
    ownership: Ownership = Ownership.PURCHASED
    entitlement_id: str | None = None
    credited: int = 0
    revoked_at: Ms | None = None
    resolved_at: Ms | None = None
    # How the subscription stood when the row was written. Counts only on its last row.
    status: Status = Status(as_of=Moment(0))
    # What the store can be asked with, where it is not an id of the row.
    token: str | None = None
    # The lookup key of the offering that it was bought from.
    offering: str | None = None
    offer_code: str | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """The same transaction in another row has the same. Stripe repeats ids, so the number belongs to it."""
        return self.store, self.id, self.number or 0


def happened(row: TransactionRow, now: Ms) -> TransactionRow:
    """The row, if it is about the past. A payment of the future would count in charts at once. A row that says it was
    changed in the future counts as changed now: otherwise everything that the store tells until then would be older."""
    if row.purchased_at > now + AHEAD:
        raise RowError("The purchase is dated in the future.")
    for at, what in ((row.refunded_at, "refund"), (row.revoked_at, "revocation")):
        if at is not None and at > now + AHEAD:
            raise RowError(f"The {what} is dated in the future.")
    return row if row.updated_at <= now else replace(row, updated_at=now)


class CustomerRow(Struct, frozen=True, kw_only=True, array_like=True, tag=1):
    app_user_id: str
    original_app_user_id: str | None = None
    aliases: tuple[str, ...] = ()
    attributes: Mapping[str, Attribute] = msgspec.field(default_factory=dict)
    first_seen_at: Ms | None = None
    # At 0 where the row does not say when.
    last_seen: LastSeen = LastSeen(0)
    balances: Mapping[str, int] = msgspec.field(default_factory=dict)
    # When this was known; 0 where the row does not say.
    as_of: Ms = 0
    # Why parts of the row were not taken, one reason for each part. For the report only.
    left_out: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id, the oldest first as far as the row tells."""
        first = (self.original_app_user_id,) if self.original_app_user_id else ()
        return tuple(dict.fromkeys((*first, *self.aliases, self.app_user_id)))


def is_known_by_another_id(customer: Customer, seen: Subscription | Purchase) -> bool:
    """Whether Stripe has told of this subscription by its own id: one of its periods begins when a known one begins.
    Stripe's invoices tell more than the file, so nothing is lost."""
    if isinstance(seen, Purchase) or not seen.id.startswith(IMPORTED):
        return False
    begun = [
        period.purchased_at
        for known in customer.subscriptions
        if known.store == seen.store and not known.id.startswith(IMPORTED)
        for period in known.periods
    ]
    return any(abs(period.purchased_at - at) <= HOUR for period in seen.periods for at in begun)
