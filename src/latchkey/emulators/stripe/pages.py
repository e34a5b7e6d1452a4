"""The checkout's page, and a stand-in for Stripe.js."""

from __future__ import annotations

from starlette.routing import BaseRoute

from latchkey.emulators.stripe.emulator import StripeEmulator


def routes(store: StripeEmulator) -> list[BaseRoute]:  # noqa: ARG001 - they come next
    return []
