"""How long a store is waited for: when it is asked again, when an attempt is retried, and what waits for its answer."""

from collections.abc import Iterator

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.purchases.lifecycle import awaits_renewal, due_at
from latchkey.domain.purchases.subscription import Subscription

# A store has this long to report a renewal, or the end, before it is asked. Must be less than `RENEWAL_LEEWAY`, so that
# the answer arrives before the EXPIRATION event.
REPORTED_WITHIN: Ms = 2 * HOUR
# A subscription that runs longer is read this often meanwhile. Google forgets a purchase 60 days after its end: a lost
# revocation of a yearly subscription could not be found at the end of the year any more.
READ_EVERY: Ms = 30 * DAY
# An ended subscription is read again for this long.
READ_AFTER_END: Ms = 60 * DAY
# How long the EXPIRATION event waits for a store that was asked and did not answer.
EXPIRATION_WAITS: Ms = 1 * DAY

# Waits after each failed attempt, then the last one again until the entry is too old.
RETRIES: tuple[Ms, ...] = (2 * SECOND, 10 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR)
# If a store cannot be asked for this long, an operator has to act: the entry fails, and can be processed again later.
GIVEN_UP_AFTER: Ms = 3 * DAY

# How far back a store's own history of notifications is compared with the journal the first time.
HISTORY: Ms = 3 * DAY
HISTORY_EVERY: Ms = HOUR
# A notification may be listed a little late.
HISTORY_OVERLAP: Ms = HOUR
# Apple keeps its history for 180 days.
OLDEST_HISTORY: Ms = 179 * DAY

# A receipt with an older signature is not believed where nothing is known of its purchase.
SIGNED_LONG_AGO: Ms = HOUR
# A store may fail just as it is asked about a receipt. So a notification of a new purchase waits for
# receipts of its time.
RECEIPTS_WITHIN: Ms = 2 * MINUTE
# How long it waits for them each time.
RECEIPTS_TAKE: Ms = 30 * SECOND
# Google takes a purchase back after three days without acknowledgement. The app usually acknowledges at once.
ACKNOWLEDGED_AFTER: Ms = 10 * SECOND


def check_at(subscription: Subscription, now: Ms) -> Ms | None:
    """When the store is asked next: after `REPORTED_WITHIN` at the end, then less and less often; before the end every
    `READ_EVERY`."""
    ends = subscription.access_ends_at
    pause = subscription.status.pause
    if pause is not None:
        ends = max(ends, pause.ends_at if pause.ends_at is not None else now + READ_EVERY)
    if ends + REPORTED_WITHIN > now:
        return min(ends + REPORTED_WITHIN, now + READ_EVERY)
    since = now - ends
    return now + max(REPORTED_WITHIN, since // 2) if since < READ_AFTER_END else None


def retry_wait(attempts: int, retry_after: Ms | None = None) -> Ms:
    """The wait after this many failed attempts. A store may ask for a longer one."""
    return max(RETRIES[min(attempts, len(RETRIES)) - 1], retry_after or 0)


def is_given_up(received_at: Ms, attempts: int, now: Ms) -> bool:
    return now - received_at > GIVEN_UP_AFTER and attempts > len(RETRIES)


def history_since(read_to: Ms | None, now: Ms) -> Ms | None:
    """From when on a store's history is read; None if it is not due yet."""
    if read_to is None:
        return now - HISTORY
    return max(read_to - HISTORY_OVERLAP, now - OLDEST_HISTORY) if now - read_to >= HISTORY_EVERY else None


def unreported(customer: Customer, now: Ms) -> Iterator[Subscription]:
    """The subscriptions that end now only because their store reported no renewal. After an outage that proves
    nothing."""
    for subscription in customer.subscriptions:
        due = due_at(subscription) if subscription.expired is None and awaits_renewal(subscription) else None
        if due is not None and due <= now:
            yield subscription
