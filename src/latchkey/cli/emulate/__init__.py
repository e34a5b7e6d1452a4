"""`latchkey emulate`: runs an App Store, Google Play or Stripe emulator, and acts in a running emulator."""

from latchkey.cli.emulate.commands import app

__all__ = ["app"]
