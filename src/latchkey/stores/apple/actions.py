"""What Apple does for a developer: it moves the end of a subscription. It cancels and refunds only for the customer."""

from uuid import uuid4

from latchkey.domain.instants import DAY
from latchkey.stores.adapter import ActionTarget, Extension
from latchkey.stores.apple.api import AppStoreApi, Declined, UnknownTransaction
from latchkey.stores.errors import ActionRefused

NO_CANCELLATION = "Apple lets only the customer cancel: in the subscriptions of their Apple account."
NO_REFUND = "Apple alone refunds: the customer asks Apple for it."
MOST_DAYS = 90
# What Apple's refusals mean.
_WORDS = {
    4030004: "The subscription cannot be extended as it stands: only one that is active and paid can.",
    4030005: "Apple has extended this subscription twice in the last 365 days, and does not extend it more often.",
    4030007: "A subscription that came by family sharing is extended with the one that was paid.",
}


async def extend(api: AppStoreApi, target: ActionTarget, extension: Extension) -> None:
    days = _days(target, extension)
    body = {"extendByDays": days, "extendReasonCode": extension.reason, "requestIdentifier": str(uuid4())}
    try:
        await api.extend(target.handle, body, target.environment)
    except UnknownTransaction as error:
        raise ActionRefused(error.message) from None
    except Declined as declined:
        if not declined.code:
            # Not an answer in Apple's form: nobody knows.
            raise
        raise ActionRefused(_WORDS.get(declined.code, declined.message)) from None


def _days(target: ActionTarget, extension: Extension) -> int:
    if not target.subscription or target.ends_at is None:
        raise ActionRefused("Only a subscription that renews can be extended.")
    by = extension.by if extension.by is not None else (extension.until or 0) - target.ends_at
    days, rest = divmod(by, DAY)
    if rest or not 1 <= days <= MOST_DAYS:
        raise ActionRefused(f"Apple extends a subscription by whole days, from 1 to {MOST_DAYS}.")
    return days
