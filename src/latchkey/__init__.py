"""Latchkey: self-hosted subscription entitlements."""
