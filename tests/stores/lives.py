"""Random lives: purchases, and acts on them that the store allows at that moment."""

import random
from typing import Any

from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Refusal
from latchkey.emulators.emulator import ExpectedState
from tests.stores.world import STORES, World

APPLE_ACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cancel", {}),
    ("uncancel", {}),
    ("fail_billing", {}),
    ("fail_billing", {"grace_days": 16}),
    ("recover", {}),
    ("refund", {}),
    ("reverse_refund", {}),
    ("change", {"product_id": "team_monthly"}),
    ("change", {"product_id": "basic_monthly"}),
    ("change", {"product_id": "pro_yearly"}),
    ("extend", {"days": 10}),
)
GOOGLE_ACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cancel", {}),
    ("uncancel", {}),
    ("fail_billing", {}),
    ("recover", {}),
    ("refund", {}),
    ("revoke", {}),
    ("defer", {}),
    ("pause", {}),
    ("resume", {}),
    ("change", {"product_id": "team_monthly:monthly"}),
    ("change", {"product_id": "pro_yearly:yearly"}),
    ("resubscribe", {}),
    ("top_up", {}),
    ("fail_billing", {"grace_days": 7}),
)
STRIPE_ACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cancel", {}),
    ("uncancel", {}),
    ("cancel_now", {}),
    ("fail_billing", {}),
    ("fail_billing", {"then": "unpaid"}),
    ("recover", {}),
    ("refund", {}),
    ("refund", {"amount": 1}),
    ("fail_refund", {}),
    ("dispute", {}),
    ("win_dispute", {}),
    ("pause", {}),
    ("pause", {"for": "P20D"}),
    ("resume", {}),
    ("change", {"product_id": "team_monthly"}),
    ("change", {"product_id": "pro_yearly"}),
    ("change", {"product_id": "team_monthly", "proration": "create_prorations"}),
    ("change", {"product_id": "basic_monthly", "deferred": True}),
    ("extend_trial", {"days": 10}),
)
ACTS = {"apple": APPLE_ACTS, "google": GOOGLE_ACTS, "stripe": STRIPE_ACTS}
SUBSCRIPTIONS = {
    "apple": ("pro_monthly", "pro_yearly", "team_monthly"),
    "stripe": ("pro_monthly", "pro_yearly", "team_monthly"),
    "google": ("pro_monthly:monthly", "pro_yearly:yearly", "team_monthly:monthly", "pro_monthly:prepaid"),
}
FAULTS: dict[str, Any] = {"drop": 0.15, "duplicate": 0.2, "reorder": 0.2, "late": 0.2, "late_by_hours": 9.0}
# The App Store lists what it sent for 180 days. The service asks every few hours; here hardly in time, so that most of
# what was lost is found late. One step of a life is at most 35 days.
HISTORY_READ_EVERY = 140 * DAY
GIVE_BACK = frozenset({"refund", "revoke", "fail_refund", "dispute", "win_dispute"})
ONE_TIME = ("pro_lifetime", "coins_100")


async def live(world: World, seed: int, steps: int = 25, buyers: int = 4) -> None:
    """Some months of several customers. The store misbehaves all the time."""
    dice = random.Random(seed)
    await world.processor.read_histories()
    history_read_at = world.now
    world.store.misbehave(**FAULTS, seed=seed)
    bought: list[str] = []
    for step in range(steps):
        if not bought or dice.random() < 0.25:
            buyer = f"buyer{dice.randrange(buyers)}"
            token = f"00000000-0000-4000-8000-{seed:06d}{buyer[-1]:0>6}" if dice.random() < 0.7 else None
            one_time = dice.random() < 0.2
            product = dice.choice(ONE_TIME if one_time else SUBSCRIPTIONS[world.store.name])
            sale: dict[str, Any] = {"product_id": product, "buyer": buyer, "account_token": token}
            if product in ("pro_monthly", "pro_monthly:monthly") and dice.random() < 0.5:
                sale["trial"] = True
            try:
                bought.append(world.store.sell(**sale))
                if world.store.name == "google":
                    # As the app does. Google takes back what nobody acknowledges, also if the push was lost.
                    world.store.act(bought[-1], "acknowledge")
            except Refusal:
                continue
        else:
            act, options = dice.choice(ACTS[world.store.name])
            at = dice.randrange(len(bought))
            if world.store.name != "apple":
                # What was lost of a refund is in Google's list of voided purchases, by the real clock's last 30 days;
                # this clock is elsewhere. Stripe's list of events is as long. The adapters' own tests read the lists.
                world.store.misbehave(**{**FAULTS, "seed": seed, "drop": 0.0 if act in GIVE_BACK else FAULTS["drop"]})
            if world.store.name == "stripe" and act == "change" and world.store.known(bought[at]).in_trial:
                # Stripe does not date a change that costs nothing, so one that is undone may be lost.
                continue
            try:
                bought[at] = world.store.act(bought[at], act, **options)
            except Refusal:
                continue
        if step % 3 == 0:
            await world.settle()
        if world.now - history_read_at > HISTORY_READ_EVERY:
            await world.processor.read_histories()
            history_read_at = world.now
        await world.move(world.now + dice.choice((HOUR, DAY, 9 * DAY, 35 * DAY)))


