"""Store emulators that speak the real protocols, for trying and testing Latchkey without an account at a store."""
