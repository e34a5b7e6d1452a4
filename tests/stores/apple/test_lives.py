"""Random lives in the pretend App Store: whatever arrives in whatever order, reading again ends in Apple's state."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from latchkey.domain.instants import DAY, Ms, add, parse_duration
from latchkey.domain.purchases.lifecycle import observe
from latchkey.domain.purchases.purchase import Reason
from latchkey.domain.purchases.settling import settle
from latchkey.domain.purchases.subscription import Moment, Subscription
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple import life as lives
from latchkey.emulators.apple import payloads
from latchkey.emulators.apple.asking import FIRST_PRODUCTS, AnyAct, AskedProduct, AskedSale
from latchkey.emulators.apple.payloads import App
from latchkey.emulators.apple.state import Life, Notice, Purchase
from latchkey.emulators.emulator import converted
from latchkey.stores.adapter import Seen
from latchkey.stores.apple.payloads import RenewalInfo, Transaction, shaped
from latchkey.stores.apple.snapshots import Renewal, purchases

START: Ms = 1_800_000_000_000
APP = App(bundle_id="com.example.shop", app_apple_id=1)
PROMO = {"kind": "promotional", "price": 1.0, "id": "half"}
CODE = {"kind": "code", "discount": "free", "duration": "P2W", "id": "gift"}

steps = st.lists(
    st.sampled_from(
        [
            *({"wait": wait} for wait in ("PT1H", "P3D", "P20D", "P1M", "P4M")),
            *({"act": act} for act in ("cancel", "uncancel", "recover", "refund", "reverse_refund", "decline_refund")),
            *({"act": "fail_billing", "grace_days": days} for days in (0, 16)),
            *({"act": "change", "product_id": id} for id in ("pro_yearly", "team_monthly", "basic_monthly")),
            {"act": "change", "product_id": "team_monthly", "offer": PROMO},
            *({"act": "expire", "reason": why} for why in ("voluntary", "billing", "price_increase", "not_for_sale")),
            {"act": "redeem", "offer": PROMO},
            {"act": "redeem", "offer": CODE},
            {"act": "extend", "days": 7},
            {"act": "price_increase"},
            {"buy": {}},
            {"buy": {"offer": PROMO}},
        ]
    ),
    max_size=12,
)


def lived(trial: bool, wanted: list[dict[str, Any]]) -> tuple[Life, list[Notice], Ms]:
    """A life of one subscription. A step that Apple would refuse is left out."""
    life = Life(products=tuple(converted(one, AskedProduct).product() for one in FIRST_PRODUCTS))
    told: list[Notice] = []
    now = START
    for step in ({"buy": {"trial": trial}}, *wanted):
        with contextlib.suppress(Refusal):
            if "wait" in step:
                now = add(now, parse_duration(step["wait"]))
                life, notices = lives.advance(life, now)
            elif "buy" in step:
                life, notices = converted({"product_id": "pro_monthly", **step["buy"]}, AskedSale).apply(life, now)
            else:
                asked: Any = converted(step, AnyAct)  # type: ignore[arg-type]  # a union is no type to mypy
                life, notices = asked.apply(life, now, next(iter(life.purchases)))
            told += notices
        now += 1_000
    return life, told, now


def heard(life: Life, notice: Notice, signed_at: Ms) -> Seen:
    purchase, transaction = notice.purchase, notice.transaction
    assert purchase is not None
    assert transaction is not None
    [seen] = purchases(
        "app_1",
        [_transaction(life, purchase, transaction, signed_at)],
        _renewal(life, purchase, signed_at),
        complete=False,
    )
    return seen


def read_again(life: Life, signed_at: Ms) -> Seen:
    [purchase] = life.purchases.values()
    transactions = [_transaction(life, purchase, one, signed_at) for one in purchase.transactions]
    [seen] = purchases("app_1", transactions, _renewal(life, purchase, signed_at), complete=True)
    return seen


def _transaction(life: Life, purchase: Purchase, one: Any, signed_at: Ms) -> Transaction:
    return shaped(msgspec.json.encode(payloads.transaction(APP, life, purchase, one, signed_at)), Transaction)


def _renewal(life: Life, purchase: Purchase, signed_at: Ms) -> list[Renewal]:
    told = payloads.renewal(APP, life, purchase, signed_at)
    assert purchase.status is not None
    return [Renewal(shaped(msgspec.json.encode(told), RenewalInfo), int(purchase.status))]


def taken(known: Subscription | None, seen: Seen) -> Subscription:
    assert isinstance(seen.snapshot, Subscription)
    return observe(known, settle(known, seen.snapshot, START, unordered=seen.unordered))


def state(known: Subscription) -> Subscription:
    """Without the moments at which each was told: those depend on what arrived."""
    quiet = Moment(0)
    status = replace(known.status, as_of=quiet, renewal_off_at=None)
    periods = tuple(
        replace(one, as_of=quiet, money_back=() if one.refunded_at is None else one.money_back[-1:])
        for one in known.periods
    )
    return replace(known, status=status, periods=periods)


def without_past_grace(known: Subscription, now: Ms) -> Subscription:
    """Apple tells of a grace period while it runs. Whoever has heard of it knows more than a later reading tells."""
    status = known.status
    if status.grace_ends_at is None or (status.grace_ends_at > now and status.ended is None):
        return known
    issue_at = status.billing_issue_at if status.ended in (None, Reason.BILLING_ERROR) else None
    return replace(known, status=replace(status, grace_ends_at=None, billing_issue_at=issue_at))


@settings(deadline=None, max_examples=150, derandomize=True, database=None)
@given(trial=st.booleans(), wanted=steps, data=st.data())
def test_reading_again_ends_in_the_state_of_the_store(
    trial: bool, wanted: list[dict[str, Any]], data: st.DataObject
) -> None:
    life, told, now = lived(trial, wanted)
    words = [heard(life, notice, notice.at + place) for place, notice in enumerate(told)]
    arrived = data.draw(st.lists(st.sampled_from(words), max_size=len(words)), label="lost, late and doubled")
    known: Subscription | None = None
    for seen in arrived:
        known = taken(known, seen)
    final = read_again(life, now + DAY)
    fresh = taken(None, final)
    assert without_past_grace(state(taken(known, final)), now) == without_past_grace(state(fresh), now)


@settings(deadline=None, max_examples=150, derandomize=True, database=None)
@given(trial=st.booleans(), wanted=steps, data=st.data())
def test_all_notifications_in_any_order_end_in_one_state(
    trial: bool, wanted: list[dict[str, Any]], data: st.DataObject
) -> None:
    life, told, _ = lived(trial, wanted)
    words = [heard(life, notice, notice.at + place) for place, notice in enumerate(told)]
    in_order = shuffled = None
    for seen in words:
        in_order = taken(in_order, seen)
    for seen in data.draw(st.permutations(words)):
        shuffled = taken(shuffled, seen)
    assert in_order is not None
    assert shuffled is not None
    assert state(shuffled) == state(in_order)