async def converges(world: World) -> None:
    """The store behaves again. What was held back arrives; what was lost is made good by asking."""
    await world.store.calm()
    await world.process()
    if world.store.name == "google":
        # Google keeps no list of what it sent. A lost cancellation is found when the paid time is over.
        await world.move(world.now + 400 * DAY, 20 * DAY)
    if world.store.name == "stripe":
        # Stripe lists what it sent for 30 days. What runs longer is read again within that time.
        await world.move(world.now + 35 * DAY, 7 * DAY)
    # The safety net asks within its rhythm; the store's history has what never arrived at all.
    for _ in range(6):
        await world.move(world.now + 8 * HOUR)
        await world.processor.read_histories()
        await world.process()
    await world.move(world.now + 1)
    for truth in world.store.expected_states():
        if not truth.replaced:
            if world.store.name != "apple" and not await world.is_known(truth.id):
                # Google can only be asked about a token. Phones show what they hold at every launch.
                assert (await world.show_receipt(truth.purchase, truth.buyer)).status == 200, truth
                if world.store.name == "google" and truth.ends_at is not None and truth.ends_at < world.now - 60 * DAY:
                    # Google forgets the token of what ended 60 days ago. Nobody has heard of this one.
                    continue
            await agrees(world, truth)
    assert [entry.message for entry in await world.journal(status="failed")] == []


async def agrees(world: World, truth: ExpectedState) -> None:
    customer = await world.owner(truth.id)
    store = STORES[world.store.name]
    known: Subscription | Purchase | None = customer.subscription(store, truth.id)
    if known is None:
        known = customer.purchase(store, truth.id)
    assert known is not None, truth
    if isinstance(known, Purchase):
        _same_refund(world, known.refunded_at, truth)
        assert (known.access_ends_at is None or known.access_ends_at > world.now) == truth.active, truth
        return
    assert (known.access_ends_at > world.now) == truth.active, (truth, known)
    if store != "stripe" or (truth.active and not truth.billing_problem):
        # What Stripe has changed to after the last payment, nobody has paid for.
        assert _product(known.current.product_id) == _product(truth.product_id), (truth, known)
    if store == "app_store" or truth.active:
        assert known.current.ends_at == truth.ends_at, (truth, known)
    else:
        # Of what is over Google tells only when access ended. Whether a grace period was a part of it may be lost.
        # A refund that ended access is dated a millisecond before that.
        assert truth.access_ends_at is not None
        was_told_before = known.access_ends_at == truth.access_had_ended_at
        assert was_told_before or 0 <= truth.access_ends_at - known.access_ends_at <= 1, (truth, known)
    _same_refund(world, known.current.refunded_at, truth)
    if truth.active:
        assert known.status.auto_renew == truth.auto_renew, (truth, known)
        # Google names the product that follows without its plan.
        assert _product(known.status.next_product_id) == _product(truth.next_product_id), (truth, known)
        assert known.access_ends_at == truth.access_ends_at, (truth, known)


def _same_refund(world: World, known: Ms | None, truth: ExpectedState) -> None:
    if world.store.name == "apple":
        assert known == truth.refunded_at, truth
    else:
        # Google dates the voided purchase, the order and the push differently, by moments.
        assert (known is None) == (truth.refunded_at is None), truth


def _product(id: str | None) -> str | None:
    return id.partition(":")[0] if id is not None else None
