"""The App Store emulator without a socket: what it signs of the steps of a purchase's life."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import jwt

from latchkey.domain.instants import add, parse_duration
from latchkey.emulators.apple.apple_books import AppleBooks, AppleNotice
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleChain, AppleKeys
from latchkey.emulators.emulator import EmulatorClock
from tests.stores.apple.app_store import APP, PRIVATE_KEY, START, notification

PRODUCTS: tuple[dict[str, Any], ...] = (
    {"id": "yearly", "period": "P365D", "price": 49.99, "level": 1},
    {"id": "monthly", "period": "P30D", "price": 4.99, "trial": "P7D", "level": 2},
    {"id": "quarterly", "period": "P90D", "price": 12.99, "level": 2},
    {"id": "basic", "period": "P30D", "price": 1.99, "level": 3},
    {"id": "coins", "kind": "consumable", "price": 4.99},
    {"id": "lifetime", "kind": "non_consumable", "price": 99.99},
)


class AppStore:
    """The Apple emulator without a socket: gives the signed payloads of what it sends."""

    def __init__(self, chain: AppleChain) -> None:
        keys = AppleKeys(chain, "57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34", PRIVATE_KEY)
        self.emulator = AppleEmulator(keys, APP, AppleBooks(next_id=1), EmulatorClock(starts_at=START, ticks=False))
        for product in PRODUCTS:
            self.emulator.add_product(product)
        self.chain = chain
        self.purchase = ""

    async def do(self, step: Step) -> list[str]:
        before = len(self.emulator.outbox.messages)
        if callable(step):
            return await step(self)
        name, options = step if isinstance(step, tuple) else (step, {})
        if name.startswith("P"):
            await self.emulator.move(add(self.emulator.clock.now(), parse_duration(name)))
        elif name == "buy":
            self.purchase = self.emulator.sell(**{"product_id": "monthly", "buyer": "ann", **options})
        else:
            self.emulator.act(self.purchase, name, **options)
        return [message.content.signed_payload for message in self.emulator.outbox.messages[before:]]


# A duration that passes, an act with its options, or a function that gives signed payloads.
Step = str | tuple[str, dict[str, Any]] | Callable[[AppStore], Awaitable[list[str]]]


def unheard(step: Step) -> Step:
    """Its notifications are lost."""

    async def it(store: AppStore) -> list[str]:
        await store.do(step)
        return []

    return it


def without_renewal(step: Step, **more: Any) -> Step:
    """Apple turns renewal off with it."""
    return altered(step, autoRenewStatus=0, **more)


def altered(step: Step, **renewal: Any) -> Step:
    """Its notifications, with these fields of the renewal info."""

    async def it(store: AppStore) -> list[str]:
        payloads = [decoded(signed) for signed in await store.do(step)]
        for payload in payloads:
            info = decoded(payload["data"]["signedRenewalInfo"])
            payload["data"]["signedRenewalInfo"] = store.chain.sign(info | renewal)
        return [store.chain.sign(payload) for payload in payloads]

    return it


def says(type: str, subtype: str | None = None) -> Step:
    """A notification about the purchase as it stands."""

    async def it(store: AppStore) -> list[str]:
        emulator = store.emulator
        purchase = emulator.books.purchases.get(store.purchase)
        transaction = purchase.latest if purchase else None
        notice = AppleNotice(
            type=type, subtype=subtype, at=emulator.clock.next(), purchase=purchase, transaction=transaction
        )
        return [emulator._message(notice).content.signed_payload]

    return it


def sends(type: str, subtype: str, **more: Any) -> Step:
    """A notification about no purchase."""

    async def it(store: AppStore) -> list[str]:
        return [store.chain.sign(notification(store.chain, type, subtype, **more))]

    return it


def decoded(signed: str) -> dict[str, Any]:
    decoded: dict[str, Any] = jwt.decode(signed, options={"verify_signature": False})
    return decoded
