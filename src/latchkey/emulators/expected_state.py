"""What the store itself thinks of a purchase, in words that do not depend on the store.

Tests compare it with what Latchkey concluded from notifications and API reads.
"""

from dataclasses import dataclass

from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedState:
    # What the control API calls the purchase: Apple's original transaction id, Google's purchase token.
    purchase: str
    # What Latchkey calls it: Apple's original transaction id (of a one-time purchase: the transaction id); Google's
    # order id without a suffix, of the first purchase in a chain of replacements.
    id: str
    buyer: str
    account_token: str | None
    # subscription, prepaid or one_time
    kind: str
    product_id: str
    # How many transactions, or orders, the store keeps of it.
    periods: int
    # Whether the buyer may use it now.
    active: bool
    # When the paid time ends. None for a purchase that does not end.
    ends_at: Ms | None
    # When access ends, with a grace period and with a refund or revocation. None for a purchase that does not end.
    access_ends_at: Ms | None
    auto_renew: bool = False
    in_trial: bool = False
    billing_problem: bool = False
    grace_ends_at: Ms | None = None
    # The moment of the refund of the latest period, if it stands.
    refunded_at: Ms | None = None
    next_product_id: str | None = None
    resumes_at: Ms | None = None
    acknowledged: bool = True
    # Another purchase has taken its place and goes on under the same id.
    replaced: bool = False
    sandbox: bool = True
