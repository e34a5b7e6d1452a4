"""What a consumer that follows the specification's table makes of Stripe's lives, beside how they stand."""

import contextlib
import random

import pytest

from latchkey.consumer.rules.customer_snapshot import SubscriptionState, state_after_event
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.refusal import Refusal
from tests.stores.adapter_life import Life
from tests.stores.stripe.emulated_stripe import EmulatedStripe, Step
from tests.stores.stripe.test_table import hear_all, nothing

# What an event of each type says, as long as there is access. The last of a change has the last word.
SAYS = {
    EventType.BILLING_ISSUE: "billing_issue",
    EventType.SUBSCRIPTION_PAUSED: "paused",
    EventType.CANCELLATION: "cancelled",
}


# What can happen, with the time that passes before it.
ACTS: tuple[Step, ...] = (
    "P1M",
    "fail_billing",
    "recover",
    "cancel",
    "uncancel",
    ("change", {"product_id": "team_monthly"}),
    ("change", {"product_id": "team_monthly", "proration": "create_prorations"}),
    "pause",
    "resume",
    "refund",
)


@pytest.mark.parametrize("seed", range(60))
async def test_the_last_event_of_a_change_leaves_the_consumer_where_the_subscription_stands(
    life: Life, stripe: EmulatedStripe, seed: int
) -> None:
    dice = random.Random(seed)
    state, number = SubscriptionState(None), 0
    await stripe.do(("buy", {"trial": dice.random() < 0.5}))
    for _ in range(12):
        # Some of what happens is heard of late, and then at once.
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            await stripe.do(dice.choice(["PT1H", "P1D", "P8D"]))
            with contextlib.suppress(Refusal):
                await stripe.do(dice.choice(ACTS))
        await hear_all(life, stripe, nothing)
        told, number = [*life.told.values()][number:], len(life.told)
        for event in told:
            state = state_after_event(event.type, life.has_access(), state)
        stands = [SAYS[event.type] for event in told if event.type in SAYS]
        if told and not life.has_access():
            assert state.subscription_status == "expired"
        elif stands:
            assert state.subscription_status == stands[-1], told
            assert state.billing_issue or stands[-1] != "billing_issue"
        issued = {
            event.transaction_id: place for place, event in enumerate(told) if event.type is EventType.INVOICE_ISSUANCE
        }
        assert all(issued.get(event.transaction_id, place) <= place for place, event in enumerate(told)), told
        assert [event.at for event in told] == sorted(event.at for event in told)
