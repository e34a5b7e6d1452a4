"""Random lives in a pretend store, from a seed: the same seed lives the same."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.refusal import Refusal
from latchkey.emulators.emulator import Emulator

Between = Callable[[Ms], Awaitable[None]]

_SALES: dict[str, list[dict[str, Any]]] = {
    "apple": [
        {"product_id": "pro_monthly", "trial": True},
        {"product_id": "pro_monthly"},
        {"product_id": "basic_monthly", "intro": True},
        {"product_id": "pro_yearly", "family": True},
        {"product_id": "coins_100"},
        {"product_id": "pro_lifetime"},
    ],
    "google": [
        {"product_id": "pro_monthly:monthly", "trial": True},
        {"product_id": "pro_monthly:monthly"},
        {"product_id": "basic_monthly:monthly", "intro": True},
        {"product_id": "coins_100"},
        {"product_id": "pro_lifetime"},
    ],
    "stripe": [
        {"product_id": "pro_monthly", "trial": True},
        {"product_id": "pro_monthly", "draft_minutes": 60},
        {"product_id": "basic_monthly", "checkout": True},
        {"product_id": "team_monthly"},
        {"product_id": "pro_yearly", "incomplete": True},
        {"product_id": "coins_100"},
        {"product_id": "pro_lifetime"},
    ],
}
_ACTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "apple": [
        ("cancel", {}),
        ("uncancel", {}),
        ("fail_billing", {"grace_days": 16}),
        ("fail_billing", {}),
        ("recover", {}),
        ("refund", {}),
        ("reverse_refund", {}),
        ("change", {"product_id": "team_monthly"}),
        ("change", {"product_id": "basic_monthly"}),
        ("change", {"product_id": "pro_monthly"}),
        ("extend", {"days": 5}),
        ("expire", {"reason": "price_increase"}),
        ("end_family_sharing", {}),
    ],
    "google": [
        ("cancel", {}),
        ("uncancel", {}),
        ("fail_billing", {"grace_days": 7}),
        ("fail_billing", {}),
        ("recover", {}),
        ("refund", {}),
        ("revoke", {}),
        ("pause", {"for": "P1M"}),
        ("resume", {}),
        ("defer", {"days": 5}),
        ("change", {"product_id": "team_monthly:monthly"}),
        ("change", {"product_id": "pro_yearly:yearly", "deferred": True}),
        ("resubscribe", {}),
    ],
    "stripe": [
        ("cancel", {}),
        ("uncancel", {}),
        ("cancel_now", {}),
        ("fail_billing", {}),
        ("fail_billing", {"then": "unpaid"}),
        ("recover", {}),
        ("pay", {}),
        ("refund", {}),
        ("refund", {"amount": 1.5}),
        ("fail_refund", {}),
        ("dispute", {}),
        ("lose_dispute", {}),
        ("win_dispute", {}),
        ("pause", {"for": "P1M"}),
        ("resume", {}),
        ("extend_trial", {"days": 5}),
        ("change", {"product_id": "team_monthly"}),
        ("change", {"product_id": "basic_monthly", "proration": "create_prorations"}),
        ("change", {"product_id": "pro_yearly"}),
        ("change", {"product_id": "pro_yearly", "deferred": True}),
    ],
}


async def live(store: Emulator[Any, Any], seed: int, steps: int, between: Between | None = None) -> None:
    """Sells, acts and lets time pass. What makes no sense at that moment is refused, and something else is drawn. At
    Google every purchase is acknowledged at once."""
    draw = random.Random(seed)
    for _ in range(steps):
        for _ in range(8):
            with contextlib.suppress(Refusal):
                _do_something(store, draw)
                break
        if store.name == "google":
            for one in store.truth():
                if not one.acknowledged:
                    store.act(one.purchase, "acknowledge")
        await store.deliver()
        if between is not None:
            await between(store.clock.now())
        wait = draw.choice([HOUR, HOUR, DAY, 9 * DAY, 33 * DAY])
        await store.move(store.clock.now() + wait, between)


def _do_something(store: Emulator[Any, Any], draw: random.Random) -> None:
    # Replaced and ended purchases have nothing left to happen to them, mostly.
    running = [one.purchase for one in store.truth() if not one.replaced and (one.active or draw.random() < 0.3)]
    if not running or draw.random() < 0.3:
        store.sell(buyer=f"buyer-{draw.randrange(8)}", **draw.choice(_SALES[store.name]))
    else:
        act, options = draw.choice(_ACTS[store.name])
        store.act(draw.choice(running), act, **options)
