"""The Stripe emulator."""
