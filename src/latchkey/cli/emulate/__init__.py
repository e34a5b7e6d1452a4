"""`latchkey emulate`: runs a pretend App Store, Google Play or Stripe, and acts in one that runs."""

from latchkey.cli.emulate.commands import app

__all__ = ["app"]
